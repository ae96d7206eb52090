import COpenSSL
import SignalingProtocol
import Support

/// TURN servers that admit any client with a credential of their shared secret, as coturn does with `use-auth-secret`
/// (docs/protocol.md, section 1, Welcome).
package struct TurnServers: Sendable, Equatable {
    package let urls: [String]
    private let secret: [UInt8]

    /// The validity of a credential, in seconds.
    package static let life: Int64 = 3_600
    package static let mostURLs = 8
    private static let secretBytes = 1...256
    private static let longestHost = 253

    /// Creates the servers; nil unless there are 1 to 8 URLs, each of the form in RFC 7065, and a secret of 1 to 256
    /// bytes.
    package init?(urls: [String], secret: String) {
        guard (1...Self.mostURLs).contains(urls.count), urls.allSatisfy(Self.isURL),
            Self.secretBytes.contains(secret.utf8.count)
        else { return nil }
        self.urls = urls
        self.secret = Array(secret.utf8)
    }

    /// Whether `text` is `turn:` or `turns:`, a host, and optionally a port and `?transport=udp` or `tcp`.
    package static func isURL(_ text: String) -> Bool {
        guard let scheme = ["turn:", "turns:"].first(where: text.hasPrefix) else { return false }
        var rest = text.dropFirst(scheme.count)
        if let mark = rest.firstIndex(of: "?") {
            guard ["?transport=udp", "?transport=tcp"].contains(rest[mark...]) else { return false }
            rest = rest[..<mark]
        }
        var host = rest
        if rest.hasPrefix("[") {
            guard let end = rest.firstIndex(of: "]") else { return false }
            host = rest[rest.index(after: rest.startIndex)..<end]
            rest = rest[rest.index(after: end)...]
            guard !host.isEmpty,
                host.utf8.allSatisfy({ isHexadecimal($0) || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: ".") })
            else { return false }
        } else {
            host = rest.prefix { $0 != ":" }
            rest = rest.dropFirst(host.count)
            guard !host.isEmpty, host.utf8.count <= longestHost, host.utf8.allSatisfy(isOfName) else { return false }
        }
        guard !rest.isEmpty else { return true }
        guard rest.first == ":", let port = Int(rest.dropFirst()), !rest.dropFirst().hasPrefix("+") else {
            return false
        }
        return (1...65_535).contains(port)
    }

    private static func isHexadecimal(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"),
            UInt8(ascii: "A")...UInt8(ascii: "F"):
            true
        default: false
        }
    }

    private static func isOfName(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"),
            UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-"), UInt8(ascii: "."):
            true
        default: false
        }
    }

    /// Returns credentials for this user, valid from `now` on by the TURN server's clock. The user id is
    /// percent-encoded, so that a colon in it cannot be taken for the end of the time.
    package func credentials(for user: UserID, now: WallTime) -> BellwireIceServer {
        let username = "\(now.seconds + Self.life):\(percentEncoded(user.string))"
        return BellwireIceServer(urls: urls, username: username, credential: code(of: Array(username.utf8)))
    }

    /// Returns the code that TURN servers check: HMAC-SHA1 in base 64.
    private func code(of message: [UInt8]) -> String {
        var code = [UInt8](repeating: 0, count: 20)
        var count: UInt32 = 0
        HMAC(EVP_sha1(), secret, Int32(secret.count), message, message.count, &code, &count)
        // Base 64 makes four characters of three bytes, and OpenSSL ends the text with a zero byte.
        var text = [UInt8](repeating: 0, count: 29)
        let length = EVP_EncodeBlock(&text, code, Int32(code.count))
        return String(decoding: text.prefix(Int(length)), as: UTF8.self)
    }
}
