import CallCore
import SignalingProtocol
import Tokens

/// The key of a ring check, valid for a single device and a single invitation of its user. The key has the form
/// `{invitation}.{HMAC-SHA256 in base64url}`; `invitation` is the revision of the invitation.
package enum RingKey {
    /// Returns the key; nil only if OpenSSL fails.
    /// - Parameter secret: the secret in the store (`PushStore.pushSecret`).
    package static func text(
        secret: [UInt8], callID: CallID, user: UserID, device: DeviceID, invitation: Int
    ) -> String? {
        guard let code = try? CryptographicKey(secret: secret).sign(message(callID, user, device, invitation)) else {
            return nil
        }
        return "\(invitation).\(Base64URL.encode(code))"
    }

    /// Returns the invitation of the key `text`; nil when `text` is no valid key for this device and call.
    package static func invitation(
        of text: String, secret: [UInt8], callID: CallID, user: UserID, device: DeviceID
    ) -> Int? {
        let parts = Array(text.utf8).split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 2, (1...9).contains(parts[0].count), parts[0].first != UInt8(ascii: "0"),
            parts[0].allSatisfy((UInt8(ascii: "0")...UInt8(ascii: "9")).contains),
            let invitation = Int(String(decoding: parts[0], as: UTF8.self)), let code = Base64URL.decode(parts[1])
        else { return nil }
        // `isValid` compares in constant time.
        let isRight = CryptographicKey(secret: secret).isValid(code, of: message(callID, user, device, invitation))
        return isRight ? invitation : nil
    }

    /// The signed bytes, different for any two sets of parameters: only the user id can contain the separator, and the
    /// length of the user id stands before the user id.
    private static func message(_ callID: CallID, _ user: UserID, _ device: DeviceID, _ invitation: Int) -> [UInt8] {
        Array("bellwire ring check\n\(callID)\n\(device)\n\(invitation)\n\(user.string.utf8.count)\n\(user)".utf8)
    }
}
