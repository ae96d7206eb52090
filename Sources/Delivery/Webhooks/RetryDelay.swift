import CallCore

/// When an event that was not taken is tried again.
package enum RetryDelay {
    /// After the first attempt; doubled after each further one.
    package static let first: Milliseconds = 1_000
    package static let longest: Milliseconds = 600_000
    /// No `Retry-After` counts for more, so that an endpoint that errs is not given up for days.
    package static let longestAsked: Milliseconds = 3_600_000

    /// How long to wait after so many attempts: 1, 2, 4 … s, at most 10 min. `asked`: the `Retry-After` of the last answer, which can
    /// make it longer, never shorter.
    package static func delay(afterAttempts attempts: Int, asked: Milliseconds? = nil) -> Milliseconds {
        // 2^10 s are more than the longest already.
        let doublings = min(max(0, attempts - 1), 10)
        return max(min(first << doublings, longest), min(asked ?? 0, longestAsked))
    }

    /// When the next attempt is due after one that failed at `now`; nil when there is none, and the event becomes a dead letter: no
    /// attempt begins later than `retryFor` seconds after the first. The last one comes at that moment, unless the endpoint asked for
    /// a later one.
    package static func next(
        afterAttempts attempts: Int, first: Milliseconds, now: Milliseconds, retryFor: Int,
        asked: Milliseconds? = nil
    ) -> Milliseconds? {
        let end = first + Milliseconds(retryFor) * 1000
        guard now < end else { return nil }
        let due = now + delay(afterAttempts: attempts)
        let askedFor = now + min(asked ?? 0, longestAsked)
        return askedFor > end ? nil : min(max(due, askedFor), end)
    }
}
