import COpenSSL
import CallCore
import SignalingProtocol
import Tokens

/// One push to one registration. Sent again, it is the same push.
package struct OutgoingPush: Sendable {
    package let registration: PushRegistration
    package private(set) var content: PushContent
    /// The revision at which the user was invited; of a test any number.
    package let invitation: Int
    /// The device was sent `ring` for this invitation.
    package let wasRung: Bool
    /// It was refused with the former token of the provider, and is tried a second time with a new one.
    package var hasNewToken = false

    package init(_ registration: PushRegistration, _ content: PushContent, invitation: Int, wasRung: Bool = false) {
        self.registration = registration
        self.content = content
        self.invitation = invitation
        self.wasRung = wasRung
    }

    /// The same whenever it is sent, whoever sends it, and of no other push: SHA-256 in base64url.
    package var id: String { Base64URL.encode(digest) }

    /// The same as a UUID, of a kind that each application defines for itself (RFC 9562, section 5.8).
    package var uuid: String {
        var bytes = Array(digest.prefix(16))
        bytes[6] = bytes[6] & 0x0F | 0x80
        bytes[8] = bytes[8] & 0x3F | 0x80
        let digits = bytes.map { byte in String(byte >> 4, radix: 16) + String(byte & 15, radix: 16) }
        let parts = [digits[0..<4], digits[4..<6], digits[6..<8], digits[8..<10], digits[10..<16]]
        return parts.map { $0.joined() }.joined(separator: "-")
    }

    private var digest: [UInt8] {
        let key = registration.key
        let about = content.callID?.string ?? "\(content.createdAt)"
        let user = key.device.userID
        // A target that is registered while it rings is sent a ring of its own.
        let kind = content.kind == .ring ? "ring \(registration.mark)" : content.kind.rawValue
        return sha256(
            Array(
                "\(kind)\n\(about)\n\(invitation)\n\(key.device.deviceID)\n\(key.app)\n\(key.platform)\n\(user)".utf8))
    }

    /// The same as it leaves at `now`, by the store's time.
    func leaving(at now: Milliseconds) -> OutgoingPush {
        var push = self
        push.content = content.leaving(at: now)
        return push
    }

    /// How long the provider may keep it for a device that it does not reach, in milliseconds from `now`, by the store's time.
    func life(at now: Milliseconds) -> Milliseconds {
        content.kind == .missed ? Self.missedLife : max(0, content.expiresAt - now)
    }

    private static let missedLife: Milliseconds = 86_400_000
}

func sha256(_ bytes: [UInt8]) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: 32)
    var count: UInt32 = 0
    let isDone = EVP_Digest(bytes, bytes.count, &digest, &count, EVP_sha256(), nil) == 1
    precondition(isDone && count == 32, "SHA-256 needs nothing that could be missing")
    return digest
}
