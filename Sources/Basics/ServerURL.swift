/// The address of a server, `scheme://[user[:password]@]host[:port][/path]`, parsed strictly.
package struct ServerURL: Sendable, Equatable {
    package let scheme: String
    /// The user name, percent-decoded; the password is percent-decoded too.
    package let username: String?
    package let password: String?
    /// A host name or an address; an IPv6 address stands without brackets.
    package let host: String
    package let port: Int?
    /// The path without the leading slash; empty when the address has no path.
    package let path: String

    /// Returns nil when `text` does not have this form. The text is read byte by byte, because Swift would join a
    /// delimiter and a combining mark that follows into a single `Character`.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard let colon = bytes.firstIndex(of: UInt8(ascii: ":")), bytes[colon...].starts(with: "://".utf8) else {
            return nil
        }
        scheme = Self.text(bytes[..<colon])
        var rest = bytes[(colon + 3)...]
        if let slash = rest.firstIndex(of: UInt8(ascii: "/")) {
            path = Self.text(rest[(slash + 1)...])
            rest = rest[..<slash]
        } else {
            path = ""
        }
        if let at = rest.lastIndex(of: UInt8(ascii: "@")) {
            let parts = rest[..<at].split(
                separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
            guard let user = Self.decode(parts[0]), let secret = parts.count == 2 ? Self.decode(parts[1]) : "" else {
                return nil
            }
            guard !user.isEmpty || parts.count == 2 else { return nil }
            username = user.isEmpty ? nil : user
            password = parts.count == 2 ? secret : nil
            rest = rest[(at + 1)...]
        } else {
            username = nil
            password = nil
        }
        let hostEnd: Int
        if rest.first == UInt8(ascii: "["), let end = rest.firstIndex(of: UInt8(ascii: "]")) {
            host = Self.text(rest[(rest.startIndex + 1)..<end])
            hostEnd = end + 1
        } else {
            hostEnd = rest.firstIndex(of: UInt8(ascii: ":")) ?? rest.endIndex
            host = Self.text(rest[..<hostEnd])
        }
        guard !host.isEmpty, host.utf8.allSatisfy(Self.isHostByte) else { return nil }
        rest = rest[hostEnd...]
        guard rest.first == UInt8(ascii: ":") else {
            guard rest.isEmpty else { return nil }
            port = nil
            return
        }
        let digits = rest.dropFirst()
        guard digits.allSatisfy(Self.isDigit), let number = Int(Self.text(digits)), (1...65535).contains(number) else {
            return nil
        }
        port = number
    }

    /// Returns host and port as a URL has them, with brackets around an IPv6 address.
    package static func authority(host: String, port: Int) -> String {
        "\(host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host):\(port)"
    }

    /// Returns the text of a part of the address. All delimiters are ASCII, so no character is cut in two.
    private static func text(_ bytes: ArraySlice<UInt8>) -> String { String(decoding: bytes, as: UTF8.self) }

    private static func decode(_ text: ArraySlice<UInt8>) -> String? {
        var bytes: [UInt8] = []
        var rest = text.makeIterator()
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

    /// Whether a host may contain this byte: a letter, a digit, or another byte of host names and IPv6 addresses.
    private static func isHostByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "."),
            UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: ":"), UInt8(ascii: "%"):
            true
        default: isDigit(byte) || byte >= 0x80
        }
    }
}
