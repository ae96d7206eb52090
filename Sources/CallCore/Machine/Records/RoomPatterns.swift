import SignalingProtocol

/// The calls with rooms at a media server, by their `media`. The store keeps these patterns like the patterns of a
/// webhook endpoint: words, separated by spaces.
///
/// `room:voice` means calls with the `media` "voice", `room:*` all other calls, and `noroom:video` excludes calls from
/// the other calls. Values are percent-encoded.
package struct RoomPatterns: Sendable, Equatable {
    package static let others = "room:*"

    private let words: Set<String>

    /// Returns nil for the patterns of a webhook endpoint.
    package init?(_ patterns: String) {
        guard patterns.hasPrefix("room:") else { return nil }
        words = Set(patterns.split(separator: " ").map(String.init))
    }

    package static func word(_ media: String) -> String { "room:" + percentEncoded(media) }

    package static func exclusion(_ media: String) -> String { "noroom:" + percentEncoded(media) }

    func matches(_ media: String?) -> Bool {
        if let media {
            if words.contains(Self.word(media)) { return true }
            if words.contains(Self.exclusion(media)) { return false }
        }
        return words.contains(Self.others)
    }
}

extension Call {
    /// Whether members have left the room of this call after the revision of `before`, or the call has ended. Common
    /// calls have no end that Bellwire knows of, and a call that began as ended never had a room.
    package func leavesRoom(since before: Call?) -> Bool {
        guard mode == .advanced, let before else { return false }
        if !isLive { return before.isLive }
        return members.contains { $0.state == .quit && $0.changedRevision > before.revision }
    }
}
