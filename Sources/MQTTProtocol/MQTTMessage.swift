/// The quality of service (MQTT 5, section 4.3). Bellwire does not need exactly-once: requests are idempotent.
package enum QoS: Int32, Sendable {
    case atMostOnce = 0
    case atLeastOnce = 1
}

/// A message that was received or is to be published.
package struct MQTTMessage: Sendable, Equatable {
    package var topic: String
    package var payload: [UInt8]
    package var qos: QoS
    /// In a received message: whether this is an old copy that the broker had retained, not a live message.
    package var retain: Bool
    /// The correlation data (MQTT 5, section 3.3.2.3.6).
    package var correlationData: [UInt8]?
    /// The topic for the response that the sender asks for (MQTT 5, section 3.3.2.3.5).
    package var responseTopic: String?
    /// How long the broker keeps the message undelivered, in seconds; in a received message the rest of this time
    /// (MQTT 5, section 3.3.2.3.3).
    package var expirySeconds: UInt32?
    /// The values of user properties (MQTT 5, section 3.3.2.3.7), by name. A received message has those alone that
    /// `MQTTSession.Configuration.userProperties` names.
    package var userProperties: [String: String] = [:]

    package init(
        topic: String, payload: [UInt8], qos: QoS = .atLeastOnce, retain: Bool = false,
        correlationData: [UInt8]? = nil, responseTopic: String? = nil, expirySeconds: UInt32? = nil,
        userProperties: [String: String] = [:]
    ) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.correlationData = correlationData
        self.responseTopic = responseTopic
        self.expirySeconds = expirySeconds
        self.userProperties = userProperties
    }
}

/// A failure of the connection or of an operation.
package struct MQTTError: Error, Sendable, CustomStringConvertible {
    package enum Kind: Sendable, Equatable {
        /// The broker cannot be reached.
        case unreachable
        /// The broker answered CONNECT with a refusal.
        case refused
        /// The connection is gone.
        case lost
        /// The message or request cannot be sent as it is.
        case invalid
        /// TLS settings that cannot be used.
        case tls
    }

    package let kind: Kind
    package let message: String
    /// Whether the broker has refused this client's identity: another attempt with the same token or certificate would
    /// fail too.
    package let isAboutCredentials: Bool
    /// The reason code with which the broker ended the connection (MQTT 5, section 3.14.2.1); nil when the broker sent
    /// no reason code.
    package var disconnectReason: UInt8?
    /// Whether the broker closed the connection without a reason.
    package var isEndOfStream = false

    package static let sessionTakenOver: UInt8 = 0x8E
    package static let administrativeAction: UInt8 = 0x98

    package init(kind: Kind, message: String, isAboutCredentials: Bool = false) {
        self.kind = kind
        self.message = message
        self.isAboutCredentials = isAboutCredentials
    }

    /// Returns this error with `cause` appended to the message: a cause that this side has found out itself.
    package func because(_ cause: String?) -> MQTTError {
        guard let cause else { return self }
        var error = MQTTError(kind: kind, message: "\(message): \(cause)", isAboutCredentials: isAboutCredentials)
        (error.disconnectReason, error.isEndOfStream) = (disconnectReason, isEndOfStream)
        return error
    }

    package var description: String { message }
}
