import CallCore
import CallStore

/// The score of a live call in its users' lists. The score is above every end, and holds the time of the entry's write.
/// The reader of an entry without a call can thus tell whether the entry's commit may still come, and whether the entry
/// was written anew since.
enum LiveScore {
    /// 2^63, above every possible end.
    static let base = "9223372036854775808"
    private static let first = UInt64(1) << 63
    /// The distance between neighbouring doubles of this size.
    private static let unit: UInt64 = 2_048
    /// The age after which an entry's commit can no longer come: a commit is valid for some seconds.
    static let settledAfter: Milliseconds = 10_000
    /// The number of different scores per millisecond. Two writes of an entry in the same millisecond nearly always
    /// have different scores.
    private static let lots: Int64 = 1 << 10

    /// Returns the score for an entry that is written now: above `base`, and exact as a double.
    static func written(at now: Milliseconds) -> String {
        let place = min(max(now, 0), (1 << 52) / lots - 2) * lots + Int64.random(in: 0..<lots) + 1
        return String(first + UInt64(place) * unit)
    }

    /// Whether a score belongs to a live call.
    static func isLive(_ score: Double) -> Bool { score >= Double(first) }

    /// Returns the time at which the entry was written, or nil for a score that no coordinator writes.
    static func writtenAt(_ score: Double) -> Milliseconds? {
        guard score.isFinite, isLive(score), score < 2 * Double(first) else { return nil }
        return max(Int64((score - Double(first)) / Double(unit)) - 1, 0) / lots
    }
}
