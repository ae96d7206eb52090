/// The types of webhook events that an endpoint asks for.
///
/// Coordinators of two software versions may write for the same endpoint. A pattern in the store that this version
/// does not know is therefore kept unchanged, and matches no event; in a settings file such a pattern is a mistake.
package struct EventPatterns: Equatable, Sendable {
    /// All types; all types of a group; or a single type by its name.
    package static let known = ["*", "call.*", "message.*"] + WebhookEventType.allCases.map(\.rawValue)

    /// The patterns in the order of the settings.
    package let patterns: [String]
    private let types: Set<WebhookEventType>

    /// Returns nil when `patterns` is empty, or contains a pattern that is not in `known`.
    package init?(_ patterns: [String]) {
        guard !patterns.isEmpty, patterns.allSatisfy(Self.known.contains) else { return nil }
        self.init(tolerating: patterns)
    }

    /// Reads the patterns that `stored` wrote, in this or another software version.
    package init(stored: String) { self.init(tolerating: stored.split(separator: " ").map(String.init)) }

    private init(tolerating patterns: [String]) {
        self.patterns = patterns
        types = Set(WebhookEventType.allCases.filter { type in patterns.contains { Self.matches($0, type) } })
    }

    package func matches(_ type: WebhookEventType) -> Bool { types.contains(type) }

    /// The patterns as a line for the store; no pattern contains a space.
    package var stored: String { patterns.joined(separator: " ") }

    private static func matches(_ pattern: String, _ type: WebhookEventType) -> Bool {
        guard known.contains(pattern) else { return false }
        return pattern.hasSuffix("*") ? type.rawValue.hasPrefix(pattern.dropLast()) : pattern == type.rawValue
    }
}
