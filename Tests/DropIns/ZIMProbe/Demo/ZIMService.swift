import Foundation
import ZIMCompat

// A service as apps of document 000 have it; only the import and `ZIM.configure` differ.

typealias CommonCallback = (_ code: Int64, _ message: String) -> Void

protocol ZIMServiceDelegate: AnyObject {
    func onInComingUserRequestReceived(requestID: String, info: ZIMCallInvitationReceivedInfo)
    func onInComingUserRequestTimeout(requestID: String, info: ZIMCallInvitationTimeoutInfo?)
    func onInComingUserRequestCancelled(requestID: String, inviter: String, extendedData: String)
    func onUserRequestStateChanged(info: ZIMCallUserStateChangeInfo, requestID: String)
    func onUserRequestEnded(info: ZIMCallInvitationEndedInfo, requestID: String)
    func onConnectionStateChanged(_ state: ZIMConnectionState, _ event: ZIMConnectionEvent)
}

class ZIMService: NSObject {
    static let shared = ZIMService()

    var zim: ZIM?
    var userInfo: ZIMUserInfo?
    weak var delegate: ZIMServiceDelegate?

    func initWithAppID(_ appID: UInt32, appSign: String?) {
        let zimConfig: ZIMAppConfig = ZIMAppConfig()
        zimConfig.appID = appID
        zimConfig.appSign = appSign ?? ""
        self.zim = ZIM.shared()
        if self.zim == nil {
            self.zim = ZIM.create(with: zimConfig)
        }
        self.zim?.setEventHandler(self)
    }

    func connectUser(userID: String, userName: String, token: String?, callback: CommonCallback?) {
        let user = ZIMUserInfo()
        user.userID = userID
        user.userName = userName
        userInfo = user
        zim?.login(with: user, token: token ?? "") { error in
            callback?(Int64(error.code.rawValue), error.message)
        }
    }

    func disconnectUser() {
        zim?.logout()
    }

    // MARK: Call requests

    func queryUsersInfo(_ userIDList: [String], callback: @escaping ZIMUsersInfoQueriedCallback) {
        let config = ZIMUsersInfoQueryConfig()
        config.isQueryFromServer = true
        zim?.queryUsersInfo(by: userIDList, config: config, callback: callback)
    }

    func sendUserRequest(userList: [String], config: ZIMCallInviteConfig, callback: ZIMCallInvitationSentCallback?) {
        zim?.callInvite(
            with: userList, config: config,
            callback: { requestID, sentInfo, error in
                guard let callback = callback else { return }
                callback(requestID, sentInfo, error)
            })
    }

    func addUserToRequest(
        invitees: [String], requestID: String, config: ZIMCallingInviteConfig,
        callback: ZIMCallingInvitationSentCallback?
    ) {
        zim?.callingInvite(with: invitees, callID: requestID, config: config) { requestID, sentInfo, errorInfo in
            guard let callback = callback else { return }
            callback(requestID, sentInfo, errorInfo)
        }
    }

    func cancelUserRequest(
        requestID: String, config: ZIMCallCancelConfig, userList: [String], callback: ZIMCallCancelSentCallback?
    ) {
        zim?.callCancel(with: userList, callID: requestID, config: config) { requestID, errorInvitees, error in
            guard let callback = callback else { return }
            callback(requestID, errorInvitees, error)
        }
    }

    func refuseUserRequest(requestID: String, config: ZIMCallRejectConfig, callback: ZIMCallRejectionSentCallback?) {
        zim?.callReject(with: requestID, config: config) { requestID, error in
            callback?(requestID, error)
        }
    }

    func acceptUserRequest(requestID: String, config: ZIMCallAcceptConfig, callback: ZIMCallAcceptanceSentCallback?) {
        zim?.callAccept(with: requestID, config: config) { requestID, error in
            callback?(requestID, error)
        }
    }

    func endUserRequest(requestID: String, config: ZIMCallEndConfig, callback: ZIMCallEndSentCallback?) {
        zim?.callEnd(by: requestID, config: config) { requestID, info, error in
            callback?(requestID, info, error)
        }
    }

    func quitUserRequest(requestID: String, config: ZIMCallQuitConfig, callback: ZIMCallQuitSentCallback?) {
        zim?.callQuit(by: requestID, config: config) { requestID, info, error in
            callback?(requestID, info, error)
        }
    }
}

extension ZIMService: ZIMEventHandler {
    func zim(
        _ zim: ZIM, connectionStateChanged state: ZIMConnectionState, event: ZIMConnectionEvent,
        extendedData: [AnyHashable: Any]
    ) {
        delegate?.onConnectionStateChanged(state, event)
    }

    func zim(_ zim: ZIM, callInvitationReceived info: ZIMCallInvitationReceivedInfo, callID: String) {
        delegate?.onInComingUserRequestReceived(requestID: callID, info: info)
    }

    func zim(_ zim: ZIM, callInvitationTimeout info: ZIMCallInvitationTimeoutInfo, callID: String) {
        delegate?.onInComingUserRequestTimeout(requestID: callID, info: info)
    }

    func zim(_ zim: ZIM, callInvitationCancelled info: ZIMCallInvitationCancelledInfo, callID: String) {
        delegate?.onInComingUserRequestCancelled(
            requestID: callID, inviter: info.inviter, extendedData: info.extendedData)
    }

    func zim(_ zim: ZIM, callUserStateChanged info: ZIMCallUserStateChangeInfo, callID: String) {
        delegate?.onUserRequestStateChanged(info: info, requestID: callID)
    }

    func zim(_ zim: ZIM, callInvitationEnded info: ZIMCallInvitationEndedInfo, callID: String) {
        delegate?.onUserRequestEnded(info: info, requestID: callID)
    }
}
