import Glibc

/// Whose connections are counted together: an address of IPv4, or the 64 bits that an operator gives one customer of IPv6.
struct ClientAddress: Hashable, Sendable {
    private let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Nil for a connection that has no such address.
    init?(_ address: UnsafePointer<sockaddr>?) {
        guard let address else { return nil }
        switch Int32(address.pointee.sa_family) {
        case AF_INET:
            bytes = address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                withUnsafeBytes(of: $0.pointee.sin_addr) { Array($0) }
            }
        case AF_INET6:
            let whole = address.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                withUnsafeBytes(of: $0.pointee.sin6_addr) { Array($0) }
            }
            // An address of IPv4 at a socket of both kinds (RFC 4291, section 2.5.5.2).
            let isIPv4 = whole.starts(with: [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF])
            bytes = isIPv4 ? Array(whole[12...]) : Array(whole[..<8])
        default: return nil
        }
    }
}
