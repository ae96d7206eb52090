/// The addresses with a common prefix, written `10.0.0.0/8` or `fd00::/8`.
package struct Network: Sendable, Equatable, CustomStringConvertible {
    private let first: IPAddress
    /// The length of the prefix in bits.
    private let length: Int

    /// Returns nil when `cidr` does not have this form. The length is required, also for a single address
    /// (`192.0.2.1/32`), and the address must be the first of the network: `10.1.2.3/8` is more likely a mistake than
    /// intended, and the larger network would be opened unnoticed.
    ///
    /// An IPv4 network may also be written with IPv6 addresses (`::ffff:10.0.0.0/104`). No other IPv6 network, not even
    /// `::/0`, contains IPv4 addresses.
    package init?(_ cidr: String) {
        let parts = cidr.utf8.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        guard parts.count == 2, let text = String(parts[0]), let first = IPAddress(text),
            let number = Self.number(parts[1])
        else { return nil }
        let isMapped = first.family == .v4 && text.utf8.contains(UInt8(ascii: ":"))
        self.init(first, isMapped ? number - 96 : number)
    }

    private init?(_ first: IPAddress, _ length: Int) {
        guard (0...first.family.width).contains(length), first.bits & Self.ownBits(first.family, length) == 0 else {
            return nil
        }
        self.first = first
        self.length = length
    }

    package func contains(_ address: IPAddress) -> Bool {
        address.family == first.family && (address.bits ^ first.bits) >> (first.family.width - length) == 0
    }

    package var description: String { "\(first)/\(length)" }

    /// The bits in which the addresses of a network differ.
    private static func ownBits(_ family: IPAddress.Family, _ length: Int) -> UInt128 {
        UInt128.max >> (128 - (family.width - length))
    }

    /// Returns a number of digits without a sign and without a leading zero.
    private static func number(_ text: Substring.UTF8View) -> Int? {
        guard (1...3).contains(text.count), text.count == 1 || text.first != UInt8(ascii: "0") else { return nil }
        return text.reduce(0) { number, byte in
            let digit = Int(byte) - Int(UInt8(ascii: "0"))
            return number.flatMap { (0...9).contains(digit) ? $0 * 10 + digit : nil }
        }
    }
}
