import BellwireClientCore
import BellwireTestKit
import SignalingProtocol
import Synchronization
import Testing

/// `BellwireCall.mediaSession` and `renewMediaSession`, against the coordinator's own code.
@Suite struct MediaSessionTests {
    private let service: TestService
    private let bob = UserID("bob")!

    init() {
        let made = Counter()
        service = TestService { callID, user, device in
            BellwireMediaSession(
                server: "sfu", type: "livekit", url: "wss://sfu", room: callID.string,
                token: "\(user)/\(device) \(made.next())", expiresAt: 600_000)
        }
    }

    private final class Counter: Sendable {
        private let count = Atomic(0)
        func next() -> Int { count.wrappingAdd(1, ordering: .relaxed).newValue }
    }

    private func online(_ user: String, device: String = "phone", of service: TestService? = nil) async throws
        -> SignalingClient
    {
        let client = SignalingClient((service ?? self.service).configuration(user: user, device: device))
        try await client.connect()
        return client
    }

    @Test func inviterAndAnswererHaveSessions() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let call = try await alice.call(.init(invitees: [self.bob], mode: .advanced))
        #expect(call.mediaSession?.token == "alice/phone 1")
        #expect(call.mediaSession?.room == call.id.string)
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        #expect(incoming.mediaSession == nil)
        try await incoming.accept()
        #expect(incoming.mediaSession?.token == "bob/phone 2")
        let renewed = try await incoming.renewMediaSession()
        #expect(renewed.token == "bob/phone 3")
        #expect(incoming.mediaSession == renewed)
        try await call.end()
        await #expect(throws: SignalingError.self) { try await incoming.renewMediaSession() }
        #expect(incoming.mediaSession == renewed, "the newest one")
    }

    @Test func aCommonCallThatTheAnswerEndsHasASession() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let call = try await alice.call(.init(invitees: [self.bob]))
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        try await incoming.accept()
        #expect(incoming.endReason == .answered)
        #expect(incoming.mediaSession?.token == "bob/phone 2")
        #expect(try await call.renewMediaSession().token == "alice/phone 3")
    }

    @Test func requestsOfTheClientBringSessionsToo() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        _ = try await alice.invite(.init(invitees: [self.bob], mode: .advanced))
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        let response = try await bob.accept(incoming.id)
        #expect(response.mediaSession != nil)
        #expect(incoming.mediaSession == response.mediaSession)
        #expect(alice[incoming.id]?.mediaSession?.token == "alice/phone 1")
    }

    /// The welcome of a device that comes back has the session of its call.
    @Test func aReconnectBringsANewSession() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let call = try await alice.call(.init(invitees: [self.bob], mode: .advanced))
        try await bob.incomingCalls.first { _ in true }?.accept()
        let first = call.mediaSession
        service.breakConnections(of: "alice")
        for await event in alice.events {
            if case .online = event, call.mediaSession != first { break }
        }
        #expect(call.mediaSession?.token.hasPrefix("alice/phone ") == true)
        #expect(call.mediaSession != first)
    }

    @Test func anAppThatWasRestartedHasTheSessionOfItsCall() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let call = try await alice.call(.init(invitees: [self.bob], mode: .advanced))
        try await bob.incomingCalls.first { _ in true }?.accept()
        let restarted = try await online("alice")
        #expect(restarted[call.id]?.mediaSession?.token.hasPrefix("alice/phone ") == true)
    }

    @Test func withoutAMediaServerThereIsNoSession() async throws {
        let service = TestService()
        let (alice, bob) = (try await online("alice", of: service), try await online("bob", of: service))
        let call = try await alice.call(.init(invitees: [self.bob], mode: .advanced))
        #expect(call.mediaSession == nil)
        try await bob.incomingCalls.first { _ in true }?.accept()
        await #expect { try await call.renewMediaSession() } throws: { ($0 as? SignalingError)?.code == .noMedia }
    }
}
