import SignalingProtocol
import Tokens

/// A secret that a backend and the service share; the service signs with this secret (Standard Webhooks, Symmetric
/// signatures).
///
/// The secret never appears in errors, and never when a value with the secret is printed or dumped.
package struct WebhookSecret: Sendable, CustomStringConvertible, CustomReflectable {
    package static let prefix = "whsec_"
    /// The number of bytes that the specification allows.
    package static let byteRange = 24...64
    /// An endpoint has two secrets while a new secret replaces an old secret.
    package static let maxPerEndpoint = 2
    /// Enough for two secrets and some empty lines.
    static let maxFileBytes = 4096

    let key: CryptographicKey

    /// Reads `whsec_` and the secret's bytes in base 64.
    package init(_ text: String) throws(SettingsError) {
        let form = "\(Self.prefix) and \(Self.byteRange.lowerBound) to \(Self.byteRange.upperBound) bytes in base 64"
        guard text.utf8.starts(with: Self.prefix.utf8) else {
            throw SettingsError("a secret begins with \(form)")
        }
        guard let bytes = Base64.decode(Array(text.utf8.dropFirst(Self.prefix.utf8.count))) else {
            throw SettingsError("the text after \(Self.prefix) is not base 64")
        }
        guard Self.byteRange.contains(bytes.count) else {
            throw SettingsError("the secret has \(bytes.count) bytes; expected \(form)")
        }
        key = CryptographicKey(secret: bytes)
    }

    /// Reads a file with a single secret, or with two: the old and the new secret, in any order. Empty lines, and
    /// spaces around a secret, are ignored.
    package static func read(file path: String) throws(SettingsError) -> [WebhookSecret] {
        let text = try readFile(path, maxBytes: maxFileBytes)
        let lines = text.split { $0 == UInt8(ascii: "\n") }
            .map { line in String(decoding: line.filter { !isSpace($0) }, as: UTF8.self) }
            .filter { !$0.isEmpty }
        guard !lines.isEmpty else { throw SettingsError("\(path): no secret in it") }
        guard lines.count <= maxPerEndpoint else {
            throw SettingsError("\(path): more than \(maxPerEndpoint) secrets, one a line")
        }
        var secrets: [WebhookSecret] = []
        for (place, line) in lines.enumerated() {
            do throws(SettingsError) {
                secrets.append(try WebhookSecret(line))
            } catch {
                throw error.within("\(path): secret \(place + 1)")
            }
        }
        return secrets
    }

    package var description: String { "a webhook secret" }
    package var customMirror: Mirror { Mirror(self, children: []) }
}

private func isSpace(_ byte: UInt8) -> Bool {
    byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == UInt8(ascii: "\r")
}
