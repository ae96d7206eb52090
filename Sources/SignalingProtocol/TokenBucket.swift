/// A token bucket: a limit on the long-run rate, with a burst after a rest (section 2, Rate limits).
///
/// The bucket is stored as a single number, the next moment at which the bucket is full. A bucket that is full now
/// therefore needs no entry in any table.
package struct TokenBucket: Equatable, Sendable {
    /// The size of a bucket, in microseconds: the time in which an empty bucket becomes full.
    package struct Size: Sendable {
        /// The capacity.
        let room: Int64
        /// The largest debt: the longest time in which an overdrawn bucket becomes empty again.
        let debt: Int64

        package init(room: Int64, debt: Int64 = 0) {
            self.room = room
            self.debt = debt
        }
    }

    /// The next moment of a full bucket, in microseconds of the caller's clock.
    private var fullAt: Int64 = 0

    package init() {}

    /// Returns the next moment of a full bucket, not before `now`.
    private func fullness(_ size: Size, _ now: Int64) -> Int64 {
        // A value beyond the possible range means that the clock was set back. The bucket then counts as full, so that
        // no user waits because of the clock.
        fullAt <= now || fullAt > now + size.room + size.debt ? now : fullAt
    }

    /// Returns the microseconds until `cost` may be taken; a result of 0 or below means now.
    package func wait(for cost: Int64, _ size: Size, now: Int64) -> Int64 {
        fullness(size, now) + cost - now - size.room
    }

    /// Takes `cost`, even when the bucket holds less; the debt is bounded by `size.debt`.
    package mutating func take(_ cost: Int64, _ size: Size, now: Int64) {
        fullAt = min(fullness(size, now) + cost, now + size.room + size.debt)
    }

    /// Returns `cost` to the bucket.
    package mutating func giveBack(_ cost: Int64) { fullAt -= cost }

    package func isFull(now: Int64) -> Bool { fullAt <= now }
}
