import AgoraSignalClient
import DropInProbe
import Foundation

final class Hearing: NSObject, ISignalClientListener {
    let name: String
    init(name: String) { self.name = name }
    func onMessageReceive(message: String) { probe.tell("message", ["listener": name, "text": message]) }
    func debugInfo(message: String, logLevel: Int) {
        probe.tell("debug", ["listener": name, "text": message, "level": logLevel])
    }
}

final class Watching: NSObject, ICallRtmManagerListener {
    func onConnected() { probe.tell("onConnected", ["isConnected": client?.isConnected ?? false]) }
    func onDisconnected() { probe.tell("onDisconnected", ["isConnected": client?.isConnected ?? true]) }
    func onTokenPrivilegeWillExpire(channelName: String) {
        probe.tell("onTokenPrivilegeWillExpire", ["channel": channelName])
    }
}

var client: BellwireSignalClient?
var vendor: ViewController?
var listeners: [String: Hearing] = [:]
let watching = Watching()

func configuration(_ command: Probe.Command) -> BellwireConfiguration {
    var configuration = BellwireConfiguration(broker: command["broker"] as! String)
    configuration.device = command["device"] as? String
    configuration.topicRoot = command["topicRoot"] as? String ?? configuration.topicRoot
    if command["tokens"] != nil {
        let tokens = Tokens(command.texts("tokens"))
        configuration.tokenProvider = { user in user == command.text("user") ? tokens.next() : "" }
    }
    return configuration
}

func send(_ command: Probe.Command) {
    let first = command["first"] as? Int ?? 1
    for n in first..<(first + (command["count"] as? Int ?? 1)) {
        let text = command["text"] as? String ?? "\(n)"
        client!.sendMessage(userId: command["to"] as! String, message: text) { error in
            probe.tell("sent", ["n": n, "error": error?.code ?? 0])
        }
    }
}

let probe = Probe { command in
    switch command["do"] as! String {
    case "init":
        client = BellwireSignalClient(configuration: configuration(command), userId: command["user"] as! String)
        client!.delegate = watching
        client!.messageTimeout = command["timeout"] as? Int ?? client!.messageTimeout
    case "login": client!.login { probe.tell("login", ["error": $0?.code ?? 0]) }
    case "logout": client!.logout()
    case "renew": client!.renewToken(command.text("token"))
    // No variable holds the client any more.
    case "drop": client = nil
    case "listen":
        let name = command["name"] as! String
        listeners[name] = listeners[name] ?? Hearing(name: name)
        client!.addListener(listener: listeners[name]!)
    case "unlisten": client!.removeListener(listener: listeners[command["name"] as! String]!)
    case "forget": listeners[command["name"] as! String] = nil
    case "send": send(command)
    case "sendQuietly": client!.sendMessage(userId: command["to"] as! String, message: "quiet", completion: nil)
    case "properties":
        if let timeout = command["timeout"] as? Int { client!.messageTimeout = timeout }
        probe.tell("properties", ["isConnected": client!.isConnected, "messageTimeout": client!.messageTimeout])
    case "vendor":
        vendor = ViewController(configuration: configuration(command), userId: command["user"] as! UInt) {
            probe.tell($0, $1)
        }
    case "vendorCall":
        vendor!.callApi.call(remoteUserId: command["to"] as! UInt) { probe.tell("called", ["error": $0?.code ?? 0]) }
    case let unknown: fatalError("unknown command \(unknown)")
    }
}
probe.run()
