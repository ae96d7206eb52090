import Foundation
import Synchronization
import Testing

/// Sockets of 127.0.0.1.
enum Loopback {
    private static let given = Mutex<Set<Int>>([])

    /// Returns a port below the ports that the kernel gives to outgoing connections, which could take the port before a
    /// server does. Each port is tried and given once: a second try would take the port from a process that is about to
    /// listen there.
    static func freePort() throws -> Int {
        let (socket, port) = try listener()
        close(socket)
        return port
    }

    /// Returns a socket that listens, and its port. The port is never free in between, so that no other process gets
    /// it.
    static func listener() throws -> (socket: Int32, port: Int) {
        for _ in 0..<1_000 {
            let port = Int.random(in: 10_000..<30_000)
            guard given.withLock({ $0.insert(port).inserted }), let socket = listener(port) else { continue }
            return (socket, port)
        }
        throw POSIXError(.EADDRINUSE)
    }

    /// A socket that listens; nil when another process has the port.
    static func listener(_ port: Int) -> Int32? {
        let socket = newSocket()
        var isOn: Int32 = 1
        setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &isOn, socklen_t(MemoryLayout<Int32>.size))
        if withAddress(port, { bind(socket, $0, $1) }) == 0, listen(socket, 16) == 0 { return socket }
        close(socket)
        return nil
    }

    /// A connected socket; nil when no server listens.
    static func connected(to port: Int) -> Int32? {
        let socket = newSocket()
        if withAddress(port, { connect(socket, $0, $1) }) == 0 { return socket }
        close(socket)
        return nil
    }

    /// Waits for a server to listen, for thirty seconds at most.
    static func isListening(_ port: Int) -> Bool {
        let end = ContinuousClock.now + .seconds(30)
        while ContinuousClock.now < end {
            if let socket = connected(to: port) { return close(socket) == 0 }
            usleep(5_000)
        }
        return false
    }

    private static func newSocket() -> Int32 {
        socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    }

    private static func withAddress(_ port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Int32) -> Int32 {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = in_port_t(port).bigEndian
        address.sin_addr.s_addr = in_addr_t(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
