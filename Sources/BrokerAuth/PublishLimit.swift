import SignalingProtocol

/// The limit on a user's publishing, subscribing and unsubscribing, with all devices together.
package struct PublishLimit: Equatable, Sendable {
    /// The number of requests per second in the long run.
    package let rate: Int
    /// The number of requests at once after a rest.
    package let burst: Int

    /// Creates a limit; nil unless both numbers are from 1 to a million.
    package init?(rate: Int, burst: Int) {
        guard (1...1_000_000).contains(rate), (1...1_000_000).contains(burst) else { return nil }
        self.rate = rate
        self.burst = burst
    }
}

/// The counted requests of a user, and the number of requests beyond the limit. Times are in milliseconds.
struct Publishing {
    private var bucket = TokenBucket()
    /// The number of messages beyond the limit since the bucket was last full.
    private(set) var excess = 0

    /// Takes a message's share from the limit. Returns false, and counts the message as excess, when the message is
    /// beyond the limit.
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

/// The publishing of all users.
struct UserTraffic {
    /// The bound on users that are counted at the same time. Further users are not counted until others have rested.
    static let countedUsers = 50_000
    /// The shortest interval between searches for rested users, in milliseconds, since a search goes through all users.
    static let sweepEvery: Int64 = 1_000

    private var users: [UserID: Publishing] = [:]
    private var sweptAt: Int64?

    /// Counts a message. Returns nil within the limit, or else the number of messages beyond the limit since the user
    /// last rested.
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
