/// Quality of service (MQTT 5, section 4.3). Bellwire never needs exactly-once: requests are idempotent.
package enum QoS: Int32, Sendable {
    case atMostOnce = 0
    case atLeastOnce = 1
}

/// A message as received or to be published.
package struct MQTTMessage: Sendable, Equatable {
    package var topic: String
    package var payload: [UInt8]
    package var qos: QoS
    /// Received: a stale copy that the broker had kept, not a live message.
    package var retain: Bool
    /// MQTT 5, section 3.3.2.3.6.
    package var correlationData: [UInt8]?
    /// Where an answer is wanted (MQTT 5, section 3.3.2.3.5).
    package var responseTopic: String?
    /// Seconds after which the broker drops the message undelivered (MQTT 5, section 3.3.2.3.3).
    package var expirySeconds: UInt32?
    /// Received: the value of the user property that `MQTTConnection.Configuration.userProperty` names.
    package var userProperty: String?

    package init(
        topic: String, payload: [UInt8], qos: QoS = .atLeastOnce, retain: Bool = false,
        correlationData: [UInt8]? = nil, responseTopic: String? = nil, expirySeconds: UInt32? = nil,
        userProperty: String? = nil
    ) {
        self.topic = topic
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.correlationData = correlationData
        self.responseTopic = responseTopic
        self.expirySeconds = expirySeconds
        self.userProperty = userProperty
    }
}

/// A failure of the connection or of one operation on it.
package struct MQTTError: Error, Sendable, CustomStringConvertible {
    package enum Kind: Sendable, Equatable {
        /// The broker cannot be reached.
        case unreachable
        /// The broker answered CONNECT with a refusal.
        case refused
        /// The connection is gone.
        case lost
        /// The message cannot be published as it is.
        case invalid
        /// TLS settings that cannot be used.
        case tls
    }

    package let kind: Kind
    package let message: String
    /// The broker has refused who this client says it is: another try with the same token or certificate changes nothing.
    package let isAboutCredentials: Bool
    /// The reason code with which the broker ended the connection (MQTT 5, section 3.14.2.1); nil when it did not say.
    package var disconnectReason: UInt8?
    /// The broker closed the connection, and said nothing.
    package var isEndOfStream = false

    package static let sessionTakenOver: UInt8 = 0x8E
    package static let administrativeAction: UInt8 = 0x98

    package init(kind: Kind, message: String, isAboutCredentials: Bool = false) {
        self.kind = kind
        self.message = message
        self.isAboutCredentials = isAboutCredentials
    }

    /// The same with a cause that the other side did not tell.
    package func because(_ cause: String?) -> MQTTError {
        guard let cause else { return self }
        var error = MQTTError(kind: kind, message: "\(message): \(cause)", isAboutCredentials: isAboutCredentials)
        (error.disconnectReason, error.isEndOfStream) = (disconnectReason, isEndOfStream)
        return error
    }

    package var description: String { message }
}
