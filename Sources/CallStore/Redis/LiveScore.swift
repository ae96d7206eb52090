import CallCore

/// The score of a live call in its users' lists: behind every end, and it tells when the entry was written, so that who finds an entry
/// without its call knows whether the commit that follows it may still be on its way, and whether it was written anew since.
enum LiveScore {
    /// 2^52: behind every moment that can be an end.
    static let base: Int64 = 1 << 52
    /// What of an entry that is as old is still to come never comes: a commit counts for some seconds.
    static let settledAfter: Milliseconds = 10_000
    /// Two that write the same entry in the same millisecond have different scores, but for one time in so many.
    private static let lots: Int64 = 1 << 10

    /// For an entry that is written now. Up to 2^53 a double holds each number.
    static func written(at now: Milliseconds) -> Int64 {
        base + min(max(now, 0), base / lots - 1) * lots + Int64.random(in: 0..<lots)
    }

    /// Whether a score is that of a live call. Earlier versions wrote "inf".
    static func isLive(_ score: Double) -> Bool { score >= Double(base) }

    /// When the entry was written; nil for what an earlier version wrote.
    static func writtenAt(_ score: Double) -> Milliseconds? {
        guard score.isFinite, isLive(score), score < Double(2 * base) else { return nil }
        return (Int64(score) - base) / lots
    }
}
