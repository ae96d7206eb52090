/// Why a token, or a file of keys, cannot be used. The text names no secret and repeats nothing of a token but the names of
/// keys and algorithms.
package struct TokenError: Error, Equatable, Sendable, CustomStringConvertible {
    package enum Kind: String, Sendable {
        /// Not a signed JWT, too long, or a claim of the wrong type.
        case malformed
        /// An algorithm that is not known, `none`, or another one than its key's.
        case algorithm
        /// No key of that name, or none for that algorithm.
        case unknownKey
        case signature
        case expired
        case notYetValid
        case issuer
        case audience
        /// No subject, or none that is a user id.
        case subject
        /// Keys that cannot be read or used.
        case keys
    }

    package let kind: Kind
    package let description: String

    package init(_ kind: Kind, _ description: String) {
        self.kind = kind
        self.description = description
    }
}
