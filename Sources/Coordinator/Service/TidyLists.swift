import CallCore
import SignalingProtocol

/// Users in whose list of calls nothing was to be put right when somebody looked last.
struct TidyLists {
    /// For so long nobody looks again, in milliseconds: what was entered since may be of a commit that is still on its way.
    static let duration: Milliseconds = 10_000
    /// How many are remembered. Lists of others are looked at each time.
    static let capacity = 10_000

    private var seenAt: [UserID: Milliseconds] = [:]

    mutating func insert(_ user: UserID, now: Milliseconds) {
        if seenAt.count >= Self.capacity { seenAt = seenAt.filter { Self.isRecent($0.value, now) } }
        guard seenAt[user] != nil || seenAt.count < Self.capacity else { return }
        seenAt[user] = now
    }

    func contains(_ user: UserID, now: Milliseconds) -> Bool { seenAt[user].map { Self.isRecent($0, now) } ?? false }

    /// Not when the clock was set back.
    private static func isRecent(_ at: Milliseconds, _ now: Milliseconds) -> Bool { at <= now && at + duration > now }
}
