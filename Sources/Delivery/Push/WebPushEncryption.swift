import COpenSSL
import Tokens

/// The encryption that hides a push's content from the push service (RFC 8291): one record of `aes128gcm` (RFC 8188).
enum WebPushEncryption {
    static let keyBytes = 65
    static let secretBytes = 16
    static let saltBytes = 16
    /// The bound of the whole body in bytes (RFC 8030, section 7.2), also named as the length of a record.
    private static let mostBody = 4_096
    static let tagBytes = 16
    /// The salt, the length of a record, the length of the key, and the key (RFC 8188, section 2.1).
    static let headerBytes = saltBytes + 4 + 1 + keyBytes
    /// The delimiter of the last record (RFC 8188, section 2).
    private static let lastRecord: UInt8 = 2
    /// The bound of the plain text: 3993 bytes.
    static let mostBytes = mostBody - headerBytes - tagBytes - 1

    /// Encrypts with a new key and a new salt. Throws when `key` is no point of the curve.
    static func encrypt(_ text: [UInt8], to key: [UInt8], secret: [UInt8]) throws(TokenError) -> [UInt8] {
        try encrypt(
            text, to: key, secret: secret, from: try CryptographicKey.generate(.es256),
            salt: try CryptographicKey.randomBytes(saltBytes))
    }

    /// - Parameters:
    ///   - key: the receiver's public key.
    ///   - secret: the receiver's secret `auth`.
    ///   - sender: a private key that serves for this message alone, as `salt` does.
    static func encrypt(
        _ text: [UInt8], to key: [UInt8], secret: [UInt8], from sender: CryptographicKey, salt: [UInt8]
    ) throws(TokenError) -> [UInt8] {
        guard text.count <= mostBytes, let point = sender.publicPoint else {
            throw TokenError(.keys, "it cannot be encrypted")
        }
        let common = try sender.sharedSecret(with: key)
        let material = try derived(
            common, salt: secret, info: Array("WebPush: info\0".utf8) + key + point, count: 32)
        let contentKey = try derived(material, salt: salt, info: Array("Content-Encoding: aes128gcm\0".utf8), count: 16)
        let nonce = try derived(material, salt: salt, info: Array("Content-Encoding: nonce\0".utf8), count: 12)
        let length = withUnsafeBytes(of: UInt32(mostBody).bigEndian) { Array($0) }
        return salt + length + [UInt8(point.count)] + point
            + (try sealed(text + [lastRecord], key: contentKey, nonce: nonce))
    }

    /// HKDF with SHA-256 (RFC 5869), for at most a block of output.
    static func derived(
        _ material: [UInt8], salt: [UInt8], info: [UInt8], count: Int
    ) throws(TokenError) -> [UInt8] {
        let key = try CryptographicKey(secret: salt).sign(material)
        return Array(try CryptographicKey(secret: key).sign(info + [1]).prefix(count))
    }

    /// Encrypts with AES-128-GCM. Returns the encrypted text and its tag.
    static func sealed(_ text: [UInt8], key: [UInt8], nonce: [UInt8]) throws(TokenError) -> [UInt8] {
        guard let context = EVP_CIPHER_CTX_new() else { throw TokenError(.keys, "no memory") }
        defer { EVP_CIPHER_CTX_free(context) }
        var sealed = [UInt8](repeating: 0, count: text.count + tagBytes)
        var tag = [UInt8](repeating: 0, count: tagBytes)
        var count: Int32 = 0
        var rest: Int32 = 0
        guard EVP_EncryptInit_ex(context, EVP_aes_128_gcm(), nil, key, nonce) == 1,
            EVP_EncryptUpdate(context, &sealed, &count, text, Int32(text.count)) == 1, Int(count) == text.count,
            EVP_EncryptFinal_ex(context, &tag, &rest) == 1, rest == 0,
            EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, Int32(tagBytes), &tag) == 1
        else {
            ERR_clear_error()
            throw TokenError(.keys, "it cannot be encrypted")
        }
        sealed.replaceSubrange(text.count..., with: tag)
        return sealed
    }
}
