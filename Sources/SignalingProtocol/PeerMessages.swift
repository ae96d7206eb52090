// Messages to a device that come from other users, and the receipts of its own peer messages (docs/protocol.md,
// section 2).

/// A `signal`: data that a member of a call sent with `call.signal`.
public struct BellwireSignal: Equatable, Sendable {
    public var callID: CallID
    public var from: DeviceAddress
    public var seq: Int64?
    public var stream: String?
    public var data: JSONText

    public init(callID: CallID, from: DeviceAddress, seq: Int64? = nil, stream: String? = nil, data: JSONText) {
        self.callID = callID
        self.from = from
        self.seq = seq
        self.stream = stream
        self.data = data
    }
}

/// A `message`: a peer message that a user sent with `message.send`. The service resends the message until a device
/// acks it.
public struct BellwireIncomingMessage: Equatable, Sendable {
    public var messageID: MessageID
    public var from: DeviceAddress
    /// The time of sending, by the service's clock.
    public var time: Int64
    /// The place in the sender's stream.
    public var seq: Int64?
    /// The name of the stream: a sequence of messages with rising `seq`; nil when the sender asked for no order.
    public var stream: String?
    public var data: JSONText

    public init(
        messageID: MessageID, from: DeviceAddress, time: Int64, seq: Int64? = nil, stream: String? = nil,
        data: JSONText
    ) {
        self.messageID = messageID
        self.from = from
        self.time = time
        self.seq = seq
        self.stream = stream
        self.data = data
    }
}

/// The state of a peer message.
public enum MessageState: String, Sendable, CaseIterable {
    /// The service knows of no ack yet. Can transition to `delivered` and `expired`.
    case sent
    /// A device of the recipient has acked the peer message. Final.
    case delivered
    /// No device acked the peer message before its `ttl` ended. Final.
    case expired
}

/// A `receipt`: the final state of a peer message that this device sent.
public struct BellwireReceipt: Equatable, Sendable {
    public var messageID: MessageID
    public var to: UserID
    /// Either `delivered` or `expired`.
    public var state: MessageState
    public var time: Int64

    public init(messageID: MessageID, to: UserID, state: MessageState, time: Int64) {
        self.messageID = messageID
        self.to = to
        self.state = state
        self.time = time
    }
}

/// A user's profile in the form of `user.query` and `user.update`.
public struct UserSnapshot: Equatable, Sendable {
    public var userID: UserID
    public var name: String?
    public var avatarURL: String?
    public var extendedData: String?
    /// Whether a device of the user is online.
    public var isOnline: Bool

    public init(
        userID: UserID, name: String? = nil, avatarURL: String? = nil, extendedData: String? = nil, isOnline: Bool
    ) {
        self.userID = userID
        self.name = name
        self.avatarURL = avatarURL
        self.extendedData = extendedData
        self.isOnline = isOnline
    }
}

/// The outcome of a successful request that is not about a single call.
package enum Answer: Equatable, Sendable {
    /// The answer to `call.query`. The cursor `"0"` means that there are no more calls.
    case calls([CallSnapshot], cursor: String)
    /// The answer to `user.query`; `errors` lists the unknown users.
    case users([UserSnapshot], errors: [UserError])
    /// The answer to `user.update`: the profile after the change.
    case user(UserSnapshot)
    /// The answer to `message.send`.
    case message(MessageID, time: Int64, state: MessageState)
    /// The answer to `user.block`, `user.unblock` and `user.blockList`: all users that the user now blocks.
    case blocked([UserID])
    /// The answer to `user.signOut` and `user.delete`: the affected user.
    case done(UserID)
    /// The answer to `push.register` and `push.unregister`: the registrations that the device now has.
    case registrations([RegisteredPush])
    /// The answer to `call.ringCheck`.
    case ring(RingState)

    /// The cursor of the last page.
    package static let lastCursor = "0"
}

extension BellwireSignal {
    func write(to writer: inout JSONWriter) {
        writer.field("type", "signal")
        writer.field("callID", callID.string)
        writer.field("from", from.userID.string)
        writer.field("fromDevice", from.deviceID.string)
        writer.field("seq", seq)
        writer.field("stream", stream)
        writer.field("data", data)
    }

    init?(_ message: ReceivedObject) {
        guard let callID = message.json["callID"]?.string.flatMap(CallID.init), let from = message.sender,
            let data = message.text("data")
        else { return nil }
        self.init(
            callID: callID, from: from, seq: message.json["seq"]?.integer, stream: message.json["stream"]?.string,
            data: data)
    }
}

extension BellwireIncomingMessage {
    func write(to writer: inout JSONWriter) {
        writer.field("type", "message")
        writer.field("messageID", messageID.string)
        writer.field("from", from.userID.string)
        writer.field("fromDevice", from.deviceID.string)
        writer.field("time", time)
        writer.field("seq", seq)
        writer.field("stream", stream)
        writer.field("data", data)
    }

