import Glibc

/// The address for counting a client's connections: an IPv4 address, or the first 64 bits of an IPv6 address, because a
/// network operator assigns these bits to each customer.
struct ClientAddress: Hashable, Sendable {
    private let bytes: [UInt8]

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Returns nil for a connection of another address family.
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
            // An IPv4 client at a socket of both families has this form (RFC 4291, section 2.5.5.2).
            let isIPv4 = whole.starts(with: [UInt8](repeating: 0, count: 10) + [0xFF, 0xFF])
            bytes = isIPv4 ? Array(whole[12...]) : Array(whole[..<8])
        default: return nil
        }
    }
}
