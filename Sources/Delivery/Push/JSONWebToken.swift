import CallCore
import SignalingProtocol
import Support
import Tokens

/// A signed token that identifies the sender of a request to a provider (RFC 7515, section 7.1).
enum JSONWebToken {
    static func signed(
        by key: CryptographicKey, id: String?, claims: (inout JSONWriter) -> Void
    ) throws(TokenError) -> String {
        let header = JSONWriter.object { writer in
            writer.field("alg", key.algorithm.rawValue)
            writer.field("typ", "JWT")
            writer.field("kid", id)
        }
        let message = Base64URL.encode(header) + "." + Base64URL.encode(JSONWriter.object(claims))
        return message + "." + Base64URL.encode(try key.sign(Array(message.utf8)))
    }
}

/// The provider tokens for APNs, each for one key. A token is replaced after 40 minutes, and at most every 20 minutes,
/// as Apple requires (unless the clock was set back).
struct APNsTokens {
    private struct Key: Hashable {
        let team: String
        let key: String
    }

    /// A token and the time of its making.
    struct Made: Equatable {
        let text: String
        let time: WallTime
    }

    static let life: Milliseconds = 40 * 60_000
    static let leastLife: Milliseconds = 20 * 60_000

    private var tokens: [Key: Made] = [:]

    mutating func token(_ settings: APNsSettings, at now: WallTime) throws(TokenError) -> Made {
        let key = Key(team: settings.teamID, key: settings.keyID)
        // A token from the future was made while the clock was wrong, so a new token is made.
        if let made = tokens[key], now >= made.time, now - made.time < Self.life { return made }
        let text = try JSONWebToken.signed(by: settings.key, id: settings.keyID) { writer in
            writer.field("iss", settings.teamID)
            writer.field("iat", now.seconds)
        }
        let made = Made(text: text, time: now)
        tokens[key] = made
        return made
    }

    /// Notes that a request with the token made at `time` was refused. Returns whether later requests use another
    /// token.
    mutating func refused(_ settings: APNsSettings, madeAt time: WallTime, at now: WallTime) -> Bool {
        let key = Key(team: settings.teamID, key: settings.keyID)
        guard let present = tokens[key] else { return true }
        if present.time != time { return true }
        guard now < present.time || now - present.time > Self.leastLife else { return false }
        tokens[key] = nil
        return true
    }
}

/// The tokens for Web Push services: each for one app and push service (RFC 8292, section 2).
struct VAPIDTokens {
    struct Key: Hashable {
        let app: AppName
        let origin: String
    }

    struct Made: Equatable {
        let text: String
        let time: WallTime
        let end: WallTime
    }

    /// RFC 8292, section 2, allows at most 24 h.
    static let life: Milliseconds = 12 * 3_600_000
    /// A token with no more than this time left is replaced.
    static let rest: Milliseconds = 3_600_000
    /// The bound of kept tokens. Users choose push services, so their number is unbounded; at the bound all tokens are
    /// forgotten.
    static let most = 1_000

    private var tokens: [Key: Made] = [:]

    mutating func token(_ key: Key, _ settings: WebPushSettings, at now: WallTime) throws(TokenError) -> Made {
        if let made = tokens[key], now >= made.time, made.end - now > Self.rest { return made }
        let text = try JSONWebToken.signed(by: settings.key, id: nil) { writer in
            writer.field("aud", key.origin)
            writer.field("exp", (now + Self.life).seconds)
            writer.field("sub", settings.subject)
        }
        if tokens.count >= Self.most { tokens = [:] }
        let made = Made(text: text, time: now, end: now + Self.life)
        tokens[key] = made
        return made
    }

    /// Forgets the refused token made at `time`; the next push gets a new token.
    mutating func refused(_ key: Key, madeAt time: WallTime) {
        if tokens[key]?.time == time { tokens[key] = nil }
    }
}
