/// Why a settings file cannot be used: where it is wrong, and what was expected. The text holds no secret, and nothing of a URL,
/// which may hold one.
package struct SettingsError: Error, Equatable, Sendable, CustomStringConvertible {
    package let description: String

    package init(_ description: String) { self.description = description }

    /// The same, found in a file or a field.
    package func within(_ place: String) -> SettingsError { SettingsError("\(place): \(description)") }
}
