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

    package init(
        topic: String, payload: [UInt8], correlationData: [UInt8]? = nil, responseTopic: String? = nil,
        isRetained: Bool = false,
        tokenExpiresAt: Int64? = nil
    ) {
        self.topic = topic
        self.payload = payload
        self.correlationData = correlationData
        self.responseTopic = responseTopic
        self.isRetained = isRetained
        self.tokenExpiresAt = tokenExpiresAt
    }
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
    /// Whether the message was too large and was shortened; counted when sent.
    let isTrimmed: Bool

    package init(
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
