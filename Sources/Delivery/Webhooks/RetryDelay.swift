import CallCore

/// The times of the attempts after a failed attempt for a webhook event.
package enum RetryDelay {
    /// The delay after the first attempt; each further attempt doubles the delay.
    package static let first: Milliseconds = 1_000
    package static let longest: Milliseconds = 600_000
    /// The longest `Retry-After` that counts, so that an endpoint with a wrong header is not left alone for days.
    package static let longestAsked: Milliseconds = 3_600_000

    /// Returns the delay after so many attempts: 1, 2, 4 … s, at most 10 min.
    /// - Parameter asked: the `Retry-After` of the last response, as a possible longer delay, never a shorter delay.
    package static func delay(afterAttempts attempts: Int, asked: Milliseconds? = nil) -> Milliseconds {
        // 2^10 s are already more than the longest delay.
        let doublings = min(max(0, attempts - 1), 10)
        return max(min(first << doublings, longest), min(asked ?? 0, longestAsked))
    }

    /// Returns the time of the next attempt after an attempt that failed at `now`. Returns nil when no further attempt
    /// is allowed, and the event becomes a dead letter: no attempt begins later than `retryFor` seconds after the first
    /// attempt (`retryFor` of the endpoint: a day by default, at most 30 days). The last attempt comes exactly at that
    /// moment. When the endpoint has asked for a time after that moment, no further attempt follows.
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

/// The consequence of an attempt to deliver a webhook event.
package enum WebhookVerdict: Equatable, Sendable {
    /// The endpoint has accepted the event.
    case taken
    /// The endpoint wants no more events: no event is sent until its URL changes or an operator turns the endpoint on.
    case gone
    /// A later attempt follows.
    case again

    /// - Parameter status: the status of the response; nil without a response. A redirect is not followed, and counts
    ///   as a failure.
    package init(status: Int?) {
        switch status {
        case .some(200...299): self = .taken
        case 410: self = .gone
        default: self = .again
        }
    }
}
