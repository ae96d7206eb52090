import SignalingProtocol

/// A member of a call: what everybody sees (`MemberSnapshot`) and what delivery needs.
public struct Member: Equatable, Sendable {
    public let userID: UserID
    /// From the user's profile at the time of the invitation.
    public internal(set) var name: String?
    public internal(set) var avatarURL: String?
    public internal(set) var state: MemberState
    /// The device that accepted, rejected or joined.
    public internal(set) var device: DeviceID?
    public internal(set) var invitedBy: UserID?
    /// When the invitation expires; fixed when the user is invited.
    public internal(set) var expiresAt: Milliseconds?
    public internal(set) var updatedAt: Milliseconds
    public internal(set) var reason: String?
    public internal(set) var extendedData: String?

    /// The revision at which the user was last invited; 0 when no device was ever to ring.
    public internal(set) var invitedRevision = 0
    /// The revision at which others last saw this member change.
    public internal(set) var changedRevision = 0
    /// The revision at which `device` took the call; 0 when no device did since the invitation.
    public internal(set) var handledRevision = 0
    /// When `inviting` becomes `notYetReceived`, if that is checked.
    public internal(set) var notReceivedAt: Milliseconds?
    /// The user has accepted, rejected or joined at some time: the call was not missed.
    public internal(set) var hasResponded = false
    /// The user has blocked whoever sent the invitation, and learns nothing of the call: to everybody else it is as if no device of the
    /// user were ever reached (section 2, Blocked users).
    public internal(set) var isWithheld = false

    init(userID: UserID, state: MemberState, updatedAt: Milliseconds) {
        self.userID = userID
        self.state = state
        self.updatedAt = updatedAt
    }

    /// As it was stored.
    public init(
        userID: UserID, name: String?, avatarURL: String?, state: MemberState, device: DeviceID?, invitedBy: UserID?,
        expiresAt: Milliseconds?, updatedAt: Milliseconds, reason: String?, extendedData: String?,
        invitedRevision: Int, changedRevision: Int, handledRevision: Int, notReceivedAt: Milliseconds?,
        hasResponded: Bool, isWithheld: Bool
    ) {
        self.userID = userID
        self.name = name
        self.avatarURL = avatarURL
        self.state = state
        self.device = device
        self.invitedBy = invitedBy
        self.expiresAt = expiresAt
        self.updatedAt = updatedAt
        self.reason = reason
        self.extendedData = extendedData
        self.invitedRevision = invitedRevision
        self.changedRevision = changedRevision
        self.handledRevision = handledRevision
        self.notReceivedAt = notReceivedAt
        self.hasResponded = hasResponded
        self.isWithheld = isWithheld
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
