/// The allowed addresses for requests to strangers' URLs: public addresses at the port of HTTPS, and the allowed
/// networks.
package struct AddressRules: Sendable, Equatable {
    /// The networks in which all addresses and ports are allowed.
    package let allowedNetworks: [Network]

    /// The only allowed port at public addresses outside the allowed networks. Services at other ports do not expect
    /// requests from strangers.
    package static let publicPort = 443

    package init(allowedNetworks: [Network] = []) { self.allowedNetworks = allowedNetworks }

    /// Returns the reason why `address` is not allowed at `port`; nil for an allowed address. An address that is
    /// translated to an IPv4 address follows the rules of that IPv4 address, but an allowed IPv4 network does not allow
    /// such an address.
    package func refuses(_ address: IPAddress, port: Int = publicPort) -> String? {
        if allowedNetworks.contains(where: { $0.contains(address) }) { return nil }
        if let kind = address.specialKind { return "\(address) is \(kind)" }
        guard port == Self.publicPort else {
            return "\(address) may be asked at port \(Self.publicPort) only, not at \(port)"
        }
        return nil
    }
}
