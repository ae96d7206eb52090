import BellwireClientCore
import SignalingProtocol
import Synchronization

/// Loses invitations, as a network does, until a test stops the losses; also refuses connections when a test says so.
final class LosingTransport: BellwireTransport {
    /// How many invitations are still to be lost.
    private let left: Mutex<Int>
    private let transport: any BellwireTransport

    init(_ transport: any BellwireTransport, losing count: Int) {
        self.transport = transport
        left = Mutex(count)
    }

    /// The tokens of the connections that were tried.
    let tokens = Mutex<[String]>([])
    private let isRefusing = Mutex(false)

    /// The requests about pushes that were sent, each once.
    let pushRequests = Mutex<[Request]>([])

    func refuse(_ isRefusing: Bool) { self.isRefusing.withLock { $0 = isRefusing } }

    func loseNoMore() { left.withLock { $0 = 0 } }

    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        if let token = request.password { tokens.withLock { $0.append(token) } }
        if isRefusing.withLock(\.self) { throw BellwireTransportError(.refused, "Not authorized") }
        return Connection(transport: self, connection: try await transport.connect(request, events: events))
    }

    private func loses(_ message: BellwireOutgoingMessage) -> Bool {
        guard case .success(.request(let request)) = UpMessage.decode(message.payload) else { return false }
        note(request)
        guard case .invite = request.body else { return false }
        return left.withLock { left in
            guard left > 0 else { return false }
            left -= 1
            return true
        }
    }

    private func note(_ request: Request) {
        switch request.body {
        case .pushRegister, .pushUnregister:
            pushRequests.withLock { requests in
                if !requests.contains(where: { $0.id == request.id }) { requests.append(request) }
            }
        default: break
        }
    }

    private struct Connection: BellwireTransportConnection {
        let transport: LosingTransport
        let connection: any BellwireTransportConnection

        func publish(_ message: BellwireOutgoingMessage) throws(BellwireTransportError) {
            guard !transport.loses(message) else { return }
            try connection.publish(message)
        }

        func probe() { connection.probe() }

        func close() async { await connection.close() }
    }
}
