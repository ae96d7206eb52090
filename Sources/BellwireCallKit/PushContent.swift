import Foundation

/// The content of a push about a ringing call (docs/protocol.md, section 7).
struct PushContent: Decodable, Equatable, Sendable {
    let callID: String
    /// The revision of the call when the push was made.
    var revision = 0
    let inviter: String
    var name: String?
    var media: String?
    /// How long the invitation rings, in milliseconds.
    var expiresIn: Int?
    /// The address of the ring check. Each invitation has an address of its own.
    var check: URL?

    init(callID: String, revision: Int, inviter: String, media: String? = nil) {
        (self.callID, self.revision, self.inviter, self.media) = (callID, revision, inviter, media)
    }

    /// Returns nil for a payload without a call.
    init?(payload: [AnyHashable: Any]) {
        guard let bellwire = payload["bellwire"], JSONSerialization.isValidJSONObject(bellwire),
            let data = try? JSONSerialization.data(withJSONObject: bellwire),
            let content = try? JSONDecoder().decode(PushContent.self, from: data)
        else { return nil }
        self = content
    }

    private enum CodingKeys: CodingKey { case callID, revision, inviter, name, media, expiresIn, check }

    init(from decoder: any Decoder) throws {
        let fields = try decoder.container(keyedBy: CodingKeys.self)
        callID = try fields.decode(String.self, forKey: .callID)
        revision = try fields.decodeIfPresent(Int.self, forKey: .revision) ?? 0
        inviter = try fields.decode(String.self, forKey: .inviter)
        name = try fields.decodeIfPresent(String.self, forKey: .name)
        media = try fields.decodeIfPresent(String.self, forKey: .media)
        expiresIn = try fields.decodeIfPresent(Int.self, forKey: .expiresIn)
        check = try fields.decodeIfPresent(URL.self, forKey: .check)
    }
}

/// The answer of a ring check (docs/protocol.md, section 7).
struct RingCheckAnswer: Decodable, Equatable, Sendable {
    let ringing: Bool
    var expiresIn: Int?
    var reason: String?
}
