import Glibc

/// The sockets of curl's connections. Each has a number that is never used again, because descriptors are reused.
final class OpenSockets {
    private var numbers: [Int32: Int] = [:]
    private var last = 0

    /// Milliseconds.
    private static let patience: UInt32 = 5_000

    /// Opens a socket; returns nil when the system opens no socket (`errno` says why). A shared connection ends when
    /// sent bytes stay unacknowledged for too long, because other requests would meanwhile be sent on this connection.
    func open(_ family: Int32, _ kind: Int32, _ protocol: Int32, isShared: Bool) -> (descriptor: Int32, number: Int)? {
        let descriptor = socket(family, kind | Int32(SOCK_CLOEXEC.rawValue), `protocol`)
        guard descriptor >= 0 else { return nil }
        if isShared {
            var patience = Self.patience
            setsockopt(
                descriptor, Int32(IPPROTO_TCP), TCP_USER_TIMEOUT, &patience, socklen_t(MemoryLayout<UInt32>.size))
        }
        last += 1
        numbers[descriptor] = last
        return (descriptor, last)
    }

    func close(_ descriptor: Int32) -> Int32 {
        numbers[descriptor] = nil
        return Glibc.close(descriptor)
    }

    /// Ends the connection with these two addresses: its requests fail, and no further request uses the connection.
    func end(_ way: ConnectionWay) {
        // Whole addresses are compared, because two connections to different addresses may have the same ports.
        guard let local = way.local, let remote = way.remote else { return }
        for descriptor in numbers.keys where address(descriptor, getsockname) == local {
            if address(descriptor, getpeername) == remote { shutdown(descriptor, Int32(SHUT_RDWR)) }
        }
    }

    private func address(
        _ descriptor: Int32, _ read: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32
    ) -> SocketAddress? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                guard read(descriptor, address, &length) == 0 else { return nil }
                return SocketAddress(Int32(address.pointee.sa_family), UnsafeRawPointer(address), Int(length))
            }
        }
    }

    func isOpen(_ number: Int) -> Bool { numbers.values.contains(number) }
}

/// The two addresses of a connection.
struct ConnectionWay: Hashable {
    /// Nil where curl does not give a numeric address.
    let local: SocketAddress?
    let remote: SocketAddress?
}
