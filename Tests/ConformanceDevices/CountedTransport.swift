import BellwireClient

/// A transport that says how many messages are handed to it: whoever watches the wire knows then for how many to wait.
struct CountedTransport: Transport {
    private let transport: any Transport
    private let handed: @Sendable () -> Void

    init(_ transport: any Transport, handed: @escaping @Sendable () -> Void) {
        (self.transport, self.handed) = (transport, handed)
    }

    func connect(
        _ request: ConnectionRequest, events: @escaping @Sendable (TransportEvent) -> Void
    ) async throws(TransportError) -> any TransportConnection {
        Connection(connection: try await transport.connect(request, events: events), handed: handed)
    }

    private struct Connection: TransportConnection {
        let connection: any TransportConnection
        let handed: @Sendable () -> Void

        func publish(_ message: OutgoingMessage) throws(TransportError) {
            try connection.publish(message)
            handed()
        }

        func probe() { connection.probe() }
        func close() async { await connection.close() }
    }
}
