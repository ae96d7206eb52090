import ZegoCallCompat

/// The vendor's request manager, and Bellwire's own additions to the manager.
func useRequests(_ updater: any ListenerUpdater) {
    var configuration = BellwireConfiguration(broker: "mqtts://mqtt.example.com")
    configuration.device = "phone"
    configuration.topicRoot += ""
    configuration.tokenProvider = { userID in userID }
    RequestManager.connect(configuration, userID: "alice", userName: "Alice") { (error: ZegoError?) in
        use(error?.code ?? (0 as Int32))
    }
    let manager = RequestManager()
    manager.listener = updater
    let service: any RequestProtocol = manager
    let done: RequestCallback = { result in
        switch result {
        case .success(let value): use(value)
        case .failure(let error): use(error.code)
        }
    }
    service.request(API_Call_Heartbeat, parameter: [:], callback: done)
    RequestManager.disconnect()
}

/// The vendor's listeners.
func useListeners() {
    let notified: NotifyCallback = { (parameter: [String: Any]) in use(parameter) }
    let manager: any Listener = ListenerManager.shared
    let uuid = manager.addListener(Notify_Call_Invited, listener: notified)
    manager.addListener(Notify_Call_End) { use($0) }
    manager.removeListener(uuid, for: Notify_Call_Invited)
    let updater: any ListenerUpdater = ListenerManager.shared
    updater.receiveUpdate(Notify_Call_Invited, parameter: [:])
}

/// Receives the notifications of the service.
final class Updater: ListenerUpdater {
    func receiveUpdate(_ path: String, parameter: [String: Any]) {}
}

/// Takes the place of the app's own service.
final class OtherService: RequestProtocol {
    func request(_ path: String, parameter: [String: AnyObject], callback: RequestCallback?) {
        callback?(.failure(.notInit))
    }
}

func useNames() {
    let paths: [String] = [
        API_Start_Call, API_Cancel_Call, API_Accept_Call, API_Decline_Call, API_End_Call, API_Call_Heartbeat,
        Notify_Call_Invited, Notify_Call_Canceled, Notify_Call_Accept, Notify_Call_Decline, Notify_Call_End,
        Notify_Call_Timeout,
    ]
    let errors: [ZegoError] = [
        .failed, .paramInvalid, .notInit, .networkError, .notLogin, .callStatusWrong, .tokenExpired, .other(1 as Int32),
    ]
    use(paths, errors, [DeclineType.decline, .busy].map(\.rawValue), [CallType.voice, .video].map(\.rawValue))
}
