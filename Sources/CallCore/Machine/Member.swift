import SignalingProtocol

/// A member of a call: the part that all members see (`MemberSnapshot`), and the data for delivery.
package struct Member: Equatable, Sendable {
    package let userID: UserID
    /// The name in the user's profile at the time of the invitation.
    package internal(set) var name: String?
    package internal(set) var avatarURL: String?
    package internal(set) var state: MemberState
    /// The device that accepted, rejected or joined.
    package internal(set) var device: DeviceID?
    package internal(set) var invitedBy: UserID?
    /// The expiry of the invitation, set when the user is invited.
    package internal(set) var expiresAt: Milliseconds?
    /// The time of the last invitation, when the time does not follow from `expiresAt` and the call's `timeout`
    /// (`Call.invitedAt`).
    package internal(set) var ownInvitedAt: Milliseconds?
    package internal(set) var updatedAt: Milliseconds
    package internal(set) var reason: String?
    package internal(set) var extendedData: String?

    /// The revision of the last invitation; 0 when the invitation was never to ring on any device.
    package internal(set) var invitedRevision = 0
    /// The revision of the last change of this member that other members saw.
    package internal(set) var changedRevision = 0
    /// The revision at which `device` answered or joined; 0 when no device has done so since the invitation.
    package internal(set) var handledRevision = 0
    /// The time when `inviting` becomes `notYetReceived`; nil when the call does not check this.
    package internal(set) var notReceivedAt: Milliseconds?
    /// Whether `device` rejected by a ring check. An app that is connected on the same device does not know of the
    /// reject, so that the device gets the same event as the user's other devices.
    package internal(set) var isHandledByCheck = false
    /// Whether the user has ever accepted, rejected or joined: the user has not missed the call.
    package internal(set) var hasResponded = false
    /// Whether the user has blocked the inviter. The user then learns nothing of the call, and for all other members
    /// the call looks as if the invitation never reached a device of the user (section 2, Blocked users).
    package internal(set) var isWithheld = false
    /// Whether the user has had a push registration at the invitation or since (docs/decisions/0021).
    package internal(set) var mayBePushed = false

    init(userID: UserID, state: MemberState, updatedAt: Milliseconds) {
        self.userID = userID
        self.state = state
        self.updatedAt = updatedAt
    }

    /// Restores a stored member.
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
