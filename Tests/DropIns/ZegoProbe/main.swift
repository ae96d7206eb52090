import DropInProbe
import Foundation
import ZegoCallCompat

final class Updater: ListenerUpdater {
    func receiveUpdate(_ path: String, parameter: [String: Any]) {
        probe.tell("updater", ["path": path, "parameter": parameter])
    }
}

/// Gives each token once, and the last token for good.
final class Tokens: @unchecked Sendable {
    private var left: [String]
    private let lock = NSLock()

    init(_ tokens: [String]) { left = tokens }

    func next() -> String {
        lock.lock()
        defer { lock.unlock() }
        return left.count > 1 ? left.removeFirst() : left[0]
    }
}

var managers: [RequestManager] = []
var updater: Updater?
var automatic: AutomaticCallee?
var me = ""

func configuration(_ command: Probe.Command) -> BellwireConfiguration {
    var configuration = BellwireConfiguration(broker: command["broker"] as! String)
    configuration.device = command["device"] as? String
    configuration.topicRoot = command["topicRoot"] as? String ?? configuration.topicRoot
    if let given = command["tokens"] as? [String] {
        let tokens = Tokens(given)
        configuration.tokenProvider = { _ in tokens.next() }
    }
    return configuration
}

func answered(_ path: String, _ tag: Any) -> RequestCallback {
    { result in
        switch result {
        case .success(let value): probe.tell("callback", ["path": path, "tag": tag, "code": 0, "void": value is Void])
        case .failure(let error): probe.tell("callback", ["path": path, "tag": tag, "code": error.code])
        }
    }
}

/// Makes the call's command as the app does, with the vendor's commands.
func call(_ command: Probe.Command) -> Command {
    let callID = command["call_id"] as! String
    switch command["path"] as! String {
    case API_Start_Call:
        let callees = (command["callees"] as! [[String: String]]).map { UserInfo($0["id"]!, $0["name"]) }
        let type = CallType(rawValue: command["type"] as? Int ?? 1)!
        return StartCallCommand(callID, UserInfo(me, command["name"] as? String), callees, type)
    case API_Cancel_Call:
        let cancel = CallCommand(API_Cancel_Call, me, callID)
        cancel.parameter["callee_id"] = command["callee_id"] as AnyObject
        return cancel
    case API_Decline_Call:
        return DeclineCommand(
            me, callID, command["caller_id"] as! String, DeclineType(rawValue: command["type"] as! Int)!)
    case let path: return CallCommand(path, me, callID)
    }
}

func listen() {
    for path in [
        Notify_Call_Invited, Notify_Call_Canceled, Notify_Call_Accept, Notify_Call_Decline, Notify_Call_End,
        Notify_Call_Timeout,
    ] {
        ListenerManager.shared.addListener(path) { probe.tell(path, ["parameter": $0]) }
    }
}

let probe = Probe { command in
    switch command["do"] as! String {
    case "connect":
        me = command["user"] as! String
        RequestManager.connect(configuration(command), userID: me, userName: command["name"] as? String ?? "") {
            probe.tell("connect", ["code": $0?.code ?? 0])
        }
    case "disconnect": RequestManager.disconnect()
    case "listen": listen()
    case "call":
        let made = call(command)
        made.execute(callback: answered(made.path, command["tag"] ?? ""))
    case "startAndCancel":
        var cancel = command
        cancel["path"] = API_Cancel_Call
        call(command).execute(callback: answered(API_Start_Call, ""))
        call(cancel).execute(callback: answered(API_Cancel_Call, ""))
    case "request":
        // The parameters are objects of Foundation, as JSON gives them.
        let parameter = (command["parameter"] as! [String: Any]).mapValues { $0 as AnyObject }
        let path = command["path"] as! String
        let isHeard = command["callback"] as? Bool ?? true
        RequestManager().request(
            path, parameter: parameter, callback: isHeard ? answered(path, command["tag"] ?? "") : nil)
    case "manager": managers.append(RequestManager())
    case "updater":
        updater = Updater()
        managers.append(RequestManager())
        managers.last!.listener = updater
    case "automatic": automatic = AutomaticCallee(me) { probe.tell($0, $1) }
    case let unknown: fatalError("unknown command \(unknown)")
    }
}
probe.run()
