/// How much of something may be had: so much per second in the long run, and so much at once after a rest (section 2, Rate limits).
///
/// It is one number, the moment at which it will be full again, so that it needs no entry anywhere while it is full.
package struct TokenBucket: Equatable, Sendable {
    /// How large it is, in the microseconds in which it gains as much.
    package struct Size: Sendable {
        /// The whole of it.
        let room: Int64
        /// What it may be overdrawn by.
        let debt: Int64

        package init(room: Int64, debt: Int64 = 0) {
            self.room = room
            self.debt = debt
        }
    }

    /// In microseconds of the clock that is handed in.
    private var fullAt: Int64 = 0

    package init() {}

    /// When it is full again, as of `now`.
    private func fullness(_ size: Size, _ now: Int64) -> Int64 {
        // The clock was set back: nobody is kept waiting for what was never asked.
        fullAt <= now || fullAt > now + size.room + size.debt ? now : fullAt
    }

    /// The microseconds after which `cost` may be taken; at most 0 when it may be now.
    package func wait(for cost: Int64, _ size: Size, now: Int64) -> Int64 {
        fullness(size, now) + cost - now - size.room
    }

    /// Takes `cost`, also when less is left, down to the largest debt.
    package mutating func take(_ cost: Int64, _ size: Size, now: Int64) {
        fullAt = min(fullness(size, now) + cost, now + size.room + size.debt)
    }

    /// Gives back what was taken.
    package mutating func giveBack(_ cost: Int64) { fullAt -= cost }

    package func isFull(now: Int64) -> Bool { fullAt <= now }
}
