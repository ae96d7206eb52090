import Foundation
import ZIMCompat

/// The demo's call manager: a single call at a time; another caller is told meanwhile that the user is busy.
class CallManager: ZIMServiceDelegate {
    static let shared = CallManager()

    struct CallData {
        var callID: String?
        var inviter: String
        var callUserList: [ZIMCallUserInfo] = []

        func hasAccepted(_ isWanted: (ZIMCallUserInfo) -> Bool) -> Bool {
            callUserList.contains { $0.state == .accepted && isWanted($0) }
        }
    }

    var currentCallData: CallData?
    /// Called with the content that the pages of the app would show.
    var show: (_ what: String, _ details: [String: Any]) -> Void = { _, _ in }

    func sendVideoCallInvitation(
        _ targetUserID: String, callback: @escaping (_ code: UInt, _ requestID: String?) -> Void
    ) {
        guard let localUser = ZIMService.shared.userInfo else { return }
        ZIMService.shared.queryUsersInfo([targetUserID]) { fullInfoList, errorUserInfoList, error in
            guard error.code == .success || error.code == .ZIMErrorCodeSuccess else {
                return callback(error.code.rawValue, nil)
            }
            self.currentCallData = CallData(callID: nil, inviter: localUser.userID)
            let config = ZIMCallInviteConfig()
            config.mode = .advanced
            config.extendedData = #"{"type":1}"#
            config.timeout = 60
            ZIMService.shared.sendUserRequest(userList: [targetUserID], config: config) { requestID, sentInfo, error in
                if error.code == .success {
                    let errorUser: [String] = sentInfo.errorUserList.map { userInfo in
                        userInfo.userID
                    }
                    if errorUser.contains(targetUserID) {
                        self.currentCallData = nil
                    } else {
                        self.currentCallData?.callID = requestID
                    }
                } else {
                    self.currentCallData = nil
                }
                callback(error.code.rawValue, requestID)
            }
        }
    }

    func acceptCallInvitation(requestID: String) {
        let config = ZIMCallAcceptConfig()
        config.extendedData = #"{"type":1}"#
        ZIMService.shared.acceptUserRequest(requestID: requestID, config: config) { requestID, error in
            self.show("accepted", ["callID": requestID, "code": error.code.rawValue])
        }
    }

    func rejectCallInvitation(requestID: String) {
        let config = ZIMCallRejectConfig()
        ZIMService.shared.refuseUserRequest(requestID: requestID, config: config) { requestID, error in
            self.currentCallData = nil
            self.show("rejectedHere", ["callID": requestID, "code": error.code.rawValue])
        }
    }

    func endCall(_ requestID: String) {
        ZIMService.shared.endUserRequest(requestID: requestID, config: ZIMCallEndConfig()) { requestID, info, error in
            self.currentCallData = nil
            self.show("callEnd", ["callID": requestID, "code": error.code.rawValue])
        }
    }

    // MARK: ZIMServiceDelegate

    func onInComingUserRequestReceived(requestID: String, info: ZIMCallInvitationReceivedInfo) {
        guard currentCallData == nil else {
            let config = ZIMCallRejectConfig()
            config.extendedData = #"{"reason":"busy"}"#
            return ZIMService.shared.refuseUserRequest(requestID: requestID, config: config, callback: nil)
        }
        currentCallData = CallData(callID: requestID, inviter: info.inviter, callUserList: info.callUserList)
        show("incoming", ["callID": requestID, "inviter": info.inviter, "extendedData": info.extendedData])
    }

    func onInComingUserRequestTimeout(requestID: String, info: ZIMCallInvitationTimeoutInfo?) {
        currentCallData = nil
        show("callEnd", ["callID": requestID])
    }

    func onInComingUserRequestCancelled(requestID: String, inviter: String, extendedData: String) {
        currentCallData = nil
        show("callEnd", ["callID": requestID])
    }

    func onUserRequestStateChanged(info: ZIMCallUserStateChangeInfo, requestID: String) {
        guard currentCallData?.callID == requestID else { return }
        let localUserID = ZIMService.shared.userInfo?.userID
        for user in info.callUserList {
            currentCallData?.callUserList.removeAll { $0.userID == user.userID }
            currentCallData?.callUserList.append(user)
        }
        for user in info.callUserList {
            switch user.state {
            case .accepted:
                // The app enters the media room when both users have accepted, whichever user was the last.
                guard let callData = currentCallData, callData.hasAccepted({ $0.userID == localUserID }),
                    callData.hasAccepted({ $0.userID != localUserID })
                else { continue }
                show("callStart", ["callID": requestID, "user": user.userID])
            case .rejected: show("rejected", ["callID": requestID, "extendedData": user.extendedData])
            case .received: show("ringing", ["callID": requestID, "user": user.userID])
            default: break
            }
        }
    }

    func onUserRequestEnded(info: ZIMCallInvitationEndedInfo, requestID: String) {
        guard currentCallData?.callID == requestID else { return }
        currentCallData = nil
        show("callEnd", ["callID": requestID, "by": info.operatedUserID])
    }

    func onConnectionStateChanged(_ state: ZIMConnectionState, _ event: ZIMConnectionEvent) {}
}
