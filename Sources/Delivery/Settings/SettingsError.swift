/// The reason why a settings file cannot be used: the place of the mistake, and the expected value. The text contains
/// no secret, and no part of a URL, because a URL may contain a secret.
package struct SettingsError: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }

    /// Returns the same error with the file or field of the mistake.
    package func within(_ place: String) -> SettingsError { SettingsError("\(place): \(description)") }
}
