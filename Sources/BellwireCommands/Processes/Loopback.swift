import Glibc
import Synchronization

/// The ports of 127.0.0.1.
package enum Loopback {
    /// Whether a server could listen on the port. Former connections of the port that are still closing do not matter.
    static func isFree(_ port: Int) -> Bool {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(descriptor) }
        var on: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        return withAddress(port) { bind(descriptor, $0, $1) == 0 }
    }

    /// The range is below the ports that the kernel gives to outgoing connections, since such a connection could take a
    /// port before the server does.
    private static let servers = 10_000..<30_000
    private static let given = Mutex<Set<Int>>([])

    /// Returns a port without a listener. Each port is returned only once.
    package static func freePort() throws(DeploymentError) -> Int {
        for _ in 0..<1_000 {
            let port = Int.random(in: servers)
            if isFree(port), given.withLock({ $0.insert(port).inserted }) { return port }
        }
        throw DeploymentError("no free port between \(servers.lowerBound) and \(servers.upperBound)")
    }

    /// Returns a connection to the port; nil when no process listens there.
    package static func connected(to port: Int) -> Int32? {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        guard withAddress(port, { connect(descriptor, $0, $1) == 0 }) else {
            close(descriptor)
            return nil
        }
        return descriptor
    }

    /// Returns the whole answer to a GET; nil without an answer.
    package static func get(_ path: String, port: Int) -> String? {
        guard let descriptor = connected(to: port) else { return nil }
        defer { close(descriptor) }
        let request = Array("GET \(path) HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".utf8)
        guard write(descriptor, request, request.count) == request.count else { return nil }
        var answer: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = read(descriptor, &buffer, buffer.count)
            guard count > 0 else { return String(decoding: answer, as: UTF8.self) }
            answer += buffer[..<count]
        }
    }

    private static func withAddress<Result>(
        _ port: Int, _ body: (UnsafePointer<sockaddr>, socklen_t) -> Result
    ) -> Result {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = UInt16(port).bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        return withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                body($0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
    }
}
