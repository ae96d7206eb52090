import BellwireClientCore
import MQTTProtocol

extension MQTTTransport {
    public func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        let settings = settings(request)
        return try await NetworkConnection.connect(settings, request.topics, QoS(request.qos), events: events) {
            [cause] error in BellwireTransportError(error.because(cause(error, settings.broker.password)))
        }
    }
}
