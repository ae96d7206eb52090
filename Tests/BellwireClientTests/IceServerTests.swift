import BellwireClientCore
import SignalingProtocol
import Testing

/// The deployment's TURN servers, as a welcome tells them.
@Suite struct IceServerTests {
    private let server = BellwireIceServer(
        urls: ["turn:turn.example.com"], username: "1790000000:alice", credential: "secret")

    @Test func theyAreThoseOfTheWelcome() async throws {
        let transport = WelcomingTransport(iceServers: [server])
        let client = SignalingClient(try .init(user: "alice", device: "phone", transport: transport))
        #expect(client.iceServers.isEmpty)
        try await client.connect()
        #expect(client.iceServers == [server])
        await client.disconnect()
    }
}

/// A broker whose service answers presence only.
private struct WelcomingTransport: BellwireTransport {
    let iceServers: [BellwireIceServer]

    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        Connection(iceServers: iceServers, events: events)
    }

    private struct Connection: BellwireTransportConnection {
        let iceServers: [BellwireIceServer]
        let events: @Sendable (BellwireTransportEvent) -> Void

        func publish(_ message: BellwireOutgoingMessage) {
            guard case .success(let presence) = PresenceMessage.decode(message.payload) else { return }
            let welcome = Welcome(
                session: presence.session, serverTime: 0, heartbeatInterval: 20, heartbeatTimeout: 60, calls: [],
                iceServers: iceServers)
            events(.received(payload: DownMessage.welcome(welcome).encoded(), isRetained: false))
        }

        func close() async {}
    }
}
