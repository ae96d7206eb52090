internal import SignalingProtocol

/// The contents of callbacks; empty when the request failed.
extension ZIMCallInvitationSentInfo {
    convenience init(_ success: Response.Success?) {
        self.init()
        guard let success else { return }
        timeout = UInt32(clamping: success.call.timeout)
        errorUserList = success.errors.map(ZIMErrorUserInfo.init)
        errorInvitees = success.errors.map { error in
            let user = ZIMCallUserInfo()
            user.userID = error.userID.string
            return user
        }
    }
}

extension ZIMCallingInvitationSentInfo {
    convenience init(_ success: Response.Success?) {
        self.init()
        errorUserList = success?.errors.map(ZIMErrorUserInfo.init) ?? []
    }
}

extension ZIMCallJoinSentInfo {
    convenience init(_ success: Response.Success?) {
        self.init()
        guard let success else { return }
        extendedData = success.call.extendedData ?? ""
        createTime = success.call.createdAt
        joinTime = success.time
        callUserList = success.call.members.map(ZIMCallUserInfo.init)
    }
}

extension ZIMCallQuitSentInfo {
    convenience init(_ success: Response.Success?) {
        self.init()
        guard let success else { return }
        createTime = success.call.createdAt
        acceptTime = success.call.acceptedAt ?? 0
        quitTime = success.time
    }
}

extension ZIMCallEndedSentInfo {
    convenience init(_ success: Response.Success?) {
        self.init()
        guard let success else { return }
        createTime = success.call.createdAt
        acceptTime = success.call.acceptedAt ?? 0
        endTime = success.call.endedAt ?? success.time
    }
}
