import SignalingProtocol
import Tokens

// The checks of the tokens that a client shows to the broker, and of the keys that an operator gives a broker.

private let keys = try! KeySet(
    json: Array(#"{"kty":"oct","kid":"k","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U"}"#.utf8))

/// The claims of tokens that the key has signed, which stand in the corpus: no other tokens can be good.
private let signedUsers = ["alice", "zo\u{eb}"].compactMap(UserID.init)

/// No input makes a token out of another token.
func checkToken(_ input: [UInt8]) throws(Finding) {
    let token = text(input)
    let told: String
    do throws(TokenError) {
        let user = try TokenVerifier(keys: keys).verify(token, now: 0).token.user
        told = signedUsers.contains(user) ? "" : "a token for \(user) counts that nobody has signed"
    } catch {
        told = token.utf8.count > 20 && error.description.contains(token) ? "the refusal repeats the token" : ""
    }
    try hold(told.isEmpty, told)
}

/// A readable key set can be written, is the same afterwards, and says nothing secret in public.
func checkKeys(_ input: [UInt8]) throws(Finding) {
    guard let set = try? KeySet(json: input) else { return }
    let bytes = set.encoded(isPublic: false)
    guard let again = try? KeySet(json: bytes) else { throw Finding("\(text(bytes)) is written and cannot be read") }
    try hold(
        again.keys.map(\.id) == set.keys.map(\.id) && set.keys.allSatisfy { again.contains($0) },
        "\(text(bytes)) is another set"
    )
    guard let published = try? KeySet(json: set.encoded(isPublic: true)) else {
        try hold(set.keys.allSatisfy { !$0.algorithm.isAsymmetric }, "the public halves cannot be read")
        return
    }
    try hold(published.signingKey == nil, "a private half is published")
}
