import CallCore
import CallStore
import SignalingProtocol

/// A message as it came from the broker.
public struct InboundMessage: Sendable {
    public var topic: String
    public var payload: [UInt8]
    public var correlationData: [UInt8]?
    /// A stale copy that the broker had kept.
    public var isRetained: Bool
    /// When the token of the sender ends, in milliseconds since the epoch, as far as the broker tells.
    public var tokenExpiresAt: Int64?

    public init(
        topic: String, payload: [UInt8], correlationData: [UInt8]? = nil, isRetained: Bool = false,
        tokenExpiresAt: Int64? = nil
    ) {
        self.topic = topic
        self.payload = payload
        self.correlationData = correlationData
        self.isRetained = isRetained
        self.tokenExpiresAt = tokenExpiresAt
    }
}

/// A message for the broker.
public struct OutboundMessage: Sendable, Equatable {
    public var topic: String
    public var payload: [UInt8]
    public var correlationData: [UInt8]?
    public var expirySeconds: UInt32
    /// Of which message this is the receipt: to be told to `CallService.published`.
    public var receiptOf: RecordID?
    /// It would have been too large; counted when it is sent.
    let isTrimmed: Bool

    public init(
        topic: String, payload: [UInt8], correlationData: [UInt8]? = nil, expirySeconds: UInt32,
        receiptOf: RecordID? = nil
    ) {
        self.init(
            topic: topic, payload: payload, correlationData: correlationData, expirySeconds: expirySeconds,
            receiptOf: receiptOf, isTrimmed: false)
    }

    init(
        topic: String, payload: [UInt8], correlationData: [UInt8]? = nil, expirySeconds: UInt32,
        receiptOf: RecordID? = nil, isTrimmed: Bool
    ) {
        self.topic = topic
        self.payload = payload
        self.correlationData = correlationData
        self.expirySeconds = expirySeconds
        self.receiptOf = receiptOf
        self.isTrimmed = isTrimmed
    }
}

/// Something that happened to a call. Requests, acks, presence and deadlines all take the same path:
/// load, decide, commit, publish.
enum CallEvent {
    case request(ReceivedRequest)
    case signal(ReceivedSignal)
    case ack(DeviceAddress, revision: Int)
    case heartbeat(DeviceAddress)
    case cameOnline(DeviceAddress)
    case wentOffline(DeviceAddress, PresenceMessage.OfflineReason)
    case deadline

    /// The device whose message it is.
    var sender: DeviceAddress? {
        switch self {
        case .request(let received): received.device
        case .signal(let received): received.device
        case .ack(let device, _), .heartbeat(let device): device
        case .cameOnline, .wentOffline, .deadline: nil
        }
    }

    /// The device that came online.
    var arrived: DeviceAddress? {
        if case .cameOnline(let device) = self { device } else { nil }
    }
}

/// Something that happened to a peer message.
enum MessageEvent {
    case send(ReceivedRequest, Request.Message)
    case ack(DeviceAddress)
    /// A device of the recipient came online.
    case cameOnline(DeviceAddress)
    case deadline
    /// The broker has the receipt.
    case receiptSent
}

/// What a device published on its presence topic.
struct PresenceChange {
    let session: DeviceSession
    let status: PresenceMessage.Status
    /// When the token of the device ends, as far as the broker tells.
    let tokenExpiresAt: Int64?
}

/// A request with where its response goes.
struct ReceivedRequest {
    let device: DeviceAddress
    let request: Request
    let correlationData: [UInt8]?

    var key: RequestKey { RequestKey(device: device, requestID: request.id) }
}

/// What happened to one call or message, in the order in which it came.
struct Work<ID: Hashable, Event> {
    let id: ID
    var events: [Event]
}

typealias CallWork = Work<CallID, CallEvent>
typealias MessageWork = Work<RecordID, MessageEvent>

/// Works, one for each id, in the order in which something first happened to them.
struct WorkList<ID: Hashable, Event> {
    private(set) var works: [Work<ID, Event>] = []
    private var places: [ID: Int] = [:]

