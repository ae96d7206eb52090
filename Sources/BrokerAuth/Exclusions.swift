import SignalingProtocol

/// The users who have flooded the broker. Each of these users is excluded for the same time.
struct Exclusions {
    /// The time of an exclusion, in milliseconds.
    static let length: Int64 = 30_000
    /// The bound on excluded users. Beyond this bound the earliest exclusions end.
    static let limit = 10_000

    private var until: [UserID: Int64] = [:]
    /// The excluded users in the order of the ends of their exclusions, from `first` on; earlier entries have ended.
    private var order: [UserID] = []
    private var first = 0

    mutating func add(_ user: UserID, now: Int64) {
        forget { $0 <= now }
        if until.count >= Self.limit { forgetFirst() }
        if until.updateValue(now + Self.length, forKey: user) == nil { order.append(user) }
    }

    func contains(_ user: UserID, now: Int64) -> Bool {
        guard let end = until[user] else { return false }
        return end > now
    }

    private mutating func forget(where hasEnded: (Int64) -> Bool) {
        while first < order.count, until[order[first]].map(hasEnded) ?? true { forgetFirst() }
        if first > Self.limit {
            order.removeFirst(first)
            first = 0
        }
    }

    private mutating func forgetFirst() {
        guard first < order.count else { return }
        until[order[first]] = nil
        first += 1
    }
}
