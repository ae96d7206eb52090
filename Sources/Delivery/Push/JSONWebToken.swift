import CallCore
import SignalingProtocol
import Support
import Tokens

/// A signed token by which a provider knows who asks (RFC 7515, section 7.1).
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

/// Apple's: one for each key, made anew after 40 minutes and never more often than every 20, which Apple asks for, unless the clock was
/// set back.
struct APNsTokens {
    private struct Key: Hashable {
        let team: String
        let key: String
    }

    /// A token, and when it was made.
    struct Made: Equatable {
        let text: String
        let time: WallTime
    }

    static let life: Milliseconds = 40 * 60_000
    static let leastLife: Milliseconds = 20 * 60_000

    private var tokens: [Key: Made] = [:]

    mutating func token(_ settings: APNsSettings, at now: WallTime) throws(TokenError) -> Made {
        let key = Key(team: settings.teamID, key: settings.keyID)
        // One from the future was made by a clock that has been put right since.
        if let made = tokens[key], now >= made.time, now - made.time < Self.life { return made }
        let text = try JSONWebToken.signed(by: settings.key, id: settings.keyID) { writer in
            writer.field("iss", settings.teamID)
            writer.field("iat", now.seconds)
        }
        let made = Made(text: text, time: now)
        tokens[key] = made
        return made
    }

    /// A request with the token made at `time` was refused. Whether another one is used from now on.
    mutating func refused(_ settings: APNsSettings, madeAt time: WallTime, at now: WallTime) -> Bool {
        let key = Key(team: settings.teamID, key: settings.keyID)
        guard let present = tokens[key] else { return true }
        if present.time != time { return true }
        guard now < present.time || now - present.time > Self.leastLife else { return false }
        tokens[key] = nil
        return true
    }
}

/// Those for push services of browsers: one for each of them and app (RFC 8292, section 2).
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

    /// At most 24 h, by section 2 of the RFC.
    static let life: Milliseconds = 12 * 3_600_000
    /// What must be left of it.
    static let rest: Milliseconds = 3_600_000
    /// Strangers name push services: beyond that many all are forgotten.
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

    /// Another one is made from now on, if it was this one that was refused.
    mutating func refused(_ key: Key, madeAt time: WallTime) {
        if tokens[key]?.time == time { tokens[key] = nil }
    }
}
