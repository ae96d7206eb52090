import SignalingProtocol

/// How many messages a user may publish, and filters subscribe and unsubscribe, all devices together.
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

/// What all users have published.
struct UserTraffic {
    /// Users beyond so many at once are not counted until others have rested.
    static let countedUsers = 50_000
    /// How often it is looked for those who have rested, at most, in milliseconds: that goes through all of them.
    static let sweepEvery: Int64 = 1_000

    private var users: [UserID: Publishing] = [:]
    private var sweptAt: Int64?

    /// Counts one message. Nil when it is within the limit, else how many were not since the user last rested.
    mutating func admit(_ user: UserID, _ limit: PublishLimit, now: Int64) -> Int? {
        if users.count >= Self.countedUsers, users[user] == nil {
            sweep(now)
            guard users.count < Self.countedUsers else { return nil }
        }
        return users[user, default: Publishing()].admit(limit, now: now) ? nil : users[user]?.excess
    }

    private mutating func sweep(_ now: Int64) {
        if let sweptAt, (0..<Self.sweepEvery).contains(now - sweptAt) { return }
        sweptAt = now
        users = users.filter { !$0.value.isRested(now: now) }
    }
}
