import CallCore
import CallStore
import SignalingProtocol

/// A message as it came from the broker.
package struct InboundMessage: Sendable {
    package var topic: String
    package var payload: [UInt8]
    package var correlationData: [UInt8]?
    /// Where an answer is wanted (MQTT 5).
    package var responseTopic: String?
    /// A stale copy that the broker had kept.
    package var isRetained: Bool
    /// When the token of the sender ends, in milliseconds since the epoch, as far as the broker tells.
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

/// A message for the broker.
package struct OutboundMessage: Sendable, Equatable {
    package var topic: String
    package var payload: [UInt8]
    package var correlationData: [UInt8]?
    package var expirySeconds: UInt32
    /// Of which message this is the receipt: to be told to `CallService.published`.
    package var receiptOf: RecordID?
    /// It would have been too large; counted when it is sent.
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
