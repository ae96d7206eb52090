import BellwireClientCore
import CallCore
import CallStore
import Coordinator
import SignalingProtocol

// The checks of the parts that serve a whole run of messages: the coordinator's loop and the client's machine.

/// Each line is a topic, a space and a payload, or "+" and milliseconds that pass. No input stops the coordinator or
/// goes unanswered in silence (docs/protocol.md, section 2), and its published messages can be read.
func checkService(_ input: [UInt8]) throws(Finding) {
    var now = fuzzedNow
    let coordinator = FuzzedCoordinator(MemoryCallStore { now }) { now }
    for line in input.split(separator: UInt8(ascii: "\n")).prefix(64) {
        if let pause = pause(line) {
            now += pause
            try checkPublished(coordinator.serve([]))
            continue
        }
        let words = line.split(separator: UInt8(ascii: " "), maxSplits: 1, omittingEmptySubsequences: false)
        let topic = String(decoding: words[0], as: UTF8.self)
        let payload = words.count == 2 ? Array(words[1]) : []
        let published = coordinator.serve([InboundMessage(topic: topic, payload: payload)])
        try checkPublished(published)
        try checkAnswered(topic, payload, published)
    }
}

/// A step of at most ten days.
private func pause(_ line: ArraySlice<UInt8>) -> Int64? {
    guard line.first == UInt8(ascii: "+"), let pause = Int64(text(line.dropFirst())) else { return nil }
    return min(max(pause, 0), 10 * 86_400_000)
}

private func checkPublished(_ messages: [OutboundMessage]) throws(Finding) {
    for message in messages {
        try hold(message.topic.hasPrefix("bellwire/v1/down/"), "published on \(message.topic)")
        try hold(message.payload.count <= Limits.downBytes, "\(message.payload.count) bytes to \(message.topic)")
        try hold(DownMessage.decode(message.payload) != nil, "\(text(message.payload)) is no message to a device")
    }
}

private func checkAnswered(_ topic: String, _ payload: [UInt8], _ published: [OutboundMessage]) throws(Finding) {
    func count(on topic: String, _ isIt: (DownMessage) -> Bool) -> Int {
        published.count { $0.topic == topic && DownMessage.decode($0.payload).map(isIt) ?? false }
    }
    func isError(_ message: DownMessage) -> Bool { if case .error = message { true } else { false } }
    switch Topics.standard.parse(topic) {
    case .foreign, .canary, .relay: try hold(published.isEmpty, "an answer to \(topic)")
    case .refused(let mirror): try hold(count(on: mirror, isError) == 1, "no answer on \(mirror)")
    case .presence(let device):
        guard case .failure = PresenceMessage.decode(payload) else { return }
        try hold(count(on: Topics.standard.down(device), isError) == 1, "no answer to \(device)'s presence")
    case .up(let device):
        let own = Topics.standard.down(device)
        func outcomes(_ id: RequestID) -> Int {
            count(on: own) { if case .response(let response) = $0 { response.id == id } else { false } }
        }
        switch UpMessage.decode(payload) {
        case .success(.request(let request)):
            try hold(outcomes(request.id) == 1, "\(outcomes(request.id)) outcomes of \(request)")
        case .success: break
        case .failure(let refusal):
            let answers = refusal.requestID.map(outcomes) ?? count(on: own, isError)
            try hold(answers == 1, "\(answers) answers to \(text(payload))")
        }
    }
}

/// Each line is a payload on a down topic; "+" and milliseconds that pass; "!connect SESSION", "!disconnect"; or "!"
/// and an up message that the app sends. Whatever a service says, the client goes on, and never without a pause.
func checkClient(_ input: [UInt8]) throws(Finding) {
    let device = DeviceAddress(userID: UserID("bob")!, deviceID: DeviceID("phone")!)
    var machine = ClientMachine(device: device)
    var now: Int64 = 1_000_000
    var actions = machine.connected(session: "s1", now: now) + machine.subscribed(now: now)
    for line in input.split(separator: UInt8(ascii: "\n")).prefix(64) {
        if let pause = pause(line) {
            let end = now + pause
            // Only the beginning of a long time passes, or the heartbeats of ten days would have to be sent.
            for _ in 0..<200 {
                guard let deadline = machine.nextDeadline, deadline <= end else { break }
                now = max(now, deadline)
                actions += machine.timerFired(now: now)
                try hold(machine.nextDeadline.map { $0 > now } ?? true, "what was due at \(now) is due again")
            }
            now = end
            actions += machine.timerFired(now: now)
        } else if line.starts(with: "!connect ".utf8) {
            actions += machine.connected(session: text(line.dropFirst(9)), now: now) + machine.subscribed(now: now)
        } else if line.elementsEqual("!disconnect".utf8) {
            actions += machine.disconnected(reason: "gone", now: now)
        } else if line.first == UInt8(ascii: "!") {
            switch UpMessage.decode(Array(line.dropFirst())) {
            case .success(.request(let request)): actions += machine.send(request, now: now)
            case .success(.signal(let signal)): actions += machine.send(signal, now: now)
            default: break
            }
        } else if let message = DownMessage.decode(Array(line)) {
            actions += machine.received(message, now: now)
        }
    }
    for case .publish(let message) in actions {
        let bytes = message.encoded()
        // An app may ask for a request that no service grants; the messages that the machine sends by itself must be in
        // order.
        if case .request = message { continue }
        try hold((try? UpMessage.decode(bytes).get()) == message, "\(text(bytes)) is refused")
    }
}
