import BellwireClientCore
import MQTTClient
import Support

extension MQTTTransport {
    public func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        guard let wakeUp = WakeUp() else {
            throw BellwireTransportError(.unreachable, "no descriptors for the connection")
        }
        let settings = settings(request)
        return try await ThreadedConnection.connect(
            thread: { startDetachedThread($0) }, wake: wakeUp.wake, events: events
        ) { [cause] () throws(BellwireTransportError) in
            try MQTTThread(settings, request, wakeUp) { cause($0, settings.broker.password) }
        }
    }
}