    mutating func append(_ event: Event, to id: ID) {
        if let place = places[id] {
            works[place].events.append(event)
        } else {
            places[id] = works.count
            works.append(Work(id: id, events: [event]))
        }
    }
}

/// What is decided about one call: written first, then told. One object, which is passed on and never copied.
final class Decision {
    /// What was loaded; version 0 when there was no record.
    var version: Int64 = 0
    var acks: [DeviceAck] = []
    /// The call as it was loaded, and as it is decided; nil while there is none.
    var before: Call?
    var machine: CallMachine?
    /// What else stands under the id, to be written instead of a call.
    var record: Record?
    /// The id under which the call is known to its inviter after a glare merge, and that record's version.
    var alias: (callID: CallID, origin: RequestKey, version: Int64)?

    var notes: [Note] = []
    var expectedHolders: [(claim: Claim, holder: ClaimHolder?)] = []
    private(set) var replies: [OutboundMessage] = []
    /// To whom the replies go.
    private(set) var answered: [UserID] = []
    /// Signals to other members, in the order in which they came.
    private(set) var signals: [OutboundMessage] = []
    /// What is counted, once it is committed.
    var counts = Counts()
    /// What was taken of limits, to be given back when this does not come about.
    var reserved: [RateLimiter.Key] = []
    /// How many bytes are sent because of whom: replies and signals.
    private(set) var caused: [(user: UserID, bytes: Int)] = []
    /// What devices reported, once a report changed it.
    var reports: [DeviceReport]?
    /// Milestones for the metrics, with the role of who reported them.
    var observed: [(milestone: Milestone, role: String)] = []
    /// What the call's timeline says of this decision, beside the transition and what is sent.
    var steps: [TraceEntry.Step] = []
    /// Devices that are sent at once what they are owed: they came online, or acked an old revision.
    var refresh: [DeviceAddress] = []
    /// Those of them that acked an old revision.
    var stale: [DeviceAddress] = []
    /// What is resent because its time has come.
    var resends: [Delivery] = []

    var call: Call? { machine?.call }
    /// The timeline of a call that lives tells of its members' devices.
    func note(presence state: String, of device: DeviceAddress) {
        guard let call, call.isLive, call.member(device.userID) != nil else { return }
        steps.append(.presence(device, state: state))
    }

    func reply(_ message: OutboundMessage, to user: UserID) {
        replies.append(message)
        caused.append((user, message.payload.count))
        if !answered.contains(user) { answered.append(user) }
    }

    /// A signal to another member.
    func pass(_ signal: OutboundMessage, from user: UserID) {
        signals.append(signal)
        caused.append((user, signal.payload.count))
    }

    /// Whose devices are told something, and must be known after the commit.
    var told: [UserID] {
        (isVisiblyChanged ? call?.members.map(\.userID) ?? [] : []) + refresh.map(\.userID)
    }

    var isVisiblyChanged: Bool { call.map { $0.revision != before?.revision ?? 0 } ?? false }
}

/// One event to one topic.
struct Delivery {
    let user: UserID
    /// Nil: to all devices of the user.
    let device: DeviceID?
    let owed: OwedEvent
    /// How many of the user's devices are online, for the timeline.
    let online: Int
    private(set) var isResend = false
    /// With which bytes it counts: those of the user whose request or stale ack it follows from, or of one whose device came back; nil for
    /// what a timer caused.
    private(set) var budget: RateLimiter.Key?

    init(user: UserID, device: DeviceID?, owed: OwedEvent, online: Int) {
        self.user = user
        self.device = device
        self.owed = owed
        self.online = online
    }

    mutating func count(with user: UserID?) { budget = user.map(RateLimiter.Key.sentBytes) }

    var asWelcome: Delivery {
        var copy = self
        copy.budget = .welcomeBytes(user)
        return copy
    }

    var again: Delivery {
        var copy = self
        copy.isResend = true
        return copy
    }

    /// As a resend. What goes out again to a user without a device tells nothing about the call, and for how long the user has been
    /// away is nobody's business (docs/decisions/0012).
    var isTraced: Bool { online > 0 }
}
