import DropInProbe
import ZIMCompat

extension ZIMApp {
    func invite(_ command: Probe.Command) {
        let config = ZIMCallInviteConfig()
        if let timeout = command["timeout"] as? Int { config.timeout = UInt32(timeout) }
        config.mode = command.flag("advanced") ? .advanced : .general
        config.extendedData = command.text("extendedData")
        config.enableNotReceivedCheck = command.flag("check")
        config.pushConfig = push(command)
        zim?.callInvite(with: command.texts("invitees"), config: config) { callID, info, error in
            probe.tell(
                "invite",
                [
                    "callID": callID, "timeout": info.timeout,
                    "errors": fields(info.errorUserList), "errorInvitees": fields(info.errorInvitees),
                ] + fields(error))
        }
    }

    private func push(_ command: Probe.Command) -> ZIMPushConfig? {
        guard let push = command["push"] as? [String: Any] else { return nil }
        let config = ZIMPushConfig()
        (config.title, config.content, config.payload) = (
            push.text("title"), push.text("content"), push.text("payload")
        )
        return config
    }

    func cancel(_ command: Probe.Command) {
        let config = ZIMCallCancelConfig()
        config.extendedData = command.text("extendedData")
        zim?.callCancel(with: command.texts("invitees"), callID: command.text("callID"), config: config) {
            callID, failed, error in
            probe.tell("cancel", ["callID": callID, "failed": failed] + fields(error))
        }
    }

    func accept(_ command: Probe.Command) {
        let config = ZIMCallAcceptConfig()
        config.extendedData = command.text("extendedData")
        zim?.callAccept(with: command.text("callID"), config: config) { callID, error in
            probe.tell("accept", ["callID": callID] + fields(error))
        }
    }

    func reject(_ command: Probe.Command) {
        let config = ZIMCallRejectConfig()
        config.extendedData = command.text("extendedData")
        zim?.callReject(with: command.text("callID"), config: config) { callID, error in
            probe.tell("reject", ["callID": callID] + fields(error))
        }
    }

    func add(_ command: Probe.Command) {
        let config = ZIMCallingInviteConfig()
        config.pushConfig = push(command)
        zim?.callingInvite(with: command.texts("invitees"), callID: command.text("callID"), config: config) {
            callID, info, error in
            probe.tell("add", ["callID": callID, "errors": fields(info.errorUserList)] + fields(error))
        }
    }

    func join(_ command: Probe.Command) {
        let config = ZIMCallJoinConfig()
        config.extendedData = command.text("extendedData")
        zim?.callJoin(by: command.text("callID"), config: config) { callID, info, error in
            probe.tell(
                "join",
                [
                    "callID": callID, "extendedData": info.extendedData,
                    "createTime": info.createTime, "joinTime": info.joinTime, "users": fields(info.callUserList),
                ] + fields(error))
        }
    }

    func quit(_ command: Probe.Command) {
        let config = ZIMCallQuitConfig()
        config.extendedData = command.text("extendedData")
        zim?.callQuit(by: command.text("callID"), config: config) { callID, info, error in
            probe.tell(
                "quit",
                [
                    "callID": callID, "createTime": info.createTime,
                    "acceptTime": info.acceptTime, "quitTime": info.quitTime,
                ] + fields(error))
        }
    }

    func end(_ command: Probe.Command) {
        let config = ZIMCallEndConfig()
        config.extendedData = command.text("extendedData")
        zim?.callEnd(by: command.text("callID"), config: config) { callID, info, error in
            probe.tell(
                "end",
                [
                    "callID": callID, "createTime": info.createTime,
                    "acceptTime": info.acceptTime, "endTime": info.endTime,
                ] + fields(error))
        }
    }

    func calls(_ command: Probe.Command) {
        let config = ZIMCallInvitationQueryConfig()
        config.count = UInt32(command.number("count"))
        config.nextFlag = Int64(command.number("nextFlag"))
        zim?.queryCallInvitationList(with: config) { calls, nextFlag, error in
            let list = calls.map { call -> [String: Any] in
                [
                    "callID": call.callID, "caller": call.caller, "inviter": call.inviter,
                    "createTime": call.createTime, "endTime": call.endTime, "state": call.state.rawValue,
                    "mode": call.mode.rawValue, "users": fields(call.callUserList),
                ]
            }
            probe.tell("calls", ["calls": list, "nextFlag": nextFlag] + fields(error))
        }
    }
}
