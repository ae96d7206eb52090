import ZIMCompat

/// A handler that hears no event: each method is optional.
final class SilentHandler: ZIMEventHandler {}

/// A handler of all events that `ZIM` tells.
final class Handler: ZIMEventHandler {
    func zim(
        _ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent,
        extendedData: [AnyHashable: Any]
    ) { use(state.rawValue as UInt, event.rawValue as UInt, extendedData) }

    func zim(_ zim: ZIM, errorInfo: ZIMError) { use(errorInfo.code as ZIMErrorCode, errorInfo.message) }

    func zim(_ zim: ZIM, tokenWillExpire second: UInt32) {}

    func zim(_ zim: ZIM, userInfoUpdated info: ZIMUserFullInfo) { use(info.baseInfo as ZIMUserInfo) }

    func zim(_ zim: ZIM, callInvitationCreated info: ZIMCallInvitationCreatedInfo, callID: String) {
        use(info.mode, info.caller, info.extendedData, info.timeout as UInt32, info.createTime as Int64)
        use(info.callUserList as [ZIMCallUserInfo])
    }

    func zim(_ zim: ZIM, callInvitationReceived info: ZIMCallInvitationReceivedInfo, callID: String) {
        use(info.mode, info.caller, info.inviter, info.extendedData, info.timeout as UInt32, info.createTime as Int64)
        use(info.callUserList as [ZIMCallUserInfo])
    }

    func zim(_ zim: ZIM, callInvitationCancelled info: ZIMCallInvitationCancelledInfo, callID: String) {
        use(info.inviter, info.mode, info.extendedData)
    }

    func zim(_ zim: ZIM, callInvitationTimeout info: ZIMCallInvitationTimeoutInfo, callID: String) {
        use(info.mode as ZIMCallInvitationMode)
    }

    func zim(_ zim: ZIM, callInvitationEnded info: ZIMCallInvitationEndedInfo, callID: String) {
        use(info.caller, info.operatedUserID, info.extendedData, info.mode, info.endTime as Int64)
    }

    func zim(_ zim: ZIM, callUserStateChanged info: ZIMCallUserStateChangeInfo, callID: String) {
        for user in info.callUserList { use(user.userID, user.state as ZIMCallUserState, user.extendedData) }
    }

    func zim(_ zim: ZIM, callInvitationAccepted info: ZIMCallInvitationAcceptedInfo, callID: String) {
        use(info.invitee, info.extendedData)
    }

    func zim(_ zim: ZIM, callInvitationRejected info: ZIMCallInvitationRejectedInfo, callID: String) {
        use(info.invitee, info.extendedData)
    }

    func zim(_ zim: ZIM, callInviteesAnsweredTimeout invitees: [String], callID: String) { use(invitees) }

    func zim(_ zim: ZIM, callInvitationTimeout callID: String) {}
}

/// Uses every name of the enums; ZIMCompatTests checks the raw values.
func useEnums() {
    let states: [ZIMCallUserState] = [
        .unknown, .inviting, .accepted, .rejected, .cancelled, .offline, .received, .timeout, .quit, .end,
        .notYetReceived, .beCancelled,
    ]
    let modes: [ZIMCallInvitationMode] = [.unknown, .general, .advanced]
    let calls: [ZIMCallState] = [.unknown, .started, .ended]
    let connections: [ZIMConnectionState] = [.disconnected, .connecting, .connected, .reconnecting]
    let events: [ZIMConnectionEvent] = [
        .success, .activeLogin, .loginTimeout, .loginInterrupted, .kickedOut, .tokenExpired, .unregistered,
    ]
    let handles: [ZIMCXHandleType] = [.generic, .phoneNumber, .emailAddress]
    use(states, modes, calls, connections, events, handles, ZIMErrorCode.success == .ZIMErrorCodeSuccess)
}
