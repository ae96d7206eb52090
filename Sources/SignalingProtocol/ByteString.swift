/// Text that is compared and hashed as bytes: a client id, a topic, a session. What names a user in any way must not be compared
/// as `String`, which holds canonically equivalent spellings equal (see `ByteIdentifier`).
package struct ByteString: ByteIdentifier {
    package let string: String

    package init(_ string: String) { self.string = string }
}

extension StringProtocol {
    /// Whether both are the same bytes.
    @inlinable
    package func hasSameBytes(as other: some StringProtocol) -> Bool { utf8.elementsEqual(other.utf8) }
}
