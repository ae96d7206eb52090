import BellwireClient
import BellwireTestKit
import CallKit
import Foundation
import PushKit
import SignalingProtocol
import Synchronization
import Testing

@testable import BellwireCallKit

/// Bob's iPhone at a service in memory, with stand-ins for CallKit and PushKit.
@MainActor final class Phone {
    let service: TestService
    let client: SignalingClient
    let line: Line
    let manager: BellwireCallManager
    let callKit: BellwireCallKit
    let checks = Checks()
    let provider: CXProvider
    let registry: PKPushRegistry
    /// Clients of the test that go on until its end.
    var others: [SignalingClient] = []

    init(_ service: TestService, _ policies: BellwireCallManager.Policies = .init()) throws {
        self.service = service
        var configuration = service.configuration(user: "bob")
        line = Line(configuration.transport)
        configuration.transport = line
        client = SignalingClient(configuration)
        manager = BellwireCallManager(client, policies: policies)
        let checks = checks
        callKit = BellwireCallKit(manager, CXProviderConfiguration(), .standard) { url, rejects in
            await checks.answer(url, rejects)
        }
        provider = try #require(CXProvider.made)
        registry = try #require(PKPushRegistry.made)
    }

    func push(_ call: BellwireCall, check: String? = nil) {
        var content: [String: Any] = [
            "kind": "ring", "callID": call.id.string, "revision": 1, "inviter": "alice", "name": "Alice",
        ]
        if let check { content["check"] = check }
        let isDone = Flag()
        registry.delegate?.pushRegistry(
            registry, didReceiveIncomingPushWith: PKPushPayload(["bellwire": content]), for: .voIP
        ) { isDone.isSet = true }
        #expect(isDone.isSet)
    }
}

/// The way between a phone and its service: remembers the phone's requests, each once, and may hold messages back.
final class Line: BellwireTransport {
    private struct Held {
        let message: DownMessage?
        let deliver: @Sendable () -> Void
    }

    private struct State {
        var requests: [Request] = []
        var isHolding = false
        var held: [Held] = []
        var connections = 0
        /// The connections up to this number carry nothing.
        var frozen = 0
    }

    private let transport: any BellwireTransport
    private let state = Mutex(State())

    init(_ transport: any BellwireTransport) { self.transport = transport }

    var requests: [Request.Body] { state.withLock { $0.requests.map(\.body) } }

    /// The present connection carries nothing from now on, as in a phone that has slept. A sign of life that the phone
    /// asks for ends the connection.
    func freeze() { state.withLock { $0.frozen = $0.connections } }

    /// Holds the messages to the phone back.
    func hold() { state.withLock { $0.isHolding = true } }

    func holds(_ isMeant: (DownMessage) -> Bool) -> Bool {
        state.withLock { $0.held.contains { $0.message.map(isMeant) ?? false } }
    }

    /// Delivers those of the messages that were held back.
    func deliver(_ isMeant: (DownMessage) -> Bool) {
        let chosen = state.withLock { state in
            let chosen = state.held.filter { $0.message.map(isMeant) ?? false }
            state.held.removeAll { $0.message.map(isMeant) ?? false }
            return chosen
        }
        for held in chosen { held.deliver() }
    }

    /// Delivers all messages from now on.
    func release() {
        let held = state.withLock { state in
            defer { (state.isHolding, state.held) = (false, []) }
            return state.held
        }
        for one in held { one.deliver() }
    }

    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        let number = state.withLock { state in
            state.connections += 1
            return state.connections
        }
        let connection = try await transport.connect(request) { [self] in received($0, number, events) }
        return Connection(connection: connection, number: number, line: self, events: events)
    }

    private func received(
        _ event: BellwireTransportEvent, _ number: Int, _ events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) {
        guard !isFrozen(number) else { return }
        guard case .received(let payload, _) = event else { return events(event) }
        let isHeld = state.withLock { state in
            if state.isHolding { state.held.append(Held(message: DownMessage.decode(payload)) { events(event) }) }
            return state.isHolding
        }
        if !isHeld { events(event) }
    }

    fileprivate func isFrozen(_ number: Int) -> Bool { state.withLock { number <= $0.frozen } }

    fileprivate func add(_ request: Request) {
        state.withLock { state in
            if !state.requests.contains(where: { $0.id == request.id }) { state.requests.append(request) }
        }
    }

    private struct Connection: BellwireTransportConnection {
        let connection: any BellwireTransportConnection
        let number: Int
        let line: Line
        let events: @Sendable (BellwireTransportEvent) -> Void

        func publish(_ message: BellwireOutgoingMessage) throws(BellwireTransportError) {
            guard !line.isFrozen(number) else { return }
            if case .success(.request(let request)) = UpMessage.decode(message.payload) { line.add(request) }
            try connection.publish(message)
        }

        func probe() {
            guard line.isFrozen(number) else { return connection.probe() }
            events(.closed(BellwireTransportError(.lost(isClean: false), "no sign of life")))
        }

        func close() async {
            if !line.isFrozen(number) { await connection.close() }
        }
    }
}

private final class Flag: @unchecked Sendable { var isSet = false }

/// The ring checks of the tests.
actor Checks {
    private var state: RingCheckAnswer?
    private(set) var rejected: [String] = []

    func answers(_ state: RingCheckAnswer) { self.state = state }

    func answer(_ url: URL, _ rejects: Bool) -> RingCheckAnswer? {
        if rejects { rejected.append(url.absoluteString) }
        return state
    }
}
