/// The reason why a token, or a file of keys, cannot be used. The text contains no secret, and of a token only the
/// names of keys and algorithms.
package struct TokenError: Error, Equatable, Sendable, CustomStringConvertible {
    package enum Kind: String, Sendable {
        /// The text is not a signed JWT or too long, or a claim has the wrong type.
        case malformed
        /// The algorithm is unknown, `none`, or different from the algorithm of the key.
        case algorithm
        /// No key has this name, or no key is for this algorithm.
        case unknownKey
        case signature
        case expired
        case notYetValid
        /// The time from its issue to its end is longer than the deployment allows.
        case lifetime
        case issuer
        case audience
        /// The subject is missing or is not a user id.
        case subject
        /// The keys cannot be read or used.
        case keys
    }

    package let kind: Kind
    package let description: String

    package init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }
}
