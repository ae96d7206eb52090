import SignalingProtocol

/// The claims of a token about its bearer (docs/protocol.md, section 1, Tokens).
package struct Token: Equatable, Sendable {
    /// The rights of the bearer at the broker.
    package enum Role: String, Sendable, CaseIterable {
        /// A device of the user. A token without a role, or with an unknown role, has this role.
        case device
        /// A backend of the app; a backend acts for any user.
        case server
        /// A coordinator of the service.
        case coordinator
        /// An administrator: only for the gateway's `/v1/admin`. A deployment that takes tokens for any audience has no
        /// administrators.
        case admin
    }

    /// The user in `sub`. For a server or a coordinator, `user` is only a name.
    package var user: UserID
    /// The only device that may use the token; nil for any device of the user.
    package var device: DeviceID?
    package var role = Role.device
    /// The token's end in `exp`, in milliseconds since the epoch.
    package var expiresAt: Int64
    package var issuer: String?
    /// The names in `aud`.
    package var audience: [String] = []

    package init(user: UserID, expiresAt: Int64) {
        self.user = user
        self.expiresAt = expiresAt
    }
}

extension Token {
    /// The `aud` of tokens for Bellwire, unless a deployment has another name.
    package static let standardAudience = "bellwire"

    /// The bound on a token's length; longer tokens are refused unread.
    package static let maxBytes = 8 * 1024

    /// Returns the token as a signed JWT (RFC 7515, section 7.1). `issuedAt` is in milliseconds since the epoch.
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
        guard let expiresAt = claims["exp"]?.numericDate else {
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
}
