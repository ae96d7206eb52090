import Glibc

/// A listening socket.
struct ListeningSocket {
    let descriptor: Int32
    /// The bound port, also when port 0 was requested.
    let port: Int

    struct Problem: Error {
        let reason: String
    }

    init(host: String, port: Int) throws(Problem) {
        var hints = addrinfo()
        hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
        hints.ai_flags = AI_PASSIVE
        var found: UnsafeMutablePointer<addrinfo>?
        let code = getaddrinfo(host, String(port), &hints, &found)
        guard code == 0, let address = found?.pointee else {
            throw Problem(reason: String(cString: gai_strerror(code)))
        }
        defer { freeaddrinfo(found) }
        let kind = address.ai_socktype | Int32(SOCK_CLOEXEC.rawValue)
        let descriptor = socket(address.ai_family, kind, address.ai_protocol)
        var on: Int32 = 1
        setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        guard descriptor >= 0, bind(descriptor, address.ai_addr, address.ai_addrlen) == 0,
            listen(descriptor, Self.mostWaiting) == 0
        else {
            let reason = String(cString: strerror(errno))
            if descriptor >= 0 { close(descriptor) }
            throw Problem(reason: reason)
        }
        self.descriptor = descriptor
        self.port = Self.boundPort(descriptor) ?? port
    }

    /// The bound of connections that are not accepted yet, large enough for a burst.
    private static let mostWaiting: Int32 = 1_024

    private static func boundPort(_ descriptor: Int32) -> Int? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return withUnsafeMutablePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                guard getsockname(descriptor, address, &length) == 0 else { return nil }
                // The port has the same offset for IPv4 and IPv6.
                return address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                    Int(UInt16(bigEndian: $0.pointee.sin_port))
                }
            }
        }
    }
}
