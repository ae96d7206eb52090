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

    public init(topic: String, payload: [UInt8], correlationData: [UInt8]? = nil, isRetained: Bool = false) {
        self.topic = topic
        self.payload = payload
        self.correlationData = correlationData
        self.isRetained = isRetained
    }
}

/// A message for the broker.
public struct OutboundMessage: Sendable, Equatable {
    public var topic: String
    public var payload: [UInt8]
    public var correlationData: [UInt8]?
    public var expirySeconds: UInt32
}

/// Something that happened to a call. Requests, acks, presence and deadlines all take the same path:
/// load, decide, commit, publish.
enum CallEvent {
    case request(ReceivedRequest)
    case ack(DeviceAddress, revision: Int)
    case heartbeat(DeviceAddress)
    case cameOnline(DeviceAddress)
    case wentOffline(DeviceAddress, PresenceMessage.OfflineReason)
    case deadline
}

/// A request with where its response goes.
struct ReceivedRequest {
    let device: DeviceAddress
    let request: Request
    let correlationData: [UInt8]?

    var key: RequestKey { RequestKey(device: device, requestID: request.id) }
}

/// What happened to one call, in the order in which it came.
struct CallWork {
    let callID: CallID
    var events: [CallEvent]
}

/// What is decided about one call: written first, then told.
struct Decision {
    /// What was loaded; version 0 when there was no record.
    var version: Int64 = 0
    var acks: [DeviceAck] = []
    /// The call as it was loaded, and as it is decided; nil while there is none.
    var before: Call?
    var machine: CallMachine?
    /// What else stands under the id, to be written instead of a call.
    var record: CallRecord?
    /// The id under which the call is known to its inviter after a glare merge, and that record's version.
    var alias: (callID: CallID, origin: RequestKey, version: Int64)?

    var notes: [Note] = []
    var expectedHolders: [(claim: Claim, holder: CallID?)] = []
    var replies: [OutboundMessage] = []
    /// Devices that are sent at once what they are owed: they came online, or acked an old revision.
    var refresh: [DeviceAddress] = []
    /// What is resent because its time has come.
    var resends: [Delivery] = []

    var call: Call? { machine?.call }
    var isVisiblyChanged: Bool { call.map { $0.revision != before?.revision ?? 0 } ?? false }
}

/// One event to one topic.
struct Delivery {
    let user: UserID
    /// Nil: to all devices of the user.
    let device: DeviceID?
    let owed: OwedEvent
}
