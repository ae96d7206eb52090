import SignalingProtocol

extension Token {
    /// Reads a token's claims without any verification. The claims may explain why a token was refused, but must never
    /// admit a client.
    package init(unverified text: String) throws(TokenError) {
        let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        guard text.utf8.count <= Self.maxBytes, parts.count == 3, let claims = TokenVerifier.object(parts[1]) else {
            throw TokenError(.malformed, "not a signed JWT")
        }
        try self.init(claims: claims)
    }
}
