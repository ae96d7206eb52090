/// When an unacknowledged event is sent again: after 1, 2, 4, 8 s, then every 8 s (docs/protocol.md, section 5).
///
/// It is a function of the moment from which the device has been owed the event, so no counter is stored and any
/// coordinator goes on where another one stopped.
package enum ResendSchedule {
    /// From the first send to the first resend.
    package static let firstDelay: Milliseconds = 1_000
    private static let longestDelay: Milliseconds = 8_000
    /// Events other than invitations are resent for this long.
    package static let horizon: Milliseconds = 60_000

    /// The first moment of the schedule from `anchor` that lies after `moment`.
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
