import Glibc

/// An address of IPv4 or IPv6. An IPv4 address in IPv6 form (`::ffff:192.0.2.1`) counts as the IPv4 address, because a
/// connection to this address leaves the machine as IPv4.
package struct IPAddress: Sendable, Hashable, CustomStringConvertible {
    package enum Family: Sendable {
        case v4
        case v6

        /// The number of bits.
        var width: Int { self == .v4 ? 32 : 128 }
    }

    package let family: Family
    /// The address as a number of the family's width.
    let bits: UInt128

    init(v4 bits: UInt32) {
        family = .v4
        self.bits = UInt128(bits)
    }

    init(v6 bits: UInt128) {
        let isMapped = bits >> 32 == 0xFFFF
        family = isMapped ? .v4 : .v6
        self.bits = isMapped ? bits & 0xFFFF_FFFF : bits
    }

    /// Returns nil when `text` is no numeric address: `192.0.2.1` or `2001:db8::1`, without port, brackets and zone.
    package init?(_ text: String) {
        // C functions would stop reading at a zero byte.
        guard !text.utf8.contains(0) else { return nil }
        var v4 = in_addr()
        var v6 = in6_addr()
        if inet_pton(AF_INET, text, &v4) == 1 {
            self.init(v4: UInt32(bigEndian: v4.s_addr))
        } else if inet_pton(AF_INET6, text, &v6) == 1 {
            self.init(v6)
        } else {
            return nil
        }
    }

    init(_ address: in6_addr) {
        self.init(v6: withUnsafeBytes(of: address) { $0.reduce(0) { $0 << 8 | UInt128($1) } })
    }

    package var description: String {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: Int(INET6_ADDRSTRLEN)) { text in
            withUnsafeTemporaryAllocation(of: UInt8.self, capacity: family.width / 8) { bytes in
                for index in bytes.indices {
                    bytes[index] = UInt8(truncatingIfNeeded: bits >> (family.width - 8 * (index + 1)))
                }
                _ = inet_ntop(
                    family == .v4 ? AF_INET : AF_INET6, bytes.baseAddress, text.baseAddress, socklen_t(text.count))
            }
            return String(cString: text.baseAddress!)
        }
    }
}
