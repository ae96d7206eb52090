import CallCore
import CallStore

/// The score of a live call in its users' lists: behind every end, and it tells when the entry was written, so that who finds an entry
/// without its call knows whether the commit that follows it may still be on its way, and whether it was written anew since.
enum LiveScore {
    /// 2^63: behind every moment that can be an end.
    static let base = "9223372036854775808"
    private static let first = UInt64(1) << 63
    /// How far doubles of that size are apart.
    private static let unit: UInt64 = 2_048
    /// What of an entry that is as old is still to come never comes: a commit counts for some seconds.
    static let settledAfter: Milliseconds = 10_000
    /// Two that write the same entry in the same millisecond have different scores, but for one time in so many.
    private static let lots: Int64 = 1 << 10

    /// For an entry that is written now: more than `base`, and a number that a double holds exactly.
    static func written(at now: Milliseconds) -> String {
        let place = min(max(now, 0), (1 << 52) / lots - 2) * lots + Int64.random(in: 0..<lots) + 1
        return String(first + UInt64(place) * unit)
    }

    /// Whether a score is that of a live call.
    static func isLive(_ score: Double) -> Bool { score >= Double(first) }

    /// When the entry was written; nil for a score that nobody writes.
    static func writtenAt(_ score: Double) -> Milliseconds? {
        guard score.isFinite, isLive(score), score < 2 * Double(first) else { return nil }
        return max(Int64((score - Double(first)) / Double(unit)) - 1, 0) / lots
    }
}
