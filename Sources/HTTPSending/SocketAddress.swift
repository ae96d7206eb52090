import CCurl
import Glibc

/// An address and port to which a socket may connect.
struct SocketAddress: Hashable {
    let address: IPAddress
    let port: Int

    /// Returns nil when `text` is no numeric address.
    init?(_ text: String, port: Int) {
        // The zone of a link-local address is no part of the address.
        guard let address = IPAddress(String(text.prefix { $0 != "%" })) else { return nil }
        self.address = address
        self.port = port
    }

    /// The address to which curl is about to connect; nil when its family is neither IPv4 nor IPv6.
    init?(_ address: UnsafePointer<curl_sockaddr>) {
        guard let offset = MemoryLayout<curl_sockaddr>.offset(of: \.addr) else { return nil }
        // The address may be longer than the structure declares: curl reserves room for any address there.
        self.init(address.pointee.family, UnsafeRawPointer(address) + offset, Int(address.pointee.addrlen))
    }

    /// Returns nil when the family is neither IPv4 nor IPv6.
    /// - Parameter bytes: the address in the system's representation.
    init?(_ family: Int32, _ bytes: UnsafeRawPointer, _ length: Int) {
        switch (family, length) {
        case (AF_INET, MemoryLayout<sockaddr_in>.size...):
            let address = bytes.loadUnaligned(as: sockaddr_in.self)
            guard address.sin_family == sa_family_t(AF_INET) else { return nil }
            self.address = IPAddress(v4: UInt32(bigEndian: address.sin_addr.s_addr))
            port = Int(UInt16(bigEndian: address.sin_port))
        case (AF_INET6, MemoryLayout<sockaddr_in6>.size...):
            let address = bytes.loadUnaligned(as: sockaddr_in6.self)
            guard address.sin6_family == sa_family_t(AF_INET6) else { return nil }
            self.address = IPAddress(address.sin6_addr)
            port = Int(UInt16(bigEndian: address.sin6_port))
        default: return nil
        }
    }
}
