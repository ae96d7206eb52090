import SignalingProtocol

/// A call from a welcome that is held back while a request of the app about this call is unanswered.
struct HeldCall: Sendable, Equatable {
    let snapshot: CallSnapshot
    /// The welcome's time, by the service's clock.
    let reference: Int64
}

/// The machine's record of a call.
struct KnownCall: Sendable, Equatable {
    /// The end of the ringing of an invitation.
    struct Countdown: Sendable, Equatable {
        /// The expiry by the service's clock. The machine compares this value with earlier values only, to recognise a
        /// new invitation.
        let expiresAt: Int64?
        /// The time at which the ringing ends, by this device's clock.
        var until: Int64
    }

    /// The newest state from events, responses and welcomes.
    var snapshot: CallSnapshot
    /// The highest revision that came as an event or a response. A welcome does not count: the event of the same
    /// revision is still to be delivered.
    var revision: Int
    /// The creation time of the revision `revision`, by the service's clock.
    var time: Int64 = 0
    /// A time by the service's clock: no revision made until then is newer than `snapshot`.
    var asOf: Int64 = 0
    /// Whether the app takes the call for live and this user for a pending or accepted member.
    var isLive: Bool
    /// The time at which the last message about the call came, by this device's clock.
    var heardAt: Int64
    /// The number of the connection that brought the last message about the call.
    var connection: Int
    /// Whether an earlier run of the app made this device take part in the call, and the present run has not touched
    /// the call.
    var isOrphaned = false
    var countdown: Countdown?
    var nextHeartbeat: Int64?

    var callID: CallID { snapshot.callID }

    /// Whether the revision is new to this device. A revision that is not higher but was made later comes from a store
    /// that has lost writes and gives revisions a second time (docs/protocol.md, section 5).
    func isNews(_ revision: Int, madeAt time: Int64) -> Bool {
        revision > self.revision || self.revision > 0 && time > self.time
    }
}
