internal import SignalingProtocol

/// What events carry.
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

    /// Nobody cancelled the invitation, so there is no `extendedData` of a cancel.
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
        // What went with the end stands with who ended it.
        extendedData = call.endedBy.flatMap(call.member)?.extendedData ?? ""
        mode = ZIMCallInvitationMode(call.mode)
        endTime = call.endedAt ?? 0
    }

    /// For a device on which the call is over while it may go on elsewhere: ended by the user, with what the user said, at that time.
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
