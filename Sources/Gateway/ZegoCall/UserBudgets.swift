import SignalingProtocol
import Synchronization

/// The bounds of `UserBudgets`.
enum UserBudgetBounds {
    /// Requests per second in the long run; below, the requests at once after a pause. A call takes some five
    /// requests, and another each 20 s.
    static let rate: Int64 = 20
    static let burst: Int64 = 100
    /// The number of known users at which users with a full bucket are forgotten.
    static let users = 10_000
}

/// The limits of users' requests to this gateway, so that no user takes the share of others. May be used on any thread.
final class UserBudgets: Sendable {
    /// Microseconds of a bucket.
    private static let cost = 1_000_000 / UserBudgetBounds.rate
    private static let size = TokenBucket.Size(room: cost * UserBudgetBounds.burst)

    private let buckets = Mutex<[UserID: TokenBucket]>([:])
    /// The number of users with a known limit.
    var count: Int { buckets.withLock(\.count) }

    /// - Parameter now: microseconds of the boot clock.
    func take(_ user: UserID, now: Int64) throws(Problem) {
        let wait = buckets.withLock { buckets in
            if buckets.count >= UserBudgetBounds.users { buckets = buckets.filter { !$0.value.isFull(now: now) } }
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