    init?(_ message: ReceivedObject) {
        guard let messageID = message.json["messageID"]?.string.flatMap(MessageID.init), let from = message.sender,
            let time = message.json["time"]?.integer, let data = message.text("data")
        else { return nil }
        self.init(
            messageID: messageID, from: from, time: time, seq: message.json["seq"]?.integer,
            stream: message.json["stream"]?.string, data: data)
    }
}

extension BellwireReceipt {
    func write(to writer: inout JSONWriter) {
        writer.field("type", "receipt")
        writer.field("messageID", messageID.string)
        writer.field("to", to.string)
        writer.field("state", state.rawValue)
        writer.field("time", time)
    }

    init?(json: JSONObject) {
        guard let messageID = json["messageID"]?.string.flatMap(MessageID.init),
            let to = json["to"]?.string.flatMap(UserID.init),
            let state = json["state"]?.string.flatMap(MessageState.init), let time = json["time"]?.integer
        else { return nil }
        self.init(messageID: messageID, to: to, state: state, time: time)
    }
}

extension UserSnapshot {
    package func write(to writer: inout JSONWriter) {
        writer.field("userID", userID.string)
        writer.field("name", name)
        writer.field("avatarURL", avatarURL)
        writer.field("extendedData", extendedData)
        writer.field("online", isOnline)
    }

    init?(json: JSONObject) {
        guard let userID = json["userID"]?.string.flatMap(UserID.init), let isOnline = json["online"]?.bool else {
            return nil
        }
        self.init(
            userID: userID, name: json["name"]?.string, avatarURL: json["avatarURL"]?.string,
            extendedData: json["extendedData"]?.string, isOnline: isOnline)
    }
}

extension Answer {
    func write(to writer: inout JSONWriter) {
        switch self {
        case .calls(let calls, let cursor):
            writer.array("calls") { writer in
                for call in calls { writer.object { call.write(to: &$0) } }
            }
            writer.field("cursor", cursor)
        case .users(let users, let errors):
            writer.array("users") { writer in
                for user in users { writer.object { user.write(to: &$0) } }
            }
            writer.errors(errors)
        case .user(let user): writer.object("user") { user.write(to: &$0) }
        case .blocked(let users): writer.users("blocked", users)
        case .done(let user): writer.field("userID", user.string)
        case .registrations(let registrations):
            writer.array("registrations") { writer in
                for registration in registrations { writer.object { registration.write(to: &$0) } }
            }
        case .ring(let state): state.write(to: &writer)
        case .message(let messageID, let time, let state):
            writer.field("messageID", messageID.string)
            writer.field("time", time)
            writer.field("state", state.rawValue)
        }
    }

    init?(json: JSONObject) {
        if let users = json["blocked"]?.array {
            self = .blocked(users.compactMap { $0.string.flatMap(UserID.init) })
            return
        }
        if let state = RingState(json: json) {
            self = .ring(state)
            return
        }
        if let registrations = json["registrations"]?.array {
            self = .registrations(registrations.compactMap { $0.object.flatMap(RegisteredPush.init(json:)) })
            return
        }
        if let calls = json["calls"]?.array, let cursor = json["cursor"]?.string {
            self = .calls(calls.compactMap { $0.object.flatMap(CallSnapshot.init(json:)) }, cursor: cursor)
        } else if let users = json["users"]?.array {
            self = .users(
                users.compactMap { $0.object.flatMap(UserSnapshot.init(json:)) }, errors: UserError.list(json))
        } else if let user = json["user"]?.object.flatMap(UserSnapshot.init(json:)) {
            self = .user(user)
        } else if let messageID = json["messageID"]?.string.flatMap(MessageID.init), let time = json["time"]?.integer,
            let state = json["state"]?.string.flatMap(MessageState.init)
        {
            self = .message(messageID, time: time, state: state)
        } else if let user = json["userID"]?.string.flatMap(UserID.init) {
            self = .done(user)
        } else {
            return nil
        }
    }
}

/// A message's JSON object together with the byte ranges of its fields, so that the service can copy a value unchanged.
struct ReceivedObject {
    let json: JSONObject
    private let payload: [UInt8]
    private let ranges: [Range<Int>]

    init?(_ payload: [UInt8]) throws(JSONError) {
        let (value, ranges) = try JSONParser.parseMessage(payload)
        guard case .object(let json) = value else { return nil }
        self.json = json
        self.payload = payload
        self.ranges = ranges
    }

    /// The bytes of a field's value, also of `null`; nil when the field is absent. When the message has a key twice,
    /// the last value counts.
    func text(_ key: String) -> JSONText? {
        json.fields.lastIndex { $0.key == key }.map { JSONText(parsed: payload[ranges[$0]]) }
    }

    fileprivate var sender: DeviceAddress? {
        guard let user = json["from"]?.string.flatMap(UserID.init),
            let device = json["fromDevice"]?.string.flatMap(DeviceID.init)
        else { return nil }
        return DeviceAddress(userID: user, deviceID: device)
    }
}
