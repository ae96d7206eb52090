import Foundation
import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// Runs the machine against the cases that it shares with the web SDK's machine (Tests/ClientCases/README.md).
@Suite struct SharedCases {
    @Test(arguments: try Case.all()) func theMachineDoesWhatTheCaseSays(_ shared: Case) throws {
        var runner = Runner(shared)
        for (index, step) in try shared.steps().enumerated() {
            let done = try runner.perform(step)
            guard let expected = step["expect"] as? [JSON] else { continue }
            let written = expected.map { ["at": 0].merging($0) { $1 } } as NSArray
            #expect(written.isEqual(to: done), "step \(index + 1): \(text(done)) instead of \(text(written))")
        }
    }

    private func text(_ json: Any) -> String {
        let data = try? JSONSerialization.data(withJSONObject: json, options: [.sortedKeys, .fragmentsAllowed])
        return data.map { String(decoding: $0, as: UTF8.self) } ?? "\(json)"
    }
}

typealias JSON = [String: Any]

struct Case: CustomTestStringConvertible, Sendable {
    let file: String
    let name: String
    let user: UserID
    let configuration: ClientMachine.Configuration
    /// The case as JSON text: the values that the text is read into cannot be sent.
    private let text: Data

    var testDescription: String { "\(file): \(name)" }

    private static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "ClientCases")

    static func all() throws -> [Case] {
        let definitions = try need(read("definitions.json") as? JSON, "definitions")
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path())
            .filter { $0.hasSuffix(".json") && $0 != "definitions.json" }
        let cases = try files.sorted().flatMap { file in
            try need(read(file) as? [JSON], file).map { try Case(file: file, $0, definitions) }
        }
        return try need(cases.isEmpty ? nil : cases, "cases")
    }

    private static func read(_ file: String) throws -> Any {
        try JSONSerialization.jsonObject(with: Data(contentsOf: folder.appending(path: file)))
    }

    private init(file: String, _ json: JSON, _ definitions: JSON) throws {
        self.file = file
        name = try need(json["name"] as? String, "name")
        user = try need((json["user"] as? String).flatMap(UserID.init), "user")
        text = try JSONSerialization.data(withJSONObject: Self.expanded(json["steps"] as Any, definitions))
        var configuration = ClientMachine.Configuration()
        for (setting, value) in json["configuration"] as? JSON ?? [:] {
            switch setting {
            case "requestTimeout": configuration.requestTimeout = try need(value as? Int64, setting)
            case "knownCalls": configuration.knownCalls = try need(value as? Int, setting)
            case "requests": configuration.requests = try need(value as? Int, setting)
            case "queuedPerCall": configuration.queuedPerCall = try need(value as? Int, setting)
            case "renewsTokens": configuration.renewsTokens = try need(value as? Bool, setting)
            case "signalStream": configuration.signalStream = try need(value as? String, setting)
            default: throw CaseError(what: "setting \(setting)")
            }
        }
        self.configuration = configuration
    }

    func steps() throws -> [JSON] { try need(JSONSerialization.jsonObject(with: text) as? [JSON], "steps") }

    /// Replaces `$use` by the definition that it names.
    private static func expanded(_ json: Any, _ definitions: JSON) throws -> Any {
        if let list = json as? [Any] { return try list.map { try expanded($0, definitions) } }
        guard var object = json as? JSON else { return json }
        var base = JSON()
        if let name = object.removeValue(forKey: "$use") as? String {
            base = try need(expanded(need(definitions[name], name), definitions) as? JSON, name)
        }
        return try base.merging(object.mapValues { try expanded($0, definitions) }) { $1 }
    }
}

private struct CaseError: Error {
    let what: String
}

private func need<Value>(_ value: Value?, _ what: String) throws(CaseError) -> Value {
    guard let value else { throw CaseError(what: what) }
    return value
}

/// The machine in virtual time.
private struct Runner {
    private var device: Device

    init(_ shared: Case) { device = Device(shared.user, configuration: shared.configuration) }

