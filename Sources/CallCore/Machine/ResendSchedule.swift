/// The resend schedule of an unacknowledged event: after 1, 2, 4, 8 s, then every 8 s (docs/protocol.md, section 5).
///
/// The schedule depends only on the start of the delivery, so no counter is stored, and any coordinator can continue
/// the schedule. A resend that is due is held back from a silent or slow device (`ResendPacing`), and put off by a
/// second while requests wait for too long (`TimerQueue.putOffResends`).
package enum ResendSchedule {
    /// The time from the first send to the first resend, in milliseconds.
    package static let firstDelay: Milliseconds = 1_000
    private static let longestDelay: Milliseconds = 8_000
    /// The duration, in milliseconds, for which an event other than an invitation is resent.
    package static let horizon: Milliseconds = 60_000

    /// Returns the first moment after `moment` in the schedule that starts at `anchor`.
    package static func next(after moment: Milliseconds, from anchor: Milliseconds) -> Milliseconds {
        var delay = firstDelay
        var at = anchor + delay
        while at <= moment, delay < longestDelay {
            delay *= 2
            at += delay
        }
        if at > moment { return at }
        return at + ((moment - at) / longestDelay + 1) * longestDelay
    }
}
