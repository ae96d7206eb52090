import CallCore
import CallStore
import SignalingProtocol

/// A message that the broker sent to the coordinator.
package struct InboundMessage: Sendable {
    package var topic: String
    package var payload: [UInt8]
    package var correlationData: [UInt8]?
    /// The topic for the response that the sender asks for (MQTT 5).
    package var responseTopic: String?
    /// Whether the message is an old copy that the broker had retained.
    package var isRetained: Bool
    /// The end of the sender's token, in milliseconds since the epoch, if the broker tells.
    package var tokenExpiresAt: Int64?
    /// The parent that the sender names for the spans of the request.
    package var traceParent: TraceParent?
    /// The rest of the time that a broker keeps the message, in seconds, if the message has such a time.
    package var expirySeconds: UInt32?
    /// The broker that sent the message.
    package var broker: BrokerIndex

    package init(
        topic: String, payload: [UInt8], correlationData: [UInt8]? = nil, responseTopic: String? = nil,
        isRetained: Bool = false, tokenExpiresAt: Int64? = nil, traceParent: TraceParent? = nil,
        expirySeconds: UInt32? = nil, broker: BrokerIndex = 0
    ) {
        self.topic = topic
        self.payload = payload
        self.correlationData = correlationData
        self.responseTopic = responseTopic
        self.isRetained = isRetained
        self.tokenExpiresAt = tokenExpiresAt
        self.traceParent = traceParent
        self.expirySeconds = expirySeconds
        self.broker = broker
    }
}

/// A duration that ends when the broker is given a message, for the metrics.
enum MessageTiming: Sendable, Equatable {
    case response(RequestOrigin, outcome: String)
    /// The message is the first invitation that a request has caused. `readAt`: as in `RequestOrigin`.
    case ring(readAt: Int64)
}

/// A message that the coordinator publishes at the broker.
package struct OutboundMessage: Sendable, Equatable {
    package var topic: String
    package var payload: [UInt8]
    package var correlationData: [UInt8]?
    package var expirySeconds: UInt32
    /// The peer message that this receipt belongs to. `CallService.published` is called with the receipt once the
    /// broker has taken the receipt.
    package var receiptOf: RecordID?
    /// The brokers at which the message is published.
    package var brokers = BrokerSet.all
    /// The final topic of a message that another coordinator is to publish (`Topics.relay`).
    package var responseTopic: String?
    /// Whether another coordinator has asked to publish this message.
    package var isRelayed = false
    /// Whether the message was too large and was shortened; counted when sent.
    let isTrimmed: Bool
    /// The duration that ends when the broker is given the message.
    var timing: MessageTiming?

    package init(
        topic: String, payload: [UInt8], correlationData: [UInt8]? = nil, expirySeconds: UInt32,
        receiptOf: RecordID? = nil, brokers: BrokerSet = .all, isRelayed: Bool = false
    ) {
        self.init(
            topic: topic, payload: payload, correlationData: correlationData, expirySeconds: expirySeconds,
            receiptOf: receiptOf, brokers: brokers, isTrimmed: false)
        self.isRelayed = isRelayed
    }

    init(
        topic: String, payload: [UInt8], correlationData: [UInt8]? = nil, expirySeconds: UInt32,
        receiptOf: RecordID? = nil, brokers: BrokerSet = .all, isTrimmed: Bool
    ) {
        self.brokers = brokers
        self.topic = topic
        self.payload = payload
        self.correlationData = correlationData
        self.expirySeconds = expirySeconds
        self.receiptOf = receiptOf
        self.isTrimmed = isTrimmed
    }

    /// Returns the message as another coordinator gets it, which is to publish the message at `broker`.
    func relayed(to broker: BrokerName, _ topics: Topics) -> OutboundMessage {
        var message = self
        message.topic = topics.relay(to: broker)
        message.responseTopic = topic
        return message
    }
}