    /// Performs a step; returns the machine's actions as cases write actions.
    mutating func perform(_ step: JSON) throws -> [JSON] {
        let start = device.now
        if let session = step["connected"] as? String {
            device.perform { $0.connected(session: session, now: $1) }
        } else if step["subscribed"] != nil {
            device.perform { $0.subscribed(now: $1) }
        } else if let reason = step["disconnected"] as? String {
            device.perform { $0.disconnected(reason: reason, now: $1) }
        } else if step["renewing"] != nil {
            device.machine.renewing()
        } else if step["loggedOut"] != nil {
            device.perform { $0.loggedOut(now: $1) }
        } else if let milliseconds = step["pass"] as? Int64 {
            device.pass(milliseconds)
        } else if let request = step["send"] {
            guard case .request(let request) = try up(request) else { throw CaseError(what: "send") }
            let isOrdered = step["ordered"] as? Bool ?? false
            device.perform { $0.send(request, ordered: isOrdered, now: $1) }
        } else if let signal = step["signal"] as? JSON {
            guard case .signal(let signal) = try up(signal.merging(["type": "call.signal"]) { $1 }) else {
                throw CaseError(what: "signal")
            }
            device.perform { $0.send(signal, now: $1) }
        } else if let message = step["receive"] as? JSON {
            receive(message)
        } else {
            throw CaseError(what: "step \(step.keys)")
        }
        let actions = device.actions
        device.take()
        return try actions.map { ["at": $0.time - start].merging(try written($0.action)) { $1 } }
    }

    private mutating func receive(_ json: JSON) {
        if let known = DownMessage.decode(Self.bytes(json)) {
            device.receive(known)
        } else if json["type"] as? String == "event", let callID = (json["callID"] as? String).flatMap(CallID.init),
            let revision = json["revision"] as? Int
        {
            device.perform { $0.receivedUnknownEvent(callID, revision: revision, now: $1) }
        }
    }

    private func up(_ json: Any) throws -> UpMessage {
        switch UpMessage.decode(Self.bytes(json)) {
        case .success(let message): return message
        case .failure(let refusal): throw CaseError(what: "\(refusal)")
        }
    }

    private static func bytes(_ json: Any) -> [UInt8] {
        (try? JSONSerialization.data(withJSONObject: json)).map(Array.init) ?? []
    }

    // MARK: Actions as cases write them

    private func written(_ action: ClientMachine.Action) throws -> JSON {
        switch action {
        case .publish(let message): ["publish": try json(message.encoded())]
        case .publishPresence(let presence): ["presence": try json(presence.encoded())]
        case .deliver(let event): try told(event)
        case .succeed(let id, _), .answer(let id, _): ["succeed": id.string]
        case .fail(let id, let error): ["fail": id.string, "code": error.code.rawValue]
        case .refuse(let callID): ["refuse": callID.string]
        case .renewSession: ["renewSession": true]
        case .endTakenOver: ["endTakenOver": true]
        case .renewToken: ["renewToken": true]
        }
    }

    private func told(_ event: ClientEvent) throws -> JSON {
        switch event {
        case .online: ["online": true]
        case .offline(let reason): ["offline": reason]
        case .event(let event):
            ["event": event.name.rawValue, "callID": event.callID.string, "revision": event.revision]
        case .snapshot(let call): ["snapshot": call.callID.string, "revision": call.revision]
        case .invitationExpired(let call): ["expired": call.callID.string]
        case .gone(let call): ["gone": call.callID.string]
        case .signal(let signal): ["signal": try json(signal.data.bytes)]
        case .message(let message): ["message": message.messageID.string]
        case .receipt(let receipt): ["receipt": receipt.messageID.string, "state": receipt.state.rawValue]
        case .connection(let state): ["connection": "\(state)"]
        case .tokenWillExpire(let seconds): ["tokenWillExpire": seconds]
        case .error(let error): ["error": error.code.rawValue]
        }
    }

    private func json(_ bytes: [UInt8]) throws -> Any {
        try JSONSerialization.jsonObject(with: Data(bytes), options: .fragmentsAllowed)
    }
}
