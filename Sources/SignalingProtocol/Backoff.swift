/// Waits that double with each attempt, up to the longest wait. All times are in milliseconds.
package struct Backoff: Sendable, Equatable {
    package let first: Int64
    package let longest: Int64
    /// The number of waits that `next()` has returned since the last `reset()`.
    private var attempts = 0

    /// - Precondition: `first` is at least 1.
    package init(first: Int64, longest: Int64) {
        precondition(first > 0, "a backoff begins with a wait")
        self.first = first
        self.longest = longest
    }

    /// Returns the wait after the `attempts`th attempt; the first wait also for a number below 1.
    package func wait(after attempts: Int) -> Int64 {
        let doublings = max(attempts - 1, 0)
        // A shift by fewer places than there are leading zeros does not overflow.
        return doublings < first.leadingZeroBitCount ? min(first << doublings, longest) : longest
    }

    /// Returns the next wait, shortened at random by up to a half, so that the devices of a broker that restarts do not
    /// all connect at once.
    package mutating func next() -> Int64 {
        attempts += 1
        let wait = wait(after: attempts)
        return Int64.random(in: wait / 2...wait)
    }

    /// Begins again with the first wait.
    package mutating func reset() { attempts = 0 }
}

extension Backoff {
    /// The waits between resends: 1, 2, 4, 8 s, then every 8 s (docs/protocol.md, sections 1 and 2).
    package static let resends = Backoff(first: 1_000, longest: 8_000)
}
