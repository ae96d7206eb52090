/// How many messages a user may publish, all devices together.
public struct PublishLimit: Equatable, Sendable {
    /// Per second in the long run.
    public let rate: Int
    /// At once after a rest.
    public let burst: Int

    /// Nil unless both are from one to a million.
    public init?(rate: Int, burst: Int) {
        guard (1...1_000_000).contains(rate), (1...1_000_000).contains(burst) else { return nil }
        self.rate = rate
        self.burst = burst
    }
}

/// What one user has published: a bucket, as the moment at which it will be full again, in microseconds; and what was beyond.
struct Publishing {
    private var fullAt: Int64 = 0
    /// How many were beyond the limit since the bucket was last full.
    private(set) var excess = 0

    /// Takes one; false when there is none. `now` in milliseconds.
    mutating func admit(_ limit: PublishLimit, now: Int64) -> Bool {
        let now = now * 1_000
        let cost = 1_000_000 / Int64(limit.rate)
        let room = cost * Int64(limit.burst)
        // A clock that was set back keeps nobody waiting.
        if fullAt <= now || fullAt > now + room { (fullAt, excess) = (now, 0) }
        guard fullAt + cost - now <= room else {
            excess += 1
            return false
        }
        fullAt += cost
        return true
    }

    func isRested(now: Int64) -> Bool { fullAt <= now * 1_000 }
}
