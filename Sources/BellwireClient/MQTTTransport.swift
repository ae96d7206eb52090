import BellwireClientCore
import MQTTProtocol

/// Bellwire's own MQTT 5 client as the SDK's transport: TCP, and TLS. Each connection has a thread or queue of its own,
/// which ends with the connection.
///
/// On Linux the connection is a socket, with TLS by OpenSSL (docs/decisions/0013); on Apple's platforms the connection
/// is Network.framework's.
public struct MQTTTransport: BellwireTransport {
    /// The broker's address. A username in the address replaces the user id as the MQTT username. A password in the
    /// address is used where there is no token.
    public var broker: BrokerAddress
    /// The file with the certificate authorities to trust with `mqtts://`, in PEM; nil for the system's.
    public var certificateAuthorityFile: String?
    /// Returns a known cause of a failed connection, beside the error; the second argument is the password that was
    /// sent.
    package var cause: @Sendable (MQTTError, String?) -> String? = { _, _ in nil }

    public init(broker: BrokerAddress, certificateAuthorityFile: String? = nil) {
        self.broker = broker
        self.certificateAuthorityFile = certificateAuthorityFile
    }

    /// Returns the settings of a connection's MQTT session.
    package func settings(_ request: BellwireConnectionRequest) -> MQTTSession.Configuration {
        var broker = broker
        if broker.username == nil { broker.username = request.username }
        if let token = request.password { broker.password = token }
        var settings = MQTTSession.Configuration(broker: broker, clientID: request.clientID)
        settings.certificateAuthorityFile = certificateAuthorityFile
        settings.keepAlive = UInt16(clamping: max(1, request.keepAlive.milliseconds / 1000))
        settings.longestAnswer = Self.longestAnswer
        settings.will = request.will.map { MQTTMessage(topic: $0.topic, payload: $0.payload) }
        return settings
    }

    /// How long the broker may take to answer a request for a sign of life, in milliseconds.
    private static let longestAnswer: Int64 = 5_000
}

extension QoS {
    package init(_ qos: BellwireQoS) {
        switch qos {
        case .atMostOnce: self = .atMostOnce
        case .atLeastOnce: self = .atLeastOnce
        }
    }
}

extension BellwireTransportError {
    package init(_ error: MQTTError) {
        let kind: Kind =
            switch error.kind {
            case .unreachable: .unreachable
            case .refused: .refused
            case .lost:
                switch error.disconnectReason {
                case MQTTError.sessionTakenOver?: .takenOver
                case MQTTError.administrativeAction?: .ended
                case nil: .lost(isClean: error.isEndOfStream)
                default: .lost(isClean: false)
                }
            case .invalid: .invalid
            case .tls: .tls
            }
        self.init(kind, error.message)
    }
}
