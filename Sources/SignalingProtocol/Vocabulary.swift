/// How long a call lives (docs/protocol.md, section 3).
public enum CallMode: String, Sendable, CaseIterable {
    /// The call ends as soon as no invitation is pending.
    case common
    /// The call lives on after the answer: members may be added, join, quit and end it.
    case advanced
}

/// Who may join an advanced call (section 2, `call.join`).
public enum JoinPolicy: String, Sendable, CaseIterable {
    /// Those who were invited, now or before.
    case invited
    case anyone
}

/// What an invitation does when the invitee is in another live call (section 3, Busy).
public enum BusyPolicy: String, Sendable, CaseIterable {
    case ring
    /// The invitee is rejected at once with reason `busy` and does not ring.
    case reject
}

/// What an invitation does when its invitee is inviting its inviter (section 3, Glare).
public enum GlarePolicy: String, Sendable, CaseIterable {
    case ring
    /// It becomes the acceptance of the other invitation.
    case merge
}

/// The state of a call; it only moves downward (section 3).
public enum CallState: String, Sendable, CaseIterable {
    /// Nobody but the inviter accepted. Can transition to `active` and `ended`.
    case ringing
    /// An invitee accepted. Can transition to `ended`.
    case active
    /// Final.
    case ended
}

/// Why a call ended (section 3).
public enum EndReason: String, Sendable, CaseIterable {
    /// A common call was answered.
    case answered
    /// Everybody who was invited said no.
    case rejected
    /// Everybody who was invited is in another call.
    case busy
    /// No invitation was answered in time.
    case timeout
    /// The inviter took the invitations back.
    case cancelled
    /// The inviter was not reachable for too long while it rang, or logged out.
    case callerLost
    /// Somebody ended the call for all.
    case hangup
    /// By leaving: nobody but one was left.
    case quit
    /// Nobody but one was left, since the others were not heard of for too long.
    case heartbeatTimeout
}

/// The state of a member of a call (section 3).
public enum MemberState: String, Sendable, CaseIterable {
    /// Invited; no device has acknowledged yet. Can transition to `notYetReceived`, `received`, `accepted`,
    /// `rejected`, `cancelled`, `timeout`.
    case inviting
    /// With `notReceivedCheck`: no device acknowledged in time. Transitions as `inviting`.
    case notYetReceived
    /// Some device acknowledged the invitation. Can transition to `accepted`, `rejected`, `cancelled`, `timeout`.
    case received
    /// In the call. Can transition to `quit` in advanced mode.
    case accepted
    /// Declined. May be invited again in advanced mode: `inviting`, or `accepted` by joining; so may the three below.
    case rejected
    /// The invitation was taken back, by the inviter or because the call ended.
    case cancelled
    /// The invitation expired.
    case timeout
    /// Left the call, or was not heard of for too long.
    case quit

    /// The invitation stands and is not answered.
    public var isPending: Bool {
        switch self {
        case .inviting, .notYetReceived, .received: true
        case .accepted, .rejected, .cancelled, .timeout, .quit: false
        }
    }

    /// Pending or accepted.
    public var isLive: Bool { isPending || self == .accepted }
}

/// The events that a device is told of (section 5).
public enum EventName: String, Sendable, CaseIterable {
    case created = "call.created"
    case invited = "call.invited"
    case userStateChanged = "call.userStateChanged"
    case cancelled = "call.cancelled"
    case timeout = "call.timeout"
    case ended = "call.ended"
    case handledElsewhere = "call.handledElsewhere"
}

/// The reasons that the service gives by itself; a `call.reject` may carry any other text.
public enum WellKnownReason {
    public static let declined = "declined"
    public static let busy = "busy"
}
