import DropInProbe
import ZIMCompat

extension ZIMApp: ZIMEventHandler {
    func zim(
        _ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent,
        extendedData: [AnyHashable: Any]
    ) {
        probe.tell("connection", ["state": state.rawValue, "reason": event.rawValue])
    }

    func zim(_ zim: ZIM, errorInfo: ZIMError) { probe.tell("error", fields(errorInfo)) }

    func zim(_ zim: ZIM, tokenWillExpire second: UInt32) {
        probe.tell("tokenWillExpire", ["second": second])
    }

    func zim(_ zim: ZIM, userInfoUpdated info: ZIMUserFullInfo) {
        probe.tell("userInfoUpdated", fields(info))
    }

    func zim(_ zim: ZIM, callInvitationCreated info: ZIMCallInvitationCreatedInfo, callID: String) {
        probe.tell(
            "created",
            [
                "callID": callID, "mode": info.mode.rawValue, "caller": info.caller,
                "extendedData": info.extendedData, "timeout": info.timeout, "createTime": info.createTime,
                "users": fields(info.callUserList),
            ])
    }

    func zim(_ zim: ZIM, callInvitationReceived info: ZIMCallInvitationReceivedInfo, callID: String) {
        probe.tell(
            "received",
            [
                "callID": callID, "mode": info.mode.rawValue, "caller": info.caller,
                "inviter": info.inviter, "extendedData": info.extendedData, "timeout": info.timeout,
                "createTime": info.createTime, "users": fields(info.callUserList),
            ])
    }

    func zim(_ zim: ZIM, callInvitationCancelled info: ZIMCallInvitationCancelledInfo, callID: String) {
        probe.tell(
            "cancelled",
            [
                "callID": callID, "inviter": info.inviter, "mode": info.mode.rawValue,
                "extendedData": info.extendedData,
            ])
    }

    func zim(_ zim: ZIM, callInvitationTimeout info: ZIMCallInvitationTimeoutInfo, callID: String) {
        probe.tell("timeout", ["callID": callID, "mode": info.mode.rawValue])
    }

    func zim(_ zim: ZIM, callInvitationEnded info: ZIMCallInvitationEndedInfo, callID: String) {
        probe.tell(
            "ended",
            [
                "callID": callID, "caller": info.caller, "operatedUserID": info.operatedUserID,
                "extendedData": info.extendedData, "mode": info.mode.rawValue, "endTime": info.endTime,
            ])
    }

    func zim(_ zim: ZIM, callUserStateChanged info: ZIMCallUserStateChangeInfo, callID: String) {
        probe.tell("states", ["callID": callID, "users": fields(info.callUserList)])
    }
}
