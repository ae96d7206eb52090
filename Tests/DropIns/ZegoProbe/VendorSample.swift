import Foundation
import ZegoCallCompat

// Reads like the vendor's own sources (document 003): commands, the command manager with the `RequestManager` as its
// service, and a listener manager that holds a lock while it calls its listeners.

class UserInfo {
    var userID: String?
    var userName: String?
    init(_ userID: String, _ userName: String?) {
        self.userID = userID
        self.userName = userName
    }
}

class Command {
    var path: String = ""
    var parameter: [String: AnyObject] = [:]

    func execute(callback: RequestCallback?) { CommandManager.shared.execute(self, callback: callback) }
}

class CommandManager {
    static let shared = CommandManager()

    // Replace the [service] with the [RequestManager].
    private var service: RequestProtocol = RequestManager()

    func execute(_ command: Command, callback: RequestCallback?) {
        service.request(command.path, parameter: command.parameter, callback: callback)
    }
}

class StartCallCommand: Command {
    init(_ callID: String, _ caller: UserInfo, _ callees: [UserInfo], _ type: CallType) {
        super.init()
        path = API_Start_Call
        parameter["call_id"] = callID as AnyObject
        parameter["caller"] = ["id": caller.userID, "name": caller.userName] as AnyObject
        parameter["callees"] = callees.map { ["id": $0.userID, "name": $0.userName] } as AnyObject
        parameter["type"] = type.rawValue as AnyObject
    }
}

class CallCommand: Command {
    init(_ path: String, _ userID: String, _ callID: String) {
        super.init()
        self.path = path
        parameter["id"] = userID as AnyObject
        parameter["call_id"] = callID as AnyObject
    }
}

class DeclineCommand: CallCommand {
    init(_ userID: String, _ callID: String, _ callerID: String, _ type: DeclineType) {
        super.init(API_Decline_Call, userID, callID)
        parameter["caller_id"] = callerID as AnyObject
        parameter["type"] = type.rawValue as AnyObject
    }
}

class VendorListenerManager: Listener, ListenerUpdater {
    static let shared = VendorListenerManager()
    private var listeners: [String: [UUID: NotifyCallback]] = [:]
    private let lock = NSLock()

    func addListener(_ path: String, listener: @escaping NotifyCallback) -> UUID {
        lock.lock()
        defer { lock.unlock() }
        let uuid = UUID()
        listeners[path, default: [:]][uuid] = listener
        return uuid
    }

    func removeListener(_ uuid: UUID, for path: String) {
        lock.lock()
        defer { lock.unlock() }
        listeners[path]?[uuid] = nil
    }

    func receiveUpdate(_ path: String, parameter: [String: Any]) {
        // A second call from within a listener would never return: here the second call fails at once.
        guard lock.try() else { fatalError("receiveUpdate was called from within a listener") }
        defer { lock.unlock() }
        listeners[path]?.values.forEach { $0(parameter) }
    }
}

/// Answers each invitation from within its notification, as an app does.
class AutomaticCallee {
    private let manager = RequestManager()
    private let userID: String
    private let told: (String, [String: Any]) -> Void

    init(_ userID: String, told: @escaping (String, [String: Any]) -> Void) {
        self.userID = userID
        self.told = told
        manager.listener = VendorListenerManager.shared
        _ = VendorListenerManager.shared.addListener(Notify_Call_Invited) { [weak self] parameter in
            self?.invited(parameter)
        }
        _ = VendorListenerManager.shared.addListener(Notify_Call_End) { told("vendorEnd", $0) }
    }

    private func invited(_ parameter: [String: Any]) {
        guard let callID = parameter["call_id"] as? String, let type = parameter["call_type"] as? Int,
            let caller = parameter["caller"] as? [String: Any], let callees = parameter["callees"] as? [[String: Any]]
        else { fatalError("not as the document has it: \(parameter)") }
        told("vendorInvited", ["caller": caller["name"] as! String, "type": type, "callees": callees.count])
        let command = CallCommand(API_Accept_Call, userID, callID)
        manager.request(command.path, parameter: command.parameter) { [weak self] result in
            switch result {
            case .success: self?.told("vendorAccepted", [:])
            case .failure(let error): self?.told("vendorFailed", ["code": error.code])
            }
        }
    }
}
