/// The lateness that the service is allowed, in milliseconds.
package struct Tolerances: Sendable, Equatable {
    /// How late a timer may fire without any disturbance since its call last changed.
    package var timer: Int64 = 50
    /// How late a timer may fire when its coordinator may have died, or there was any other disturbance meanwhile.
    package var disturbedTimer: Int64 = 1_500
    /// How long a reachable phone may ring on after the end of its invitation.
    package var ringing: Int64 = 1_000
    /// How long a phone may ring on when a fault or a loss may have hit the message that stops the ringing: `ringing`,
    /// plus the time of a resend and of a take-over.
    package var disturbedRinging: Int64 = 2_500
    /// How long the response to a request of a connected device may take without any disturbance.
    package var response: Int64 = 2_000
    /// How far apart the clocks of devices and the service may be.
    package var clock: Int64 = 50
    /// How long the consequences of a loss, a freeze or a fault are still excused afterwards.
    package var aftermath: Int64 = 8_000

    package init() {}
}
