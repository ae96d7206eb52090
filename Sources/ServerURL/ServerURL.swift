/// The address of a server: `scheme://[user[:password]@]host[:port][/path]`, strictly read.
public struct ServerURL: Sendable, Equatable {
    public let scheme: String
    /// Percent-decoded, like the password.
    public let username: String?
    public let password: String?
    /// A name or an address; an IPv6 address without its brackets.
    public let host: String
    public let port: Int?
    /// Without the leading slash; empty when there is none.
    public let path: String

    /// Nil when `text` is not of this form.
    public init?(_ text: String) {
        guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")), text[colon...].hasPrefix("://") else {
            return nil
        }
        scheme = String(text[..<colon])
        var rest = text[text.index(colon, offsetBy: 3)...]
        if let slash = rest.firstIndex(of: "/") {
            path = String(rest[rest.index(after: slash)...])
            rest = rest[..<slash]
        } else {
            path = ""
        }
        if let at = rest.lastIndex(of: "@") {
            let parts = rest[..<at].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard let user = Self.decode(parts[0]), let secret = parts.count == 2 ? Self.decode(parts[1]) : "" else {
                return nil
            }
            guard !user.isEmpty || parts.count == 2 else { return nil }
            username = user.isEmpty ? nil : user
            password = parts.count == 2 ? secret : nil
            rest = rest[rest.index(after: at)...]
        } else {
            username = nil
            password = nil
        }
        let hostEnd: Substring.Index
        if rest.hasPrefix("["), let end = rest.firstIndex(of: "]") {
            host = String(rest[rest.index(after: rest.startIndex)..<end])
            hostEnd = rest.index(after: end)
        } else {
            hostEnd = rest.firstIndex(of: ":") ?? rest.endIndex
            host = String(rest[..<hostEnd])
        }
        guard !host.isEmpty, host.utf8.allSatisfy(Self.isHostByte) else { return nil }
        rest = rest[hostEnd...]
        guard rest.hasPrefix(":") else {
            guard rest.isEmpty else { return nil }
            port = nil
            return
        }
        let digits = rest.dropFirst()
        guard digits.utf8.allSatisfy(Self.isDigit), let number = Int(digits), (1...65535).contains(number) else {
            return nil
        }
        port = number
    }

    /// How host and port are written, with the brackets of an IPv6 address.
    public static func authority(host: String, port: Int) -> String {
        "\(host.contains(":") ? "[\(host)]" : host):\(port)"
    }

    private static func decode(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8.makeIterator()
        while let byte = rest.next() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let high = rest.next().flatMap(hexValue), let low = rest.next().flatMap(hexValue) else { return nil }
            bytes.append(high << 4 | low)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        UInt8(String(decoding: [byte], as: UTF8.self), radix: 16)
    }

    private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }

    /// Letters, digits, and what stands in names and in IPv6 addresses.
    private static func isHostByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "."),
            UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: ":"), UInt8(ascii: "%"):
            true
        default: isDigit(byte) || byte >= 0x80
        }
    }
}
