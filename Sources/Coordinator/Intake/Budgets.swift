import CallCore
import CallDeciding
import SignalingProtocol

/// What users may still ask for and be sent (docs/protocol.md, section 2, Rate limits). Each coordinator counts for itself.
///
/// While the store's clock cannot be read (`now` is nil) nothing is counted: nothing is served then either.
final class Budgets: Allowances {
    private var limiter: RateLimiter
    private var staleAcks = StaleAcks()

    init(_ limits: RateLimits) { limiter = RateLimiter(limits) }

    // MARK: At intake

    /// Takes one. Returns the limit and the milliseconds after which to try again when there is none; nil when it is admitted.
    func admit(_ key: RateLimiter.Key, _ now: Milliseconds?, _ counts: inout Counts) -> Int? {
        guard let now, let retryAfter = limiter.admit(key, now: now) else { return nil }
        counts.add(.limited, key.name)
        return retryAfter
    }

    /// The milliseconds until something is left of a budget of bytes; nil when something is.
    func debt(_ key: RateLimiter.Key, _ now: Milliseconds?, _ counts: inout Counts) -> Int? {
        guard let now, let retryAfter = limiter.wait(key, now: now) else { return nil }
        counts.add(.limited, key.name)
        return retryAfter
    }

    // MARK: While deciding

    func wait(for key: RateLimiter.Key, besides reserved: Int, now: Milliseconds) -> Int? {
        limiter.wait(key, for: reserved + 1, now: now)
    }

    func wait(forBytesOf user: UserID, now: Milliseconds) -> Int? { limiter.wait(.sentBytes(user), now: now) }

    func mayAnswer(_ device: DeviceAddress, staleOn callID: CallID, now: Milliseconds) -> Bool {
        staleAcks.isFree(device, callID, now: now)
    }

    // MARK: When something is decided

    /// Takes what a decision has reserved, for those that are decided after it.
    func take(_ reserved: [RateLimiter.Key], now: Milliseconds) {
        for key in reserved { limiter.take(1, of: key, now: now) }
    }

    /// Gives it back when the decision does not come about.
    func giveBack(_ reserved: [RateLimiter.Key], now: Milliseconds) {
        for key in reserved { limiter.giveBack(key, now: now) }
    }

    /// So many bytes were sent.
    func charge(_ bytes: Int, to key: RateLimiter.Key, now: Milliseconds) { limiter.take(bytes, of: key, now: now) }

    /// A device that acked an old revision was told what it is owed.
    func answered(_ device: DeviceAddress, staleOn callID: CallID, now: Milliseconds) {
        staleAcks.answered(device, callID, now: now)
    }
}
