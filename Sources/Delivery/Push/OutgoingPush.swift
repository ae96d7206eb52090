import COpenSSL
import CallCore
import SignalingProtocol
import Tokens

/// A push to one registration. When the same push is sent again, its id stays the same.
package struct OutgoingPush: Sendable {
    package let registration: PushRegistration
    package private(set) var content: PushContent
    /// The revision of the user's invitation; any number for a test push.
    package let invitation: Int
    /// Whether the device was sent `ring` for this invitation.
    package let wasRung: Bool
    /// Whether the push is the second attempt, with a new provider token, after the provider refused the former token.
    package var hasNewToken = false

    package init(_ registration: PushRegistration, _ content: PushContent, invitation: Int, wasRung: Bool = false) {
        self.registration = registration
        self.content = content
        self.invitation = invitation
        self.wasRung = wasRung
    }

    /// The id of the push: a SHA-256 in base64url. Each process computes the same id for the same push, and no other
    /// push has this id.
    package var id: String { Base64URL.encode(digest) }

    /// The same id as a UUID of version 8, whose contents each application defines (RFC 9562, section 5.8).
    package var uuid: String {
        var bytes = digest
        bytes[6] = bytes[6] & 0x0F | 0x80
        bytes[8] = bytes[8] & 0x3F | 0x80
        return uuidText(of: bytes)
    }

    private var digest: [UInt8] {
        let key = registration.key
        let about = content.callID?.string ?? "\(content.createdAt)"
        let user = key.device.userID
        // A token or subscription that is registered during the ringing gets a `ring` of its own.
        let kind = content.kind == .ring ? "ring \(registration.mark)" : content.kind.rawValue
        return sha256(
            Array(
                "\(kind)\n\(about)\n\(invitation)\n\(key.device.deviceID)\n\(key.app)\n\(key.platform)\n\(user)".utf8))
    }

    /// Returns the push with the content of a push that leaves at `now`, by the store's time.
    func leaving(at now: Milliseconds) -> OutgoingPush {
        var push = self
        push.content = content.leaving(at: now)
        return push
    }

    /// How long the provider may keep the push for an unreachable device, in milliseconds from `now`, by the store's
    /// time.
    func life(at now: Milliseconds) -> Milliseconds {
        content.kind == .missed ? Self.missedLife : max(0, content.expiresAt - now)
    }

    private static let missedLife: Milliseconds = 86_400_000
}

/// Returns the text of a UUID, in small letters.
/// - Parameter bytes: at least 16 bytes.
func uuidText(of bytes: [UInt8]) -> String {
    let digits = bytes.prefix(16).map { byte in String(byte >> 4, radix: 16) + String(byte & 15, radix: 16) }
    let parts = [digits[0..<4], digits[4..<6], digits[6..<8], digits[8..<10], digits[10..<16]]
    return parts.map { $0.joined() }.joined(separator: "-")
}

func sha256(_ bytes: [UInt8]) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 32)
    var count: UInt32 = 0
    let isDone = EVP_Digest(bytes, bytes.count, &digest, &count, EVP_sha256(), nil) == 1
    precondition(isDone && count == 32, "SHA-256 cannot fail")
    return digest
}
