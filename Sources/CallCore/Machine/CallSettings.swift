import SignalingProtocol

/// What an operator may set about calls. The defaults are the protocol's (docs/protocol.md, section 3).
package struct CallSettings: Sendable, Equatable {
    /// Seconds an invitation lasts when the invite does not say.
    package var invitationTimeout = 60
    /// How long an unacknowledged invitation stays `inviting` when the invite does not say, in milliseconds.
    package var notReceivedAfter: Milliseconds = 5_000
    /// How long a lost inviter may take to come back while the call rings.
    package var callerGrace: Milliseconds = 10_000
    /// How long an accepted member of an advanced call may be silent.
    package var heartbeatTimeout: Milliseconds = 60_000
    /// The same while the app's backend holds the member's place: it asks for no heartbeats.
    package var heldTimeout: Milliseconds = 86_400_000
    /// How many live members a call may have, the inviter included.
    package var maxMembers = 10
    /// How long an advanced call without `autoEnd` stays when nobody is live.
    package var emptyCallTimeout: Milliseconds = 60_000
    /// How long an ended call is still owed to devices.
    package var endedRetention: Milliseconds = 60_000
    /// Whether a user is accepted in at most one live advanced call.
    package var oneActiveCall = true

    package init() {}

    /// How long an accepted member of an advanced call may be silent, who is there through this device.
    func silence(of device: DeviceID?) -> Milliseconds { device == .server ? heldTimeout : heartbeatTimeout }

    /// How many members a call may ever have had, past ones included, so that adding and leaving cannot grow it
    /// without end.
    package var maxMembersEver: Int { maxMembers * 3 }
}
