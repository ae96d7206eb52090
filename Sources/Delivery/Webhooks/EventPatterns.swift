/// Which types of events an endpoint asks for.
///
/// Coordinators of two versions may write for one endpoint. So a pattern that this version does not know is kept as it is when it
/// comes from the store, and matches nothing; in a settings file it is a mistake.
package struct EventPatterns: Equatable, Sendable {
    /// All types; all types of a group; or one type by its name.
    package static let known = ["*", "call.*", "message.*"] + WebhookEventType.allCases.map(\.rawValue)

    /// In the order in which they were given.
    package let patterns: [String]
    private let types: Set<WebhookEventType>

    /// Nil when one of them is none of `known`, or when there is none.
    package init?(_ patterns: [String]) {
        guard !patterns.isEmpty, patterns.allSatisfy(Self.known.contains) else { return nil }
        self.init(tolerating: patterns)
    }

    /// As `stored` gave it, here or in another version.
    package init(stored: String) { self.init(tolerating: stored.split(separator: " ").map(String.init)) }

    private init(tolerating patterns: [String]) {
        self.patterns = patterns
        types = Set(WebhookEventType.allCases.filter { type in patterns.contains { Self.matches($0, type) } })
    }

    package func matches(_ type: WebhookEventType) -> Bool { types.contains(type) }

    /// One line for the store: no pattern has a space.
    package var stored: String { patterns.joined(separator: " ") }

    private static func matches(_ pattern: String, _ type: WebhookEventType) -> Bool {
        guard known.contains(pattern) else { return false }
        return pattern.hasSuffix("*") ? type.rawValue.hasPrefix(pattern.dropLast()) : pattern == type.rawValue
    }
}
