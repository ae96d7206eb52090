import CallCore
import SignalingProtocol
import Support
import Tokens

/// A media server of the settings.
package struct MediaServer: Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        case liveKit = "livekit"
        case jitsi
        case jwt
    }

    /// The settings that only one kind of server has.
    enum Details: Sendable {
        /// `apiURL` is without a slash at its end; nil when rooms are not closed.
        case liveKit(apiURL: String?, agents: [String])
        case jitsi(appID: String, audience: String, subject: String, keyID: String?)
        case jwt(keyID: String?, claims: [ClaimTemplate.Field])
    }

    package static let mostNameBytes = 64
    package static let ttlRange = 60...86_400
    package static let standardTTL = 600
    /// The longest token: a response must have room for the call as well.
    static let mostTokenBytes = 16 << 10
    /// The longest name of a room, in bytes.
    package static let mostRoomBytes = 128
    /// A token is valid from this many seconds before its making, so that a server whose clock is behind accepts the
    /// token.
    static let headStart: Int64 = 10

    package let name: String
    package let url: String
    let key: MediaKeyFile
    let room: MediaTemplate
    let ttl: Int
    let details: Details

    package var kind: Kind {
        switch details {
        case .liveKit: .liveKit
        case .jitsi: .jitsi
        case .jwt: .jwt
        }
    }

    /// The URL of the API that closes rooms; nil when the rooms of this server are not closed.
    package var apiURL: String? {
        if case .liveKit(let apiURL, _) = details { apiURL } else { nil }
    }

    // MARK: Rooms

    /// Returns the name of a call's room; nil when the name would be too long.
    func room(of callID: CallID, _ mode: CallMode) -> String? {
        let room = room.filled { placeholder in
            placeholder == .mode ? mode.rawValue : kind == .jitsi ? Self.inLowerCase(callID) : callID.string
        }
        return room.utf8.count <= Self.mostRoomBytes ? room : nil
    }

    /// Jitsi compares names of rooms in lower case, so each capital letter of the call id becomes a dot and the small
    /// letter. Call ids have no dots.
    private static func inLowerCase(_ callID: CallID) -> String {
        var text: [UInt8] = []
        for byte in callID.string.utf8 {
            if (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) {
                text += [UInt8(ascii: "."), byte | 0x20]
            } else {
                text.append(byte)
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    // MARK: Tokens

    /// Returns a session with a token that is made at `now`; nil when no token can be made.
    func session(for member: MediaMember, at now: WallTime) -> BellwireMediaSession? {
        guard let room = room(of: member.callID, member.mode) else { return nil }
        let end = now.seconds + Int64(ttl)
        guard let token = try? token(member, room, now.seconds, end), token.utf8.count <= Self.mostTokenBytes else {
            return nil
        }
        return BellwireMediaSession(
            server: name, type: kind.rawValue, url: url, room: room, token: token, expiresAt: end * 1_000)
    }

    private func token(
        _ member: MediaMember, _ room: String, _ now: Int64, _ end: Int64
    ) throws(TokenError) -> String {
        let key = key.key
        let start = now - Self.headStart
        switch details {
        case .liveKit(_, let agents):
            return try JSONWebToken.signed(by: key.key, id: nil) { writer in
                if case .named(let name, _) = key { writer.field("iss", name) }
                writer.field("sub", member.device.userID.string)
                writer.field("name", member.shownName)
                writer.field("nbf", start)
                writer.field("exp", end)
                writer.object("video") { writer in
                    writer.field("room", room)
                    for grant in ["roomJoin", "canPublish", "canSubscribe", "canPublishData"] as [StaticString] {
                        writer.field(grant, true)
                    }
                }
                writer.field("metadata", member.metadata)
                Self.writeAgents(agents, to: &writer)
            }
        case .jitsi(let appID, let audience, let subject, let keyID):
            return try JSONWebToken.signed(by: key.key, id: keyID) { writer in
                writer.field("iss", appID)
                writer.field("aud", audience)
                writer.field("sub", subject)
                writer.field("room", room)
                writer.field("nbf", start)
                writer.field("exp", end)
                writer.object("context") { writer in
                    writer.object("user") { writer in
                        writer.field("id", member.device.userID.string)
                        writer.field("name", member.shownName)
                        writer.field("avatar", member.avatarURL)
                    }
                }
            }
        case .jwt(let keyID, let claims):
            return try JSONWebToken.signed(by: key.key, id: keyID) { writer in
                for claim in claims {
                    writer.field(named: claim.name, claim.value.json { member.value(of: $0, room) }[...])
                }
                writer.field("iat", now)
                writer.field("nbf", start)
                writer.field("exp", end)
            }
        }
    }

    private static func writeAgents(_ agents: [String], to writer: inout JSONWriter) {
        guard !agents.isEmpty else { return }
        writer.object("roomConfig") { writer in
            writer.array("agents") { writer in
                for agent in agents { writer.object { $0.field("agentName", agent) } }
            }
        }
    }
}

extension MediaMember {
    fileprivate var shownName: String { name ?? device.userID.string }

    /// LiveKit's metadata of a participant, a text.
    fileprivate var metadata: String {
        let json = JSONWriter.object { writer in
            writer.field("callID", callID.string)
            writer.field("device", device.deviceID.string)
        }
        return String(decoding: json, as: UTF8.self)
    }

    fileprivate func value(of placeholder: MediaPlaceholder, _ room: String) -> String {
        switch placeholder {
        case .callID: callID.string
        case .user: device.userID.string
        case .device: device.deviceID.string
        case .name: shownName
        case .media: media ?? "voice"
        case .mode: mode.rawValue
        case .inviter: inviter.string
        case .room: room
        }
    }
}
