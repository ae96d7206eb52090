import SignalingProtocol

/// A member of a call: what everybody sees (`MemberSnapshot`) and what delivery needs.
public struct Member: Equatable, Sendable {
    public let userID: UserID
    /// From the user's profile at the time of the invitation.
    public var name: String?
    public var avatarURL: String?
    public var state: MemberState
    /// The device that accepted, rejected or joined.
    public var device: DeviceID?
    public var invitedBy: UserID?
    /// When the invitation expires; fixed when the user is invited.
    public var expiresAt: Milliseconds?
    public var updatedAt: Milliseconds
    public var reason: String?
    public var extendedData: String?

    /// The revision at which the user was last invited; 0 when no device was ever to ring.
    public var invitedRevision = 0
    /// The revision at which others last saw this member change.
    public var changedRevision = 0
    /// The revision at which `device` took the call; 0 when no device did since the invitation.
    public var handledRevision = 0
    /// When `inviting` becomes `notYetReceived`, if that is checked.
    public var notReceivedAt: Milliseconds?
    /// The user has accepted, rejected or joined at some time: the call was not missed.
    public var hasResponded = false
    /// The user has blocked whoever sent the invitation, and learns nothing of the call: to everybody else it is as if no device of the
    /// user were ever reached (section 2, Blocked users).
    public var isWithheld = false

    public init(userID: UserID, state: MemberState, updatedAt: Milliseconds) {
        self.userID = userID
        self.state = state
        self.updatedAt = updatedAt
    }

    mutating func show(_ profile: UserProfile?) {
        name = profile?.name
        avatarURL = profile?.avatarURL
    }

    public var snapshot: MemberSnapshot {
        MemberSnapshot(
            userID: userID, name: name, avatarURL: avatarURL, state: state, device: device, invitedBy: invitedBy,
            expiresAt: expiresAt, updatedAt: updatedAt, reason: reason, extendedData: extendedData)
    }

    public var change: MemberChange {
        MemberChange(userID: userID, state: state, device: device, reason: reason, extendedData: extendedData)
    }
}
