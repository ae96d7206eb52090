import SignalingProtocol

extension Token {
    /// What a token says of itself, whoever made it and whenever: good for telling why it was refused, never for letting somebody in.
    package init(unverified text: String) throws(TokenError) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard text.utf8.count <= Self.maxBytes, parts.count == 3, let claims = TokenVerifier.object(parts[1]) else {
            throw TokenError(.malformed, "not a signed JWT")
        }
        try self.init(claims: claims)
    }
}
