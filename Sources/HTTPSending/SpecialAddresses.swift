/// Addresses that belong to no host on the public internet: a stranger who names such an address wants to reach an
/// internal network (IANA's special-purpose address registries; RFC 6890).
extension IPAddress {
    /// The kind of a special address, as a reason; nil for an ordinary public address.
    var specialKind: String? {
        guard family == .v6 else { return Self.kind(of: self, Self.specialV4) }
        if let inside {
            return inside.specialKind.map { "a way to \(inside), \($0)" }
        }
        if let kind = Self.kind(of: self, Self.specialV6) { return kind }
        return Self.globalUnicast.contains(self) ? nil : "not a public address"
    }

    /// The IPv4 address that gets packets for this address from a translator (NAT64, RFC 6052) or a relay (6to4, RFC
    /// 3056).
    private var inside: IPAddress? {
        if Self.translated.contains(self) { return IPAddress(v4: UInt32(truncatingIfNeeded: bits)) }
        if Self.relayed.contains(self) { return IPAddress(v4: UInt32(truncatingIfNeeded: bits >> 80)) }
        return nil
    }

    private static let translated = network("64:ff9b::/96")
    private static let relayed = network("2002::/16")
    /// The range of all public IPv6 addresses so far (RFC 4291, section 2.4). Addresses outside this range are refused
    /// as "not a public address".
    private static let globalUnicast = network("2000::/3")

    private static let specialV4: [(network: Network, kind: String)] = [
        (network("0.0.0.0/8"), "an address of this host"),
        (network("10.0.0.0/8"), "a private address"),
        (network("100.64.0.0/10"), "an address behind a carrier's translation"),
        (network("127.0.0.0/8"), "a loopback address"),
        (network("169.254.0.0/16"), "a link-local address"),
        (network("172.16.0.0/12"), "a private address"),
        (network("192.0.0.0/24"), "an address for protocols"),
        (network("192.0.2.0/24"), "an address for documentation"),
        (network("192.88.99.0/24"), "an address of 6to4 relays"),
        (network("192.168.0.0/16"), "a private address"),
        (network("198.18.0.0/15"), "an address for benchmarks"),
        (network("198.51.100.0/24"), "an address for documentation"),
        (network("203.0.113.0/24"), "an address for documentation"),
        (network("224.0.0.0/4"), "a multicast address"),
        (network("255.255.255.255/32"), "the broadcast address"),
        (network("240.0.0.0/4"), "a reserved address"),
    ]

    /// The first matching network determines the kind.
    private static let specialV6: [(network: Network, kind: String)] = [
        (network("::/128"), "the unspecified address"),
        (network("::1/128"), "a loopback address"),
        (network("::/96"), "an IPv4-compatible address"),
        (network("64:ff9b:1::/48"), "an address of a local translator"),
        (network("100::/64"), "an address that discards"),
        (network("2001::/23"), "an address for protocols"),
        (network("2001:db8::/32"), "an address for documentation"),
        (network("3fff::/20"), "an address for documentation"),
        (network("5f00::/16"), "an address for segment routing"),
        (network("fc00::/7"), "a private address"),
        (network("fe80::/10"), "a link-local address"),
        (network("fec0::/10"), "a site-local address"),
        (network("ff00::/8"), "a multicast address"),
    ]

    private static func kind(of address: IPAddress, _ table: [(network: Network, kind: String)]) -> String? {
        table.first { $0.network.contains(address) }?.kind
    }

    private static func network(_ cidr: String) -> Network {
        guard let network = Network(cidr) else { preconditionFailure("\(cidr) is no network") }
        return network
    }
}
