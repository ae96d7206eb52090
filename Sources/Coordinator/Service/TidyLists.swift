import CallCore
import SignalingProtocol

/// The users with a list of calls that needed no repair at the last check.
struct TidyLists {
    /// How long a list is not checked again, in milliseconds: an entry added since may belong to a commit that is still
    /// under way.
    static let duration: Milliseconds = 10_000
    /// The bound on users that are remembered. The lists of other users are checked each time.
    static let capacity = 10_000

    private var seenAt: [UserID: Milliseconds] = [:]

    mutating func insert(_ user: UserID, now: Milliseconds) {
        if seenAt.count >= Self.capacity { seenAt = seenAt.filter { Self.isRecent($0.value, now) } }
        guard seenAt[user] != nil || seenAt.count < Self.capacity else { return }
        seenAt[user] = now
    }

    func contains(_ user: UserID, now: Milliseconds) -> Bool { seenAt[user].map { Self.isRecent($0, now) } ?? false }

    /// Whether `at` is recent; false when the clock was set back.
    private static func isRecent(_ at: Milliseconds, _ now: Milliseconds) -> Bool { at <= now && at + duration > now }
}
