import SignalingProtocol

/// What a token says of its bearer (docs/protocol.md, section 1, Tokens).
package struct Token: Equatable, Sendable {
    /// What the bearer may do at the broker.
    package enum Role: String, Sendable, CaseIterable {
        /// A device of the user: the role of a token that names none, or one that is not known here.
        case device
        /// A backend of the app: acts for any user.
        case server
        /// A coordinator of the service.
        case coordinator
    }

    /// `sub`. Of a server or a coordinator only a name.
    package var user: UserID
    /// The one device that may use the token; nil for any of the user.
    package var device: DeviceID?
    package var role = Role.device
    /// `exp`, in milliseconds since the epoch.
    package var expiresAt: Int64
    package var issuer: String?
    /// `aud`.
    package var audience: [String] = []

    package init(user: UserID, expiresAt: Int64) {
        self.user = user
        self.expiresAt = expiresAt
    }
}

extension Token {
    /// `aud` of a token that was made for Bellwire, unless a deployment has another name.
    package static let standardAudience = "bellwire"

    /// Longer ones are refused before they are looked at.
    package static let maxBytes = 8 * 1024

    /// The token as a signed JWT (RFC 7515, section 7.1). `issuedAt` in milliseconds since the epoch.
    package func signed(by key: TokenKey, issuedAt: Int64) throws(TokenError) -> String {
        guard key.isPrivate else { throw TokenError(.keys, "the key is public: it cannot make tokens") }
        let header = JSONWriter.object { writer in
            writer.field("alg", key.algorithm.rawValue)
            writer.field("typ", "JWT")
            writer.field("kid", key.id)
        }
        let payload = JSONWriter.object { writer in
            writer.field("sub", user.string)
            writer.field("device", device?.string)
            if role != .device { writer.field("role", role.rawValue) }
            writer.field("iss", issuer)
            if audience.count == 1 {
                writer.field("aud", audience[0])
            } else if !audience.isEmpty {
                writer.array("aud") { writer in for name in audience { writer.string(name) } }
            }
            writer.field("iat", issuedAt / 1000)
            writer.field("exp", expiresAt / 1000)
        }
        let message = Base64URL.encode(header) + "." + Base64URL.encode(payload)
        return message + "." + Base64URL.encode(try key.key.sign(Array(message.utf8)))
    }

    init(claims: JSONObject) throws(TokenError) {
        guard let subject = claims["sub"]?.string, let user = UserID(subject) else {
            throw TokenError(.subject, "sub: missing, or not a user id")
        }
        guard let expiry = claims["exp"], let expiresAt = Self.milliseconds(expiry) else {
            throw TokenError(.malformed, "exp: missing, or not a time")
        }
        self.init(user: user, expiresAt: expiresAt)
        if let device = claims["device"] {
            guard let known = device.string.flatMap(DeviceID.init) else {
                throw TokenError(.malformed, "device: not a device id")
            }
            self.device = known
        }
        if claims["admin"]?.bool == true {
            role = .server
        } else {
            role = claims["role"]?.string.flatMap(Role.init) ?? .device
        }
        issuer = claims["iss"]?.string
        audience = claims["aud"].map { $0.array?.compactMap(\.string) ?? $0.string.map { [$0] } ?? [] } ?? []
    }

    /// A NumericDate (RFC 7519, section 2): seconds, possibly with a fraction.
    static func milliseconds(_ value: JSONValue) -> Int64? {
        let seconds: Double
        switch value {
        case .int(let whole): seconds = Double(whole)
        case .double(let number): seconds = number
        default: return nil
        }
        // Far beyond any life of a token, and far from where milliseconds no longer fit.
        guard (0...1e12).contains(seconds) else { return nil }
        return Int64(seconds * 1000)
    }
}
