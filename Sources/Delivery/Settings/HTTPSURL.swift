import Basics
import Glibc
import Support

/// An absolute `https` URL from an operator's settings, strictly parsed.
package struct HTTPSURL: Equatable, Sendable, CustomStringConvertible {
    package static let maxBytes = 2048
    private static let scheme = "https://"

    /// The URL as the operator wrote it.
    package let text: String
    /// A host name or an address; an IPv6 address without its brackets.
    package let host: String
    package let port: Int
    /// The request target: path and query; at least `/`.
    package let target: String

    /// Scheme, host and port only, because path and query may hold a secret of the server.
    package var description: String { "https://\(ServerURL.authority(host: host, port: port))/…" }

    /// Throws a `SettingsError` without any part of the URL in its text.
    package init(_ text: String, maxBytes: Int = maxBytes) throws(SettingsError) {
        let bytes = Array(text.utf8)
        guard bytes.count <= maxBytes else { throw SettingsError("longer than \(maxBytes) bytes") }
        guard bytes.prefix(Self.scheme.utf8.count).map(lowercased).elementsEqual(Self.scheme.utf8) else {
            throw SettingsError("expected a URL that begins with \(Self.scheme)")
        }
        guard bytes.allSatisfy(isAllowed) else {
            throw SettingsError("a character that must be percent-encoded in a URL")
        }
        guard !bytes.contains(UInt8(ascii: "#")) else {
            throw SettingsError("the URL of a request has no fragment (#)")
        }
        let rest = bytes.dropFirst(Self.scheme.utf8.count)
        let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
        let authority = rest[..<end]
        guard !authority.contains(UInt8(ascii: "@")) else {
            throw SettingsError("user and password have no place in this URL: requests are signed")
        }
        guard let server = ServerURL(Self.scheme + String(decoding: authority, as: UTF8.self)),
            isHost(server.host, isBracketed: authority.first == UInt8(ascii: "["))
        else { throw SettingsError("expected \(Self.scheme), a host, and perhaps a port and a path") }
        let target = String(decoding: rest[end...], as: UTF8.self)
        self.text = text
        host = server.host
        port = server.port ?? 443
        self.target = target.hasPrefix("/") ? target : "/" + target
    }
}

private func lowercased(_ byte: UInt8) -> UInt8 {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
}

/// Whether the byte may stand unescaped in a URL (RFC 3986, section 2).
private func isAllowed(_ byte: UInt8) -> Bool {
    (0x21...0x7E).contains(byte) && !"\"<>\\^`{|}".utf8.contains(byte)
}

private func isHost(_ host: String, isBracketed: Bool) -> Bool {
    guard isBracketed else { return host.utf8.count <= 253 && !host.utf8.contains(UInt8(ascii: "%")) }
    var address = in6_addr()
    return inet_pton(AF_INET6, host, &address) == 1
}
