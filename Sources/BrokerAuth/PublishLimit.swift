import SignalingProtocol

/// How many messages a user may publish, and filters subscribe and unsubscribe, all devices together.
package struct PublishLimit: Equatable, Sendable {
    /// Per second in the long run.
    package let rate: Int
    /// At once after a rest.
    package let burst: Int

    /// Nil unless both are from one to a million.
    package init?(rate: Int, burst: Int) {
        guard (1...1_000_000).contains(rate), (1...1_000_000).contains(burst) else { return nil }
        self.rate = rate
        self.burst = burst
    }
}

/// What one user has published, and what was beyond the limit. Times in milliseconds.
struct Publishing {
    private var bucket = TokenBucket()
    /// How many were beyond the limit since the bucket was last full.
    private(set) var excess = 0

    /// Takes one; false when there is none.
    mutating func admit(_ limit: PublishLimit, now: Int64) -> Bool {
        let cost = 1_000_000 / Int64(limit.rate)
        let size = TokenBucket.Size(room: cost * Int64(limit.burst))
        if isRested(now: now) { excess = 0 }
        guard bucket.wait(for: cost, size, now: now * 1_000) <= 0 else {
            excess += 1
            return false
        }
        bucket.take(cost, size, now: now * 1_000)
        return true
    }

    func isRested(now: Int64) -> Bool { bucket.isFull(now: now * 1_000) }
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
