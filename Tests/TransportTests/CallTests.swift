import BellwireClient
import Synchronization
import Testing

/// A `BellwireCall` in the less usual moments of its life.
@Suite(.atEverySite) struct CallTests {
    private let service = Everywhere.site()
    private let bob = UserID("bob")!

    private func online(_ user: String, device: String = "phone") async throws -> SignalingClient {
        let client = SignalingClient(service.configuration(user: user, device: device))
        try await client.connect()
        return client
    }

    @Test func severalUsersAreCalledByTheirIDs() async throws {
        let (alice, bob, carol) = (try await online("alice"), try await online("bob"), try await online("carol"))
        let call = try await alice.call(["bob", "carol"], media: "video", timeout: 30, extendedData: "party")
        for invitee in [bob, carol] {
            let incoming = try #require(await invitee.incomingCalls.first { _ in true })
            #expect(incoming.id == call.id && incoming.media == "video" && incoming.snapshot.timeout == 30)
            #expect(incoming.snapshot.mode == .advanced && incoming.snapshot.extendedData == "party")
        }
        let error = await #expect(throws: SignalingError.self) { try await alice.call(["bob", ""]) }
        #expect(error?.code == .badRequest)
    }

    @Test func theInviterLearnsWhoHasNoDeviceOnline() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let call = try await alice.call(["bob", "dave"])
        #expect(call.offlineInvitees == [UserID("dave")!])
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        #expect(incoming.offlineInvitees.isEmpty)
    }

    @Test func theLogTellsTheLifeOfACall() async throws {
        let lines = Mutex<[String]>([])
        var configuration = service.configuration(user: "bob")
        configuration.log = { level, line in lines.withLock { $0.append("\(level) \(line)") } }
        let (alice, bob) = (try await online("alice"), SignalingClient(configuration))
        try await bob.connect()
        let call = try await alice.call("bob")
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        try await incoming.accept()
        service.breakConnections(of: "bob")
        for await event in bob.events { if case .connection(.reconnecting) = event { break } }
        await bob.disconnect()
        let written = lines.withLock(\.self)
        for line in [
            "debug the broker has granted the subscriptions", "info connection: connected",
            "debug call.invited of call \(call.id), revision 1", "info connection: reconnecting",
            "info connection: disconnected",
        ] {
            #expect(written.contains(line), "\(line) in \(written)")
        }
        #expect(written.contains { $0.hasPrefix("info the connection has ended: ") })
        let accept = try #require(written.first { $0.hasSuffix("begins: call.accept") }).split(separator: " ")[2]
        #expect(written.contains("debug request \(accept) has succeeded"))
    }

    @Test func aViewShowsTheNewestStateUntilTheEnd() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let call = try await alice.call(.init(invitees: [self.bob], mode: .advanced))
        let present = call.snapshots
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        try await incoming.accept()
        #expect(await present.contains { $0.state == .active })
        let late = call.snapshots
        try await incoming.end()
        var last: CallSnapshot?
        for await now in present { last = now }
        #expect(last?.state == .ended && last?.endReason == .hangup)
        #expect(await late.contains { $0.state == .ended })
        // The readers of `changes` miss nothing, and a view of a call that is over has its last state.
        #expect(await call.changes.contains(.active))
        var over = call.snapshots.makeAsyncIterator()
        #expect(await over.next()?.endReason == .hangup)
        #expect(await over.next() == nil)
    }

    @Test func anInvitationWhoseTimePassesUnheardEndsWhenTheServiceTells() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        _ = try await alice.call(.init(invitees: [self.bob], timeout: 1))
        let incoming = try #require(await bob.incomingCalls.first { _ in true })
        service.goOffline()
        let changes = incoming.changes
        #expect(await changes.contains(.invitationExpired))
        #expect(bob.calls.isEmpty && bob[incoming.id] == nil)
        service.goOnline()
        #expect(await changes.contains(.ended(nil)))
        #expect(await changes.first { _ in true } == nil)
    }

    /// Bob answers on his tablet and leaves there; his phone is told nothing of this.
    @Test func whoIsInvitedAgainRingsAgain() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let tablet = try await online("bob", device: "tablet")
        let calls = bob.incomingCalls
        let call = try await alice.call(.init(invitees: [self.bob], mode: .advanced, autoEnd: false))
        let first = try #require(await calls.first { _ in true })
        let onTablet = try #require(await tablet.incomingCalls.first { _ in true })
        try await onTablet.accept()
        try await onTablet.quit()
        try await call.add([self.bob])
        let again = try #require(await calls.first { _ in true })
        #expect(again.id == first.id && again != first)
        #expect(await first.changes.contains(.left))
        try await again.accept()
        #expect(again.ownMember?.device == DeviceID("phone"))
    }

    @Test func ofACallThatIsAnsweredElsewhereItIsSaidBeforeItsEnd() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let tablet = try await online("bob", device: "tablet")
        _ = try await alice.call(.init(invitees: [self.bob], mode: .common))
        let here = try #require(await bob.incomingCalls.first { _ in true })
        let there = try #require(await tablet.incomingCalls.first { _ in true })
        try await there.accept()
        var ends: [CallChange] = []
        for await change in here.changes {
            switch change {
            case .handledElsewhere, .ended: ends.append(change)
            case .member, .active, .invitationExpired, .signal, .left: break
            }
        }
        #expect(ends == [.handledElsewhere(DeviceID("tablet")), .ended(.answered)])
    }

    @Test func aCallWhoseInviteesAreAllBusyIsOverWhenItIsMade() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let carol = try await online("carol")
        _ = try await carol.call(.init(invitees: [self.bob], mode: .advanced))
        try await bob.incomingCalls.first { _ in true }?.accept()
        let call = try await alice.call(.init(invitees: [self.bob], mode: .advanced, ifBusy: .reject))
        #expect(await call.changes.contains(.ended(.busy)))
        await #expect(throws: SignalingError.self) { try await call.waitUntilActive() }
        try await call.hangUp()
    }

    @Test func aCallThatWasOverBeforeAnybodyLookedIsNotAmongTheIncomingOnes() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let first = try await alice.call(.init(invitees: [self.bob]))
        let told = bob.events
        try await first.cancel()
        for await case .event(let event) in told where event.call.state == .ended { break }
        let second = try await alice.call(.init(invitees: [self.bob]))
        #expect(await bob.incomingCalls.first { _ in true }?.id == second.id)
    }

    @Test func whoeverWaitsForAnAnswerTakesNothingFromTheReaders() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        let call = try await alice.call("bob")
        async let isActive: Void = call.waitUntilActive()
        try await bob.incomingCalls.first { _ in true }?.accept()
        try await isActive
        #expect(await call.changes.contains(.active))
        let dave = try await online("dave")
        let waiting = Task { try await dave.call("nobody").waitUntilActive() }
        waiting.cancel()
        let failure = await #expect(throws: SignalingError.self) { try await waiting.value }
        #expect(failure?.code == .cancelled)
    }

    /// The quit is with a coordinator that does not answer, and another coordinator would judge the invitation.
    @Test func whoHangsUpAndCallsAtOnceIsNotToldOfTheFirstCall() async throws {
        let forgetful = Forgetful("call.quit")
        var configuration = service.configuration(user: "alice")
        configuration.transport = forgetful.carrying(configuration.transport)
        let (alice, bob) = (SignalingClient(configuration), try await online("bob"))
        let carol = try await online("carol")
        try await alice.connect()
        let first = try await alice.call("bob")
        try await bob.incomingCalls.first { _ in true }?.accept()
        try await first.waitUntilActive()
        let leaving = Task { try await first.quit() }
        try await eventually { forgetful.hasForgotten }
        let second = Task { try await alice.call("carol") }
        // The app gives up waiting, and not the call: the invitation leaves once the quit is answered.
        second.cancel()
        try await leaving.value
        let call = try await second.value
        #expect(await carol.incomingCalls.first { _ in true }?.id == call.id)
    }

    @Test func aMessageIsDeliveredWhenADeviceHasIt() async throws {
        let (alice, bob) = (try await online("alice"), try await online("bob"))
        try await alice.deliver(JSONText(string: "hello"), to: self.bob, isOrdered: true)
        let message = await bob.events.first { if case .message = $0 { true } else { false } }
        guard case .message(let message)? = message else { throw Missing() }
        #expect(message.data == JSONText(string: "hello") && message.seq == 1)
        let nobody = UserID("nobody")!
        let failure = await #expect(throws: SignalingError.self) {
            try await alice.deliver(JSONText(string: "hello"), to: nobody, within: .seconds(1))
        }
        #expect(failure?.code == .notDelivered)
        let late = Task { try await alice.deliver(JSONText(string: "hello"), to: nobody) }
        await alice.disconnect()
        await #expect(throws: SignalingError.self) { try await late.value }
    }

    @Test func aPushTokenIsRegisteredAndForgotten() async throws {
        let alice = try await online("alice")
        let failure = await #expect(throws: SignalingError.self) {
            try await alice.registerPush(.apnsVoIP, .token("00ff"))
        }
        // This service is set up for no provider.
        #expect(failure?.code == .badRequest)
        try await alice.unregisterPush()
    }

    private struct Missing: Error {}
}

