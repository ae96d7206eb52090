import Basics
import CallCore
import CallStore
import Coordinator
import HistoryChecker
import MQTTClient
import RedisStore
import SignalingProtocol
import Support

// The checks of code that only decodes and encodes. Swift holds some different texts equal, so bytes are compared as
// well.

/// An accepted topic has a single spelling, which is the spelling that came; a refused topic is answered at a topic
/// where no device listens.
func checkTopic(_ input: [UInt8]) throws(Finding) {
    guard let topic = String(validating: input, as: UTF8.self) else { return }
    let topics = Topics.standard
    switch topics.parse(topic) {
    case .up(let device):
        try hold(Array(topics.up(device).utf8) == input, "\(device) has two topics")
    case .presence(let device):
        try hold(Array(topics.presence(device).utf8) == input, "\(device) has two topics")
    case .refused(let mirror):
        let isUp = input.starts(with: "bellwire/v1/up/".utf8)
        let rest = input.dropFirst((isUp ? "bellwire/v1/up/" : "bellwire/v1/presence/").utf8.count)
        try hold(Array(mirror.utf8) == Array("bellwire/v1/down/".utf8) + rest, "mirrored as \(mirror)")
        let asIfUp = topics.parse("bellwire/v1/up/" + text(rest))
        try hold(asIfUp == .refused(mirror: mirror), "a device may listen on \(mirror)")
    case .foreign, .canary, .relay: break
    }
    // The same bytes serve as the name of a user: whatever a user is called, the topic names the user.
    guard let user = UserID(topic), let deviceID = DeviceID("phone") else { return }
    let device = DeviceAddress(userID: user, deviceID: deviceID)
    try hold(topics.parse(topics.up(device)) == .up(device), "\(topics.up(device)) is not \(user)'s")
    try hold(Topics.decode(Topics.encode(user)[...].utf8) == user, "\(Topics.encode(user)) is not \(user)")
    _ = Topics(root: topic)
}

func checkUpMessage(_ input: [UInt8]) throws(Finding) {
    switch UpMessage.decode(input) {
    case .success(let message):
        let bytes = message.encoded()
        guard case .success(let again) = UpMessage.decode(bytes, maxBytes: Limits.parsedBytes) else {
            throw Finding("\(text(bytes)) is refused")
        }
        try hold(again == message && again.encoded() == bytes, "\(text(bytes)) is read as \(again)")
    case .failure(let refusal):
        // The receiver of the answer must be able to read the answer.
        let answer =
            refusal.requestID.map { DownMessage.response(Response(id: $0, outcome: .failure(refusal.error))) }
            ?? .error(refusal.error)
        try hold(DownMessage.decode(answer.encoded()) == answer, "\(text(answer.encoded())) is no answer")
    }
    if case .success = UpMessage.decode(input, maxBytes: max(0, input.count - 1)) {
        throw Finding("accepted beyond the limit")
    }
}

func checkDownMessage(_ input: [UInt8]) throws(Finding) {
    guard let message = DownMessage.decode(input) else { return }
    let bytes = message.encoded()
    guard let again = DownMessage.decode(bytes) else { throw Finding("\(text(bytes)) is not read") }
    try hold(again == message && again.encoded() == bytes, "\(text(bytes)) is read as \(again)")
}

func checkPresence(_ input: [UInt8]) throws(Finding) {
    switch PresenceMessage.decode(input) {
    case .success(let message):
        let bytes = message.encoded()
        guard case .success(let again) = PresenceMessage.decode(bytes) else {
            throw Finding("\(text(bytes)) is refused")
        }
        try hold(again == message && again.encoded() == bytes, "\(text(bytes)) is read as \(again)")
    case .failure(let error):
        let answer = DownMessage.error(error)
        try hold(DownMessage.decode(answer.encoded()) == answer, "\(text(answer.encoded())) is no answer")
    }
}

func checkTraceEntry(_ input: [UInt8]) throws(Finding) {
    guard let entry = TraceEntry(input) else { return }
    let bytes = entry.encoded()
    guard let again = TraceEntry(bytes) else { throw Finding("\(text(bytes)) is not read") }
    try hold(again == entry && again.encoded() == bytes, "\(text(bytes)) is read as \(again)")
}

/// A line is read, passed over or refused; the message of the line is the message that the devices' own decoders read.
func checkHistoryLine(_ input: [UInt8]) throws(Finding) {
    let entry: HistoryEntry
    do throws(HistoryLineError) {
        guard let known = try HistoryEntry.decode(line: input) else { return }
        entry = known
    } catch {
        return try hold(!error.description.isEmpty, "refused without a reason")
    }
    _ = entry.description
    switch entry.content {
    case .sent(_, let message):
        try hold((try? UpMessage.decode(message.encoded()).get()) == message, "\(message) does not survive")
    case .received(_, let message):
        try hold(DownMessage.decode(message.encoded()) == message, "\(message) does not survive")
    case .presented(_, let message):
        try hold((try? PresenceMessage.decode(message.encoded()).get()) == message, "\(message) does not survive")
    default: break
    }
}

/// The description of an address is an address of the same server.
func checkURL(_ input: [UInt8]) throws(Finding) {
    guard let url = String(validating: input, as: UTF8.self) else { return }
    if let server = ServerURL(url) {
        try hold(!server.host.isEmpty && server.port.map { (1...65535).contains($0) } ?? true, "\(server)")
    }
    if let redis = RedisAddress(url: url) {
        let again = RedisAddress(url: redis.description)
        var expected = redis
        (expected.username, expected.password) = (nil, nil)
        try hold(again == expected, "\(redis) is read as \(again.map(String.init(describing:)) ?? "nothing")")
    }
    if let broker = BrokerAddress(url: url) {
        let again = BrokerAddress(url: broker.description)
        var expected = broker
        (expected.username, expected.password) = (nil, nil)
        try hold(again == expected, "\(broker) is read as \(again.map(String.init(describing:)) ?? "nothing")")
    }
}

/// Texts that others have kept: cursors from clients, record ids from a store's indexes.
func checkCursor(_ input: [UInt8]) throws(Finding) {
    guard let string = String(validating: input, as: UTF8.self) else { return }
    if let place = HistoryPlace(string) {
        try hold(Array(place.text.utf8) == input, "\(place.text) and \(string) are one place")
        try hold(place.createdAt >= 0, "\(place)")
    }
    if let id = RecordID(string) { try hold(Array(id.string.utf8) == input, "\(id.string) and \(string) are one id") }
}
