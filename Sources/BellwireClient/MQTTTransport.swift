import BellwireClientCore
import MQTTClient
import Support

/// Bellwire's own MQTT 5 client (docs/decisions/0013) as the SDK's transport: TCP, and TLS by OpenSSL. Each connection has a thread, which
/// it ends with.
public struct MQTTTransport: Transport {
    /// Where the broker is. A username in it is used as it is; without one it is the user id. A password in it is used where there is no
    /// token.
    public var broker: BrokerAddress
    /// With `mqtts://`: a file with the certificate authorities to trust; the system's when nil.
    public var certificateAuthorityFile: String?
    /// What is known here of why a connection failed, beside the error; it is given what was shown as the password.
    package var cause: @Sendable (MQTTError, String?) -> String? = { _, _ in nil }

    public init(broker: BrokerAddress, certificateAuthorityFile: String? = nil) {
        self.broker = broker
        self.certificateAuthorityFile = certificateAuthorityFile
    }

    public func connect(
        _ request: ConnectionRequest, events: @escaping @Sendable (TransportEvent) -> Void
    ) async throws(TransportError) -> any TransportConnection {
        guard let wakeUp = WakeUp() else { throw TransportError(.unreachable, "no descriptors for the connection") }
        let settings = settings(request)
        return try await ThreadedConnection.connect(
            thread: { startDetachedThread($0) }, wake: wakeUp.wake, events: events
        ) { [cause] () throws(TransportError) in
            try MQTTThread(settings, request.topics, wakeUp) { cause($0, settings.broker.password) }
        }
    }

    private func settings(_ request: ConnectionRequest) -> MQTTConnection.Configuration {
        var broker = broker
        if broker.username == nil { broker.username = request.username }
        if let token = request.password { broker.password = token }
        var settings = MQTTConnection.Configuration(broker: broker, clientID: request.clientID)
        settings.certificateAuthorityFile = certificateAuthorityFile
        settings.keepAlive = UInt16(clamping: max(1, request.keepAlive.milliseconds / 1000))
        settings.longestAnswer = Self.longestAnswer
        settings.will = request.will.map { MQTTMessage(topic: $0.topic, payload: $0.payload) }
        return settings
    }

    /// How long the broker may take to show that it is there, in milliseconds.
    private static let longestAnswer: Int64 = 5_000
}

extension TransportError {
    init(_ error: MQTTError) {
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
