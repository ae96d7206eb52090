import BellwireClient
import Synchronization
import Testing

/// The client as an app uses it, over a service in memory.
@Suite(.atEverySite) struct ClientTests {
    private let service = Everywhere.site()

    private func online(_ user: String, device: String = "phone") async throws -> SignalingClient {
        let client = SignalingClient(service.configuration(user: user, device: device))
        try await client.connect()
        return client
    }

    // MARK: Calls

    @Test func aCallRingsIsAnsweredAndEnded() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let outgoing = try await alice.call(.init(invitees: [UserID("bob")!], mode: .advanced, media: "video"))
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        #expect(incoming.id == outgoing.id && incoming.media == "video" && !incoming.isOutgoing)
        let (here, there) = (outgoing.changes, incoming.changes)
        try await incoming.accept(extendedData: "hello")
        #expect(incoming.state == .active)
        let answer = await here.first { $0.member == "bob accepted" }
        guard case .member(let member, by: let actor)? = answer else { throw Missing() }
        #expect(member.extendedData == "hello" && actor == UserID("bob"))
        try await outgoing.end("bye")
        #expect(await there.contains { $0 == .ended(.hangup) })
        #expect(outgoing.state == .ended && bob.calls.isEmpty && alice.calls.isEmpty)
    }

    /// Each change is told once, the own changes too, whichever message names them.
    @Test func everyMembersChangeIsToldOnceAndTheOwnOneToo() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let outgoing = try await alice.call(.init(invitees: [UserID("bob")!, UserID("carol")!], mode: .advanced))
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        let (told, toldThere) = (Recorder(outgoing.changes), Recorder(incoming.changes))
        try await incoming.accept()
        service.breakConnections(of: "alice")
        service.breakConnections(of: "bob")
        try await outgoing.end()
        await told.ended()
        await toldThere.ended()
        let own = told.members.filter { $0.hasPrefix("bob") || $0.hasPrefix("alice") }
        #expect(own.filter { $0 == "alice accepted" }.count == 1)
        #expect(own.filter { $0 == "bob accepted" }.count == 1)
        #expect(toldThere.members.filter { $0 == "bob accepted" }.count == 1)
        #expect(told.changes.filter { $0 == .ended(.hangup) }.count == 1)
    }

    @Test func aCallThatNobodyAnswersEndsOnBothSides() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let outgoing = try await alice.call(.init(invitees: [UserID("bob")!], timeout: 1))
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        #expect(await incoming.changes.contains { $0 == .ended(.timeout) })
        #expect(await outgoing.changes.contains { $0 == .ended(.timeout) })
    }

    @Test func anotherDeviceThatAnswersStopsTheRinging() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let tablet = try await online("bob", device: "tablet")
        _ = try await alice.call(.init(invitees: [UserID("bob")!], mode: .advanced))
        let here = try #require(await bob.incomingCalls.first { _ in true })
        let there = try #require(await tablet.incomingCalls.first { _ in true })
        let changes = here.changes
        try await there.accept()
        #expect(await changes.contains { $0 == .handledElsewhere(DeviceID("tablet")) })
    }

    @Test func aCallSurvivesTheCoordinatorsDeath() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let outgoing = try await alice.call(.init(invitees: [UserID("bob")!], mode: .advanced))
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        service.replaceCoordinator()
        try await incoming.accept()
        #expect(await outgoing.changes.contains(.active))
    }

    @Test func whoLeavesIsOutOfTheCallThatGoesOn() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let carol = try await online("carol")
        let call = try await alice.call(.init(invitees: [UserID("bob")!, UserID("carol")!], mode: .advanced))
        let ofBob = try #require(await bob.incomingCalls.first { _ in true })
        let ofCarol = try #require(await carol.incomingCalls.first { _ in true })
        try await ofBob.accept()
        try await ofCarol.accept()
        let changes = ofBob.changes
        try await ofBob.quit()
        #expect(await changes.contains(.left))
        #expect(call.state == .active && bob.calls.isEmpty)
    }

    // MARK: A single order

    @Test func theOutcomeOfARequestComesBeforeTheEventsOfItsSuccess() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let order = Mutex<[String]>([])
        alice.observe { event in
            if case .snapshot = event { order.withLock { $0.append("snapshot") } }
        }
        let callID = SignalingClient.makeCallID()
        await withCheckedContinuation { waiter in
            alice.perform(.invite(.init(invitees: [UserID("bob")!], callID: callID))) { outcome in
                order.withLock { $0.append("outcome") }
                alice.perform(.cancel(.init(callID: callID))) { _ in
                    order.withLock { $0.append("second outcome") }
                    waiter.resume()
                }
                order.withLock { $0.append("end of callback") }
            }
        }
        #expect(order.withLock { Array($0.prefix(4)) } == ["outcome", "end of callback", "snapshot", "second outcome"])
        _ = bob
    }

    @Test func aClientSaysWhereItStandsInOrder() async throws {
        let client = SignalingClient(service.configuration(user: "alice"))
        let told = Mutex<[String]>([])
        client.observe { event in
            switch event {
            case .connection(let state): told.withLock { $0.append("\(state)") }
            case .online: told.withLock { $0.append("online") }
            case .snapshot: told.withLock { $0.append("call") }
            default: break
            }
        }
        let caller = try await online("bob")
        _ = try await caller.call(.init(invitees: [UserID("alice")!]))
        await withCheckedContinuation { waiter in
            client.connect { _ in
                told.withLock { $0.append("callback") }
                waiter.resume()
            }
        }
        _ = await client.incomingCalls.first { _ in true }
        #expect(told.withLock { Array($0.prefix(5)) } == ["connecting", "connected", "callback", "online", "call"])
    }

    @Test func everyReaderOfEventsHearsAllAndTheFirstWhatWasBefore() async throws {
        let alice = SignalingClient(service.configuration(user: "alice"))
        try await alice.connect()
        let first = alice.events
        #expect(await first.contains { $0 == .online })
        let (one, other) = (alice.events, alice.events)
        let bob = try await online("bob")
        _ = try await bob.call(.init(invitees: [UserID("alice")!]))
        for reader in [one, other] {
            #expect(await reader.contains { if case .event(let event) = $0 { event.name == .invited } else { false } })
        }
    }

    // MARK: Connecting

    @Test func connectWaitsForTheServiceAndFailsWithoutIt() async throws {
        service.goOffline()
        var configuration = service.configuration(user: "alice")
        configuration.connectTimeout = .milliseconds(300)
        let client = SignalingClient(configuration)
        await #expect(throws: SignalingError.self) { try await client.connect() }
        service.goOnline()
        let states = client.events
        #expect(await states.contains { $0 == .connection(.connected) }, "it goes on trying")
        try await client.connect()
    }

    @Test func whoIsReplacedIsToldAndDoesNotComeBack() async throws {
        let first = try await online("alice")
        let events = first.events
        let second = try await online("alice")
        #expect(await events.contains { $0 == .connection(.takenOver) })
        for await _ in events {}
        #expect(first.connectionState == .takenOver)
        // Where the broker gives no reason, the two clients have taken the device from each other some times.
        try await second.connect()
        await #expect(throws: SignalingError.self) { try await first.call(.init(invitees: [UserID("bob")!])) }
    }

    @Test func afterALossTheClientSaysWhyAndComesBack() async throws {
        let alice = try await online("alice")
        let events = alice.events
        service.breakConnections(of: "alice")
        var states: [BellwireConnectionState] = []
        for await case .connection(let state) in events {
            states.append(state)
            if states.count > 2, state == .connected { break }
        }
        #expect(states.first == .connecting && states.dropFirst().first == .connected)
        for state in states.dropFirst(2).dropLast() {
            guard case .reconnecting(let reason) = state else { throw Missing() }
            #expect(Everywhere.here == .memory ? reason == "the network is gone" : !reason.isEmpty)
        }
        #expect(states.count > 3)
    }

    // MARK: Heartbeats by hand

    @Test func anAppThatBeatsByHandIsOutWhenItStops() async throws {
        var timings = SiteTimings()
        timings.heartbeatTimeout = .milliseconds(1_500)
        timings.heartbeatInterval = .seconds(1)
        let service = Everywhere.site(timings)
        var configuration = service.configuration(user: "alice")
        configuration.sendsHeartbeats = false
        let (alice, bob) = (SignalingClient(configuration), SignalingClient(service.configuration(user: "bob")))
        try await alice.connect()
        try await bob.connect()
        let call = try await alice.call(.init(invitees: [UserID("bob")!], mode: .advanced))
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        try await incoming.accept()
        #expect(await call.changes.contains { $0 == .ended(.heartbeatTimeout) || $0 == .left })
    }
}

private struct Missing: Error {}

/// The changes of a call that were told, once the call is over.
private final class Recorder: Sendable {
    private let told = Mutex<[CallChange]>([])
    private let stream: AsyncStream<CallChange>

    init(_ changes: AsyncStream<CallChange>) { stream = changes }

    var changes: [CallChange] { told.withLock { $0 } }
    var members: [String] { changes.compactMap(\.member) }

    func ended() async { for await change in stream { told.withLock { $0.append(change) } } }
}

extension CallChange {
    fileprivate var member: String? {
        if case .member(let member, by: _) = self { "\(member.userID) \(member.state)" } else { nil }
    }
}
