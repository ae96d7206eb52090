import BellwireClient

/// A transport that says how many messages are handed to it, so that a watcher of the wire knows for how many messages
/// to wait.
struct CountedTransport: BellwireTransport {
    private let transport: any BellwireTransport
    private let handed: @Sendable () -> Void

    init(_ transport: any BellwireTransport, handed: @escaping @Sendable () -> Void) {
        (self.transport, self.handed) = (transport, handed)
    }

    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        Connection(connection: try await transport.connect(request, events: events), handed: handed)
    }

    private struct Connection: BellwireTransportConnection {
        let connection: any BellwireTransportConnection
        let handed: @Sendable () -> Void

        func publish(_ message: BellwireOutgoingMessage) throws(BellwireTransportError) {
            try connection.publish(message)
            handed()
        }

        func probe() { connection.probe() }
        func close() async { await connection.close() }
    }
}
