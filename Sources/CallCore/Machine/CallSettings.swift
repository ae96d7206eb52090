import SignalingProtocol

/// Settings of calls. The defaults are those of the protocol (docs/protocol.md, section 3).
package struct CallSettings: Sendable, Equatable {
    /// The duration, in seconds, of an invitation without a `timeout` of its own.
    package var invitationTimeout = 60
    /// The time, in milliseconds, that an unacknowledged invitation stays `inviting` when the invite does not name a
    /// time.
    package var notReceivedAfter: Milliseconds = 5_000
    /// The time, in milliseconds, that a lost inviter has to come back while the call rings.
    package var callerGrace: Milliseconds = 10_000
    /// The time, in milliseconds, that an accepted member of an advanced call may be silent.
    package var heartbeatTimeout: Milliseconds = 60_000
    /// The same time, in milliseconds, for a member whose place the app's backend holds: a backend sends no heartbeats.
    package var heldTimeout: Milliseconds = 86_400_000
    /// The bound on live members of a call, including the inviter.
    package var maxMembers = 10
    /// The time, in milliseconds, that an advanced call without `autoEnd` lives on without a live member.
    package var emptyCallTimeout: Milliseconds = 60_000
    /// The time, in milliseconds, that deliveries of an ended call continue.
    package var endedRetention: Milliseconds = 60_000
    /// Whether a user may be accepted in at most one live advanced call.
    package var oneActiveCall = true

    package init() {}

    /// Returns the time, in milliseconds, that an accepted member on this device may be silent in an advanced call.
    func silence(of device: DeviceID?) -> Milliseconds { device == .server ? heldTimeout : heartbeatTimeout }

    /// The number of members that a call may ever have, including past members, so that adding and leaving cannot grow
    /// the call without end.
    package var maxMembersEver: Int { maxMembers * 3 }
}
