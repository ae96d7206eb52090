import ZIMCompat

/// The calls of `ZIM`.
func useCalls(_ zim: ZIM) {
    let sent: ZIMCallInvitationSentCallback = { (callID: String, info: ZIMCallInvitationSentInfo, error: ZIMError) in
        use(callID, info.timeout as UInt32, info.errorUserList as [ZIMErrorUserInfo], error)
        use(info.errorInvitees as [ZIMCallUserInfo])
    }
    zim.callInvite(with: ["bob"], config: inviteConfig(), callback: sent)
    let cancel = ZIMCallCancelConfig()
    (cancel.extendedData, cancel.pushConfig) = ("", nil)
    let cancelled: ZIMCallCancelSentCallback = { (callID: String, errorInvitees: [String], error: ZIMError) in
        use(callID, errorInvitees, error)
    }
    zim.callCancel(with: [], callID: "call", config: cancel, callback: cancelled)
    answer(zim)
    useAdvancedCalls(zim)
    useList(zim)
}

private func inviteConfig() -> ZIMCallInviteConfig {
    let voIP = ZIMVoIPConfig()
    voIP.iOSVoIPHandleType = ZIMCXHandleType.phoneNumber
    (voIP.iOSVoIPHandleValue, voIP.iOSVoIPHasVideo) = ("1", true)
    let push = ZIMPushConfig()
    (push.title, push.content, push.payload, push.resourcesID) = ("", "", "", "")
    (push.enableBadge, push.badgeIncrement, push.voIPConfig) = (true, 1 as Int32, voIP)
    let config = ZIMCallInviteConfig()
    (config.timeout, config.mode, config.extendedData) = (60 as UInt32, ZIMCallInvitationMode.advanced, "")
    (config.enableNotReceivedCheck, config.pushConfig) = (true, push)
    return config
}

private func answer(_ zim: ZIM) {
    let accept = ZIMCallAcceptConfig()
    accept.extendedData = ""
    let accepted: ZIMCallAcceptanceSentCallback = { (callID: String, error: ZIMError) in use(callID, error) }
    zim.callAccept(with: "call", config: accept, callback: accepted)
    let reject = ZIMCallRejectConfig()
    reject.extendedData = ""
    let rejected: ZIMCallRejectionSentCallback = { (callID: String, error: ZIMError) in use(callID, error) }
    zim.callReject(with: "call", config: reject, callback: rejected)
}

private func useAdvancedCalls(_ zim: ZIM) {
    let add = ZIMCallingInviteConfig()
    add.pushConfig = ZIMPushConfig()
    let added: ZIMCallingInvitationSentCallback = { (_: String, info: ZIMCallingInvitationSentInfo, _: ZIMError) in
        use(info.errorUserList as [ZIMErrorUserInfo])
    }
    zim.callingInvite(with: ["carol"], callID: "call", config: add, callback: added)
    let join = ZIMCallJoinConfig()
    join.extendedData = ""
    let joined: ZIMCallJoinSentCallback = { (_: String, info: ZIMCallJoinSentInfo, _: ZIMError) in
        use(info.extendedData, info.createTime as Int64, info.joinTime as Int64, info.callUserList)
    }
    zim.callJoin(by: "call", config: join, callback: joined)
    leave(zim)
}

private func leave(_ zim: ZIM) {
    let quit = ZIMCallQuitConfig()
    (quit.extendedData, quit.pushConfig) = ("", nil)
    let left: ZIMCallQuitSentCallback = { (_: String, info: ZIMCallQuitSentInfo, _: ZIMError) in
        use(info.createTime as Int64, info.acceptTime as Int64, info.quitTime as Int64)
    }
    zim.callQuit(by: "call", config: quit, callback: left)
    let end = ZIMCallEndConfig()
    (end.extendedData, end.pushConfig) = ("", nil)
    let ended: ZIMCallEndSentCallback = { (_: String, info: ZIMCallEndedSentInfo, _: ZIMError) in
        use(info.createTime as Int64, info.acceptTime as Int64, info.endTime as Int64)
    }
    zim.callEnd(by: "call", config: end, callback: ended)
}

private func useList(_ zim: ZIM) {
    let query = ZIMCallInvitationQueryConfig()
    (query.count, query.nextFlag) = (20 as UInt32, 0 as Int64)
    let queried: ZIMCallInvitationListQueriedCallback = { (calls: [ZIMCallInfo], nextFlag: Int64, _: ZIMError) in
        for call in calls {
            use(call.callID, call.caller, call.inviter, call.createTime as Int64, call.endTime as Int64)
            use(call.state as ZIMCallState, call.mode, call.extendedData, call.callUserList as [ZIMCallUserInfo])
        }
    }
    zim.queryCallInvitationList(with: query, callback: queried)
}

func useRooms(_ zim: ZIM) {
    let room = ZIMRoomInfo()
    (room.roomID, room.roomName) = ("room", "Room")
    let entered: ZIMRoomEnteredCallback = { (room: ZIMRoomFullInfo, _: ZIMError) in
        use(room.baseInfo.roomID, room.baseInfo.roomName)
    }
    zim.enterRoom(with: room, config: ZIMRoomAdvancedConfig(), callback: entered)
    let left: ZIMRoomLeftCallback = { (roomID: String, error: ZIMError) in use(roomID, error) }
    zim.leaveRoom(by: "room", callback: left)
    let created: ZIMRoomCreatedCallback = { (_: ZIMRoomFullInfo, error: ZIMError) in use(error) }
    zim.createRoom(with: room, callback: created)
    zim.createRoom(with: room, config: ZIMRoomAdvancedConfig(), callback: created)
    let joined: ZIMRoomJoinedCallback = { (_: ZIMRoomFullInfo, error: ZIMError) in use(error) }
    zim.joinRoom(by: "room", callback: joined)
}
