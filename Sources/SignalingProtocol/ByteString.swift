/// Text that is compared and hashed as bytes: a client id, a topic or a session. Text that names a user must not be
/// compared as `String`, because `String` treats canonically equivalent spellings as equal (see `ByteIdentifier`).
package struct ByteString: ByteIdentifier {
    package let string: String

    package init(_ string: String) { self.string = string }
}

extension StringProtocol {
    /// Whether both strings have the same bytes.
    @inlinable
    package func hasSameBytes(as other: some StringProtocol) -> Bool { utf8.elementsEqual(other.utf8) }
}
