/// How exact the service must be, in milliseconds.
package struct Tolerances: Sendable, Equatable {
    /// How late a timer may fire when nothing was disturbed since its call last changed.
    package var timer: Int64 = 50
    /// The same when its owner may have died, or anything was disturbed meanwhile.
    package var disturbedTimer: Int64 = 1_500
    /// How long a phone that is reachable may ring on for a call that is over.
    package var ringing: Int64 = 1_000
    /// The same when a fault or a loss may have hit the message that stops it: one resend and a take-over more.
    package var disturbedRinging: Int64 = 2_500
    /// How long a request of a connected device may take when nothing was disturbed.
    package var response: Int64 = 2_000
    /// How far the clocks of devices and service may be apart.
    package var clock: Int64 = 50
    /// How long after a loss, a freeze or a fault its consequences are still excused.
    package var aftermath: Int64 = 8_000

    package init() {}
}