/// Loses the first request of a type.
private final class Forgetful: Sendable {
    private let type: String
    private let forgotten = Mutex(false)

    init(_ type: String) { self.type = "\"type\":\"\(type)\"" }

    var hasForgotten: Bool { forgotten.withLock { $0 } }

    func carrying(_ transport: any BellwireTransport) -> any BellwireTransport {
        Carrying(carrier: transport, forgetful: self)
    }

    private func forgets(_ message: BellwireOutgoingMessage) -> Bool {
        guard String(decoding: message.payload, as: UTF8.self).contains(type) else { return false }
        return forgotten.withLock { forgotten in
            defer { forgotten = true }
            return !forgotten
        }
    }

    private struct Carrying: BellwireTransport {
        let carrier: any BellwireTransport
        let forgetful: Forgetful

        func connect(
            _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
        ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
            Carried(link: try await carrier.connect(request, events: events), forgetful: forgetful)
        }
    }

    private struct Carried: BellwireTransportConnection {
        let link: any BellwireTransportConnection
        let forgetful: Forgetful

        func publish(_ message: BellwireOutgoingMessage) throws(BellwireTransportError) {
            if !forgetful.forgets(message) { try link.publish(message) }
        }
        func probe() { link.probe() }
        func close() async { await link.close() }
    }
}
