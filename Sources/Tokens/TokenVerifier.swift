import SignalingProtocol

/// Verifies tokens with the keys of a deployment.
package struct TokenVerifier: Sendable {
    package var keys: KeySet
    /// The `iss` that a token must have; nil accepts any `iss`, and tokens without `iss`.
    package var issuer: String?
    /// A name that a token's `aud` must contain; nil accepts any `aud`, and tokens without `aud`.
    package var audience: String?

    /// The longest time from the issue (`iat`, or now without it) to the end of a token of a device or an
    /// administrator, in milliseconds; nil for no limit. Backends and coordinators are few, and their tokens are
    /// changed by hand.
    package var longestLife: Int64?

    /// The tolerance for a token issuer's clock that is ahead, in milliseconds.
    static let clockTolerance: Int64 = 5_000

    /// The bound of the setting for `longestLife`, in seconds: ten years.
    package static let mostLongestLife: Int64 = 315_360_000

    /// The media types of tokens, with and without their optional prefix (RFC 7515, section 4.1.9).
    private static let types: Set = ["jwt", "at+jwt", "application/jwt", "application/at+jwt"]

    package init(keys: KeySet, issuer: String? = nil, audience: String? = nil, longestLife: Int64? = nil) {
        self.keys = keys
        self.issuer = issuer
        self.audience = audience
        self.longestLife = longestLife
    }

    /// Returns the token's claims and the key that made the token. Throws unless the token is valid at `now`
    /// (milliseconds since the epoch).
    package func verify(_ text: String, now: Int64) throws(TokenError) -> (token: Token, key: TokenKey) {
        guard text.utf8.count <= Token.maxBytes else {
            throw TokenError(.malformed, "longer than \(Token.maxBytes) bytes")
        }
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard parts.count == 3, let header = Self.object(parts[0]), let signature = Base64URL.decode(parts[2]) else {
            throw TokenError(.malformed, "not a signed JWT")
        }
        let key = try signer(header, message: Array(text.utf8[..<parts[1].endIndex]), signature)
        // The claims are read only after the signature was found valid.
        guard let claims = Self.object(parts[1]) else {
            throw TokenError(.malformed, "its claims are not a JSON object")
        }
        var token = try Token(claims: claims)
        guard now < token.expiresAt else { throw TokenError(.expired, "expired") }
        if let start = claims["nbf"] {
            guard let start = start.numericDate else { throw TokenError(.malformed, "nbf: not a time") }
            guard start <= now + Self.clockTolerance else { throw TokenError(.notYetValid, "not valid yet") }
        }
        if let issuer, !(token.issuer?.hasSameBytes(as: issuer) ?? false) {
            throw TokenError(.issuer, "of another issuer")
        }
        if let audience, !token.audience.contains(where: { $0.hasSameBytes(as: audience) }) {
            throw TokenError(.audience, "for another audience")
        }
        if let longestLife, token.role == .device || token.role == .admin {
            // A time of issue that is yet to come would make the life look shorter than it is.
            let issuedAt = min(claims["iat"]?.numericDate ?? now, now)
            guard token.expiresAt - issuedAt <= longestLife else {
                throw TokenError(.lifetime, "lives longer than \(longestLife / 1_000) s, the longest life here")
            }
        }
        // In tokens that were made for anything, `role` means whatever their issuer means by `admin`.
        if audience == nil, token.role == .admin { token.role = .device }
        return (token, key)
    }

    private func signer(_ header: JSONObject, message: [UInt8], _ signature: [UInt8]) throws(TokenError) -> TokenKey {
        guard let algorithm = header["alg"]?.string.flatMap(SignatureAlgorithm.init) else {
            throw TokenError(.algorithm, "its algorithm is not allowed")
        }
        // The header requires an extension, and Bellwire knows no extension (RFC 7515, section 4.1.11).
        guard header["crit"] == nil else { throw TokenError(.malformed, "crit: not supported") }
        if let type = header["typ"]?.string, !Self.types.contains(type.lowercased()) {
            throw TokenError(.malformed, "typ: not a JWT")
        }
        let candidates = try keys.candidates(id: header["kid"]?.string, algorithm)
        guard let signer = candidates.first(where: { $0.key.isValid(signature, of: message) }) else {
            throw TokenError(.signature, "its signature is not that of its key")
        }
        return signer
    }

    static func object(_ part: Substring.UTF8View) -> JSONObject? {
        Base64URL.decode(part).flatMap { try? JSONParser.parse($0) }?.object
    }
}
