import AgoraSignalClient
import Foundation

// Reads like CallAPI's own sources (document 004), which hold an `ISignalClient` and send and receive their messages as
// JSON texts.

class CallConfig: NSObject {
    var userId: UInt = 0
    var signalClient: ISignalClient?
}

enum CallAction: Int {
    case call = 0
    case cancelCall = 1
    case accept = 2
    case reject = 3
    case hangup = 4
}

protocol CallApiListenerProtocol: NSObjectProtocol {
    func onCallStateChanged(_ action: CallAction, from: UInt, eventInfo: [String: Any])
}

class CallApiImpl: NSObject {
    private var config: CallConfig?
    weak var listener: CallApiListenerProtocol?

    func initialize(config: CallConfig) {
        self.config = config
        config.signalClient?.addListener(listener: self)
    }

    func deinitialize(completion: @escaping () -> Void) {
        config?.signalClient?.removeListener(listener: self)
        config = nil
        completion()
    }

    func call(remoteUserId: UInt, completion: ((NSError?) -> Void)?) { send(.call, remoteUserId, completion) }
    func accept(remoteUserId: UInt, completion: ((NSError?) -> Void)?) { send(.accept, remoteUserId, completion) }
    func hangup(remoteUserId: UInt, completion: ((NSError?) -> Void)?) { send(.hangup, remoteUserId, completion) }

    private func send(_ action: CallAction, _ remoteUserId: UInt, _ completion: ((NSError?) -> Void)?) {
        let message: [String: Any] = [
            "message_action": action.rawValue, "fromUserId": config?.userId ?? 0, "remoteUserId": remoteUserId,
        ]
        let data = try! JSONSerialization.data(withJSONObject: message)
        config?.signalClient?.sendMessage(
            userId: "\(remoteUserId)", message: String(data: data, encoding: .utf8)!, completion: completion)
    }
}

extension CallApiImpl: ISignalClientListener {
    func onMessageReceive(message: String) {
        guard let data = message.data(using: .utf8),
            let info = (try? JSONSerialization.jsonObject(with: data)) as? [String: Any],
            let action = (info["message_action"] as? Int).flatMap(CallAction.init),
            let from = (info["fromUserId"] as? NSNumber)?.uintValue
        else { return }
        listener?.onCallStateChanged(action, from: from, eventInfo: info)
    }

    func debugInfo(message: String, logLevel: Int) {}
}

/// The view controller of document 004.
class ViewController: NSObject {
    let callApi = CallApiImpl()
    let rtmManager: BellwireSignalClient
    let told: (String, [String: Any]) -> Void

    init(configuration: BellwireConfiguration, userId: UInt, told: @escaping (String, [String: Any]) -> Void) {
        self.told = told
        rtmManager = BellwireSignalClient(configuration: configuration, userId: "\(userId)")
        super.init()
        rtmManager.delegate = self
        let config = CallConfig()
        config.userId = userId
        config.signalClient = rtmManager
        callApi.initialize(config: config)
        callApi.listener = self
        rtmManager.login { [weak self] err in
            if let err = err {
                self?.told("loginFailed", ["error": err.code])
                return
            }
            self?.told("prepared", [:])
        }
    }
}

extension ViewController: ICallRtmManagerListener {
    func onConnected() { told("vendorConnected", [:]) }
    func onDisconnected() { told("vendorDisconnected", [:]) }
    func onTokenPrivilegeWillExpire(channelName: String) { rtmManager.renewToken("another") }
}

extension ViewController: CallApiListenerProtocol {
    func onCallStateChanged(_ action: CallAction, from: UInt, eventInfo: [String: Any]) {
        told("state", ["action": action.rawValue, "from": from])
        guard action == .call else { return }
        callApi.accept(remoteUserId: from) { [weak self] err in
            self?.told("accepted", ["error": err?.code ?? 0])
        }
    }
}
