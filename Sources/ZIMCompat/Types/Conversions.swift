internal import SignalingProtocol

/// The conversions from the protocol's types to the types of this SDK.
extension ZIMError {
    convenience init(_ refusal: Refusal?) {
        self.init()
        guard let refusal else { return }
        code = refusal.code
        message = refusal.message
    }
}

extension ZIMErrorUserInfo {
    convenience init(_ userID: String, _ code: ZIMErrorCode) {
        self.init()
        self.userID = userID
        reason = UInt32(clamping: code.rawValue)
    }

    convenience init(_ error: UserError) { self.init(error.userID.string, ZIMErrorCode(error.code)) }
}

extension ZIMUserFullInfo {
    convenience init(_ user: UserSnapshot) {
        self.init()
        baseInfo.userID = user.userID.string
        baseInfo.userName = user.name ?? ""
        baseInfo.userAvatarUrl = user.avatarURL ?? ""
        userAvatarUrl = user.avatarURL ?? ""
        extendedData = user.extendedData ?? ""
    }
}

extension ZIMCallUserInfo {
    convenience init(_ member: MemberSnapshot) {
        self.init()
        userID = member.userID.string
        state = ZIMCallUserState(member.state)
        extendedData = member.extendedData ?? ""
    }
}

extension ZIMCallUserState {
    init(_ state: MemberState) {
        self =
            switch state {
            case .inviting: .inviting
            case .notYetReceived: .notYetReceived
            case .received: .received
            case .accepted: .accepted
            case .rejected: .rejected
            case .cancelled: .cancelled
            case .timeout: .timeout
            case .quit: .quit
            }
    }
}

extension ZIMCallInvitationMode {
    init(_ mode: CallMode) {
        self =
            switch mode {
            case .common: .general
            case .advanced: .advanced
            }
    }
}

extension CallMode {
    init?(_ mode: ZIMCallInvitationMode) {
        switch mode {
        case .unknown: return nil
        case .general: self = .common
        case .advanced: self = .advanced
        }
    }
}

extension ZIMCallInfo {
    /// Creates an entry of `user`'s list of calls.
    convenience init(_ call: CallSnapshot, user: UserID?) {
        self.init()
        callID = call.callID.string
        caller = call.inviter.string
        inviter = (user.flatMap(call.member)?.invitedBy ?? call.inviter).string
        createTime = call.createdAt
        endTime = call.endedAt ?? 0
        state = call.state == .ended ? .ended : .started
        mode = ZIMCallInvitationMode(call.mode)
        extendedData = call.extendedData ?? ""
        callUserList = call.members.map(ZIMCallUserInfo.init)
    }
}
