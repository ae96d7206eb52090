import SignalingProtocol

/// A member of a call: what everybody sees (`MemberSnapshot`) and what delivery needs.
package struct Member: Equatable, Sendable {
    package let userID: UserID
    /// From the user's profile at the time of the invitation.
    package internal(set) var name: String?
    package internal(set) var avatarURL: String?
    package internal(set) var state: MemberState
    /// The device that accepted, rejected or joined.
    package internal(set) var device: DeviceID?
    package internal(set) var invitedBy: UserID?
    /// When the invitation expires; fixed when the user is invited.
    package internal(set) var expiresAt: Milliseconds?
    /// When the user was last invited, where that does not follow from `expiresAt` and the call's `timeout` (`Call.invitedAt`).
    package internal(set) var ownInvitedAt: Milliseconds?
    package internal(set) var updatedAt: Milliseconds
    package internal(set) var reason: String?
    package internal(set) var extendedData: String?

    /// The revision at which the user was last invited; 0 when no device was ever to ring.
    package internal(set) var invitedRevision = 0
    /// The revision at which others last saw this member change.
    package internal(set) var changedRevision = 0
    /// The revision at which `device` took the call; 0 when no device did since the invitation.
    package internal(set) var handledRevision = 0
    /// When `inviting` becomes `notYetReceived`, if that is checked.
    package internal(set) var notReceivedAt: Milliseconds?
    /// `device` declined by a ring check, of which an app that it has connected knows nothing: that is told like those on other devices.
    package internal(set) var isHandledByCheck = false
    /// The user has accepted, rejected or joined at some time: the call was not missed.
    package internal(set) var hasResponded = false
    /// The user has blocked whoever sent the invitation, and learns nothing of the call: to everybody else it is as if no device of the
    /// user were ever reached (section 2, Blocked users).
    package internal(set) var isWithheld = false
    /// A device of the user was registered for pushes when the user was invited, or has been since (docs/decisions/0021).
    package internal(set) var mayBePushed = false

    init(userID: UserID, state: MemberState, updatedAt: Milliseconds) {
        self.userID = userID
        self.state = state
        self.updatedAt = updatedAt
    }

    /// As it was stored.
    package init(
        userID: UserID, name: String?, avatarURL: String?, state: MemberState, device: DeviceID?, invitedBy: UserID?,
        expiresAt: Milliseconds?, updatedAt: Milliseconds, reason: String?, extendedData: String?,
        invitedRevision: Int, changedRevision: Int, handledRevision: Int, notReceivedAt: Milliseconds?,
        hasResponded: Bool, isWithheld: Bool, mayBePushed: Bool, ownInvitedAt: Milliseconds?,
        isHandledByCheck: Bool
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
        self.mayBePushed = mayBePushed
        self.ownInvitedAt = ownInvitedAt
        self.isHandledByCheck = isHandledByCheck
    }

    mutating func show(_ profile: UserProfile?) {
        name = profile?.name
        avatarURL = profile?.avatarURL
    }

    package var snapshot: MemberSnapshot {
        MemberSnapshot(
            userID: userID, name: name, avatarURL: avatarURL, state: state, device: device, invitedBy: invitedBy,
            expiresAt: expiresAt, updatedAt: updatedAt, reason: reason, extendedData: extendedData)
    }

    package var change: MemberChange {
        MemberChange(userID: userID, state: state, device: device, reason: reason, extendedData: extendedData)
    }
}
