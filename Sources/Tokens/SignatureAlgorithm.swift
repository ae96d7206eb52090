/// The algorithm of a signature (RFC 7518, section 3.1; RFC 8037). The raw value is the `alg` of tokens and keys.
///
/// `none` is not among the cases, so that a token without a signature cannot even be expressed.
package enum SignatureAlgorithm: String, Sendable, CaseIterable {
    /// HMAC with SHA-256: a party that can check tokens can also make tokens.
    case hs256 = "HS256"
    /// RSA (PKCS #1 v1.5) with SHA-256.
    case rs256 = "RS256"
    /// ECDSA on P-256 with SHA-256.
    case es256 = "ES256"
    /// Ed25519.
    case edDSA = "EdDSA"

    /// Whether checking tokens needs another key than making tokens.
    package var isAsymmetric: Bool { self != .hs256 }
}
