import SignalingProtocol

/// What a welcome lists of a call, while a request of the app about it is unanswered.
struct HeldCall: Sendable, Equatable {
    let snapshot: CallSnapshot
    /// The welcome's time, by the service's clock.
    let reference: Int64
}

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
    /// When that revision was made, by the service's clock.
    var time: Int64 = 0
    /// No revision that was made by then is newer than `snapshot`, by the service's clock.
    var asOf: Int64 = 0
    /// As far as the app was told: the call lives, and this user is pending or accepted in it.
    var isLive: Bool
    /// When it was last heard of, and on which connection.
    var heardAt: Int64
    var connection: Int
    /// This device takes part by what an earlier run of the app did, and the present run has not touched the call.
    var isOrphaned = false
    var countdown: Countdown?
    var nextHeartbeat: Int64?

    var callID: CallID { snapshot.callID }

    /// A revision that was not had. One that is not above, and was made later, is of a store that has lost writes and gives
    /// revisions a second time (docs/protocol.md, section 5).
    func isNews(_ revision: Int, madeAt time: Int64) -> Bool {
        revision > self.revision || self.revision > 0 && time > self.time
    }
}
