import SignalingProtocol

/// What a device remembers of a call.
struct KnownCall: Sendable, Equatable {
    /// How long an invitation still rings.
    struct Countdown: Sendable, Equatable {
        /// The expiry by the service's clock: only compared with itself, to tell a new invitation from the same one.
        let expiresAt: Int64?
        /// By this device's clock.
        var until: Int64
    }

    /// The newest state from events, responses and welcomes.
    var snapshot: CallSnapshot
    /// The highest revision that came as event or response. A welcome does not count: the event of the same revision
    /// is still to be told.
    var revision: Int
    /// As far as the app was told: the call lives, and this user is pending or accepted in it.
    var isLive: Bool
    /// When it was last heard of, and on which connection.
    var heardAt: Int64
    var connection: Int
    var countdown: Countdown?
    var nextHeartbeat: Int64?

    var callID: CallID { snapshot.callID }
}
