/// Where a request to a stranger's URL may go: to public addresses at the port of HTTPS, and wherever its networks say.
package struct AddressRules: Sendable, Equatable {
    /// Networks in which every address and every port may be asked.
    package let allowedNetworks: [Network]

    /// The one port at public addresses that are not in an allowed network: at others are services that do not expect strangers.
    package static let publicPort = 443

    package init(allowedNetworks: [Network] = []) { self.allowedNetworks = allowedNetworks }

    /// Why `address` may not be asked at `port`; nil when it may. Addresses that lead to an IPv4 address by translation are judged by
    /// that one, but an allowed IPv4 network does not open them.
    package func refuses(_ address: IPAddress, port: Int = publicPort) -> String? {
        if allowedNetworks.contains(where: { $0.contains(address) }) { return nil }
        if let kind = address.specialKind { return "\(address) is \(kind)" }
        guard port == Self.publicPort else {
            return "\(address) may be asked at port \(Self.publicPort) only, not at \(port)"
        }
        return nil
    }
}
