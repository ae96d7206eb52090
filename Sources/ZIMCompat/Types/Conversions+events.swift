internal import SignalingProtocol

/// The contents of events.
extension ZIMCallInvitationCreatedInfo {
    convenience init(_ call: CallSnapshot) {
        self.init()
        mode = ZIMCallInvitationMode(call.mode)
        caller = call.inviter.string
        extendedData = call.extendedData ?? ""
        timeout = UInt32(clamping: call.timeout)
        createTime = call.createdAt
        callUserList = call.members.map(ZIMCallUserInfo.init)
    }
}

extension ZIMCallInvitationReceivedInfo {
    convenience init(_ call: CallSnapshot, own: MemberSnapshot) {
        self.init()
        mode = ZIMCallInvitationMode(call.mode)
        caller = call.inviter.string
        inviter = (own.invitedBy ?? call.inviter).string
        extendedData = call.extendedData ?? ""
        timeout = UInt32(clamping: call.timeout)
        createTime = call.createdAt
        callUserList = call.members.map(ZIMCallUserInfo.init)
    }
}

extension ZIMCallInvitationCancelledInfo {
    convenience init(_ call: CallSnapshot, own: MemberSnapshot) {
        self.init()
        inviter = (own.invitedBy ?? call.inviter).string
        mode = ZIMCallInvitationMode(call.mode)
        extendedData = own.extendedData ?? ""
    }

    /// The inviter has not cancelled, so the app gets no `extendedData` of a cancel.
    convenience init(_ call: CallSnapshot, by own: MemberSnapshot) {
        self.init(call, own: own)
        extendedData = ""
    }
}

extension ZIMCallInvitationAcceptedInfo {
    convenience init(_ member: MemberSnapshot) {
        self.init()
        invitee = member.userID.string
        extendedData = member.extendedData ?? ""
    }
}

extension ZIMCallInvitationRejectedInfo {
    convenience init(_ member: MemberSnapshot) {
        self.init()
        invitee = member.userID.string
        extendedData = member.extendedData ?? ""
    }
}

extension ZIMCallInvitationTimeoutInfo {
    convenience init(_ call: CallSnapshot) {
        self.init()
        mode = ZIMCallInvitationMode(call.mode)
    }
}

extension ZIMCallInvitationEndedInfo {
    convenience init(_ call: CallSnapshot) {
        self.init()
        caller = call.inviter.string
        operatedUserID = call.endedBy?.string ?? ""
        // The data of the end is in the entry of the member who ended the call.
        extendedData = call.endedBy.flatMap(call.member)?.extendedData ?? ""
        mode = ZIMCallInvitationMode(call.mode)
        endTime = call.endedAt ?? 0
    }

    /// Creates the info for a device on which the call has ended while the call may go on elsewhere: ended by the user,
    /// with the user's data, at the time of the user's last change.
    convenience init(_ call: CallSnapshot, by own: MemberSnapshot) {
        self.init()
        caller = call.inviter.string
        operatedUserID = own.userID.string
        extendedData = own.extendedData ?? ""
        mode = ZIMCallInvitationMode(call.mode)
        endTime = own.updatedAt
    }
}

extension ZIMCallUserStateChangeInfo {
    convenience init(_ members: [MemberSnapshot]) {
        self.init()
        callUserList = members.map(ZIMCallUserInfo.init)
    }
}
