import SignalingProtocol
import Synchronization

/// How much each user may ask of this gateway, so that none takes from others what is there for all. For any thread.
final class UserBudgets: Sendable {
    enum Bounds {
        /// Requests per second in the long run, and at once after a rest: a call takes some five, and one each 20 s.
        static let rate: Int64 = 20
        static let burst: Int64 = 100
        /// Users who are known before those are forgotten who have used up nothing.
        static let users = 10_000
    }

    /// Microseconds of a bucket.
    private static let cost = 1_000_000 / Bounds.rate
    private static let size = TokenBucket.Size(room: cost * Bounds.burst)

    private let buckets = Mutex<[UserID: TokenBucket]>([:])
    /// Users whose budgets are known.
    var count: Int { buckets.withLock(\.count) }

    /// `now`: microseconds of the boot clock.
    func take(_ user: UserID, now: Int64) throws(Problem) {
        let wait = buckets.withLock { buckets in
            if buckets.count >= Bounds.users { buckets = buckets.filter { !$0.value.isFull(now: now) } }
            var bucket = buckets[user] ?? TokenBucket()
            let wait = bucket.wait(for: Self.cost, Self.size, now: now)
            guard wait <= 0 else { return wait }
            bucket.take(Self.cost, Self.size, now: now)
            buckets[user] = bucket
            return 0
        }
        guard wait > 0 else { return }
        throw Problem(SignalingError(.rateLimited, "too many requests", retryAfter: Int(wait / 1_000) + 1))
    }
}
