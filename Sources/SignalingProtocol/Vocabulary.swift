/// The mode of a call; the mode decides when the call ends (docs/protocol.md, section 3).
public enum CallMode: String, Sendable, CaseIterable {
    /// The call ends as soon as no invitation is pending.
    case common
    /// The call lives on after the answer; the members may then add, join, quit and end.
    case advanced
}

/// The users that may join an advanced call (section 2, `call.join`).
public enum JoinPolicy: String, Sendable, CaseIterable {
    /// Users with an invitation to the call, now or earlier.
    case invited
    case anyone
}

/// The effect of an invitation on an invitee in another live call (section 3, Busy).
public enum BusyPolicy: String, Sendable, CaseIterable {
    case ring
    /// The invitee is rejected at once with reason `busy` and does not ring.
    case reject
}

/// The effect of an invitation when its invitee is inviting its inviter at the same time (section 3, Glare).
public enum GlarePolicy: String, Sendable, CaseIterable {
    case ring
    /// The invitation becomes the acceptance of the other invitation.
    case merge
}

/// The state of a call. A call only moves downward in this list (section 3).
public enum BellwireCallState: String, Sendable, CaseIterable {
    /// Only the inviter has accepted. Can transition to `active` and `ended`.
    case ringing
    /// An invitee has accepted. Can transition to `ended`.
    case active
    /// Final.
    case ended
}

/// The reason why a call ended (section 3).
public enum EndReason: String, Sendable, CaseIterable {
    /// An invitee accepted a common call.
    case answered
    /// Every invitee rejected.
    case rejected
    /// Every invitee is in another call.
    case busy
    /// No invitee answered in time.
    case timeout
    /// The inviter cancelled the invitations.
    case cancelled
    /// The inviter logged out while the call rang, or was offline for too long.
    case callerLost
    /// A member ended the call for all.
    case hangup
    /// Members left until at most a single member remained.
    case quit
    /// At most a single member remained, since the other members sent no sign of life for too long.
    case heartbeatTimeout
}

/// The state of a member of a call (section 3).
public enum MemberState: String, Sendable, CaseIterable {
    /// Invited; no device has acknowledged the invitation yet. Can transition to `notYetReceived`, `received`,
    /// `accepted`, `rejected`, `cancelled`, `timeout`.
    case inviting
    /// With `notReceivedCheck`: no device acknowledged the invitation in time. Has the same transitions as `inviting`.
    case notYetReceived
    /// A device has acknowledged the invitation. Can transition to `accepted`, `rejected`, `cancelled`, `timeout`.
    case received
    /// In the call. Can transition to `quit` in advanced mode.
    case accepted
    /// The user declined. In advanced mode such a user may be invited again (`inviting`) or join (`accepted`); the same
    /// holds for the three states below.
    case rejected
    /// The inviter cancelled the invitation, or the call ended.
    case cancelled
    /// The invitation expired.
    case timeout
    /// The user left the call, or sent no sign of life for too long.
    case quit

    /// Whether the invitation is open and not answered.
    public var isPending: Bool {
        switch self {
        case .inviting, .notYetReceived, .received: true
        case .accepted, .rejected, .cancelled, .timeout, .quit: false
        }
    }

    /// Whether the member is pending or accepted.
    public var isLive: Bool { isPending || self == .accepted }
}

/// The names of events (section 5).
public enum EventName: String, Sendable, CaseIterable {
    case created = "call.created"
    case invited = "call.invited"
    case userStateChanged = "call.userStateChanged"
    case cancelled = "call.cancelled"
    case timeout = "call.timeout"
    case ended = "call.ended"
    case handledElsewhere = "call.handledElsewhere"
}

/// The reasons that the service itself uses; a `call.reject` may carry any other text.
public enum WellKnownReason {
    public static let declined = "declined"
    public static let busy = "busy"
}
