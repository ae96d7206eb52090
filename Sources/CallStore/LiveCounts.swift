/// The numbers of what is live in the whole deployment.
package struct LiveCounts: Equatable, Sendable {
    package var calls = 0
    /// The invitations that are pending in live calls.
    package var ringing = 0
    /// The devices whose presence is online and not expired. Devices at a broker that is away are counted until their
    /// presence expires.
    package var devices = 0

    package init(calls: Int = 0, ringing: Int = 0, devices: Int = 0) {
        self.calls = calls
        self.ringing = ringing
        self.devices = devices
    }
}
