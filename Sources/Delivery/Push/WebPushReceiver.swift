import Tokens

/// The receiver's side of Web Push encryption (RFC 8291), for tests and the simulation.
package enum WebPushReceiver {
    /// Returns the plain text of a body that was encrypted to this key; nil when the body cannot be decrypted. The tag
    /// is not checked, because tests and the simulation forge no messages.
    package static func opened(_ body: [UInt8], by key: CryptographicKey, secret: [UInt8]) -> [UInt8]? {
        typealias Encryption = WebPushEncryption
        guard body.count > Encryption.headerBytes + Encryption.tagBytes, let own = key.publicPoint else { return nil }
        let salt = Array(body.prefix(Encryption.saltBytes))
        let sender = Array(body[(Encryption.headerBytes - Encryption.keyBytes)..<Encryption.headerBytes])
        let sealed = Array(body[Encryption.headerBytes..<(body.count - Encryption.tagBytes)])
        guard let common = try? key.sharedSecret(with: sender),
            let material = try? Encryption.derived(
                common, salt: secret, info: Array("WebPush: info\0".utf8) + own + sender, count: 32),
            let contentKey = try? Encryption.derived(
                material, salt: salt, info: Array("Content-Encoding: aes128gcm\0".utf8), count: 16),
            let nonce = try? Encryption.derived(
                material, salt: salt, info: Array("Content-Encoding: nonce\0".utf8), count: 12),
            // The key stream is the same for encryption and decryption.
            let text = try? Encryption.sealed(sealed, key: contentKey, nonce: nonce).prefix(sealed.count)
        else { return nil }
        // The delimiter of the last record follows the text.
        return text.last == 2 ? Array(text.dropLast()) : nil
    }
}
