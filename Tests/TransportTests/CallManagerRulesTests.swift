import BellwireClient
import Testing

/// A single call at a time, with several users and devices.
@Suite(.atEverySite) struct CallManagerRulesTests {
    private let service = Everywhere.site()
    private let bob = UserID("bob")!
    private let carol = UserID("carol")!

    private func phone(
        _ user: String, device: String = "phone", _ policies: BellwireCallManager.Policies = .init()
    ) async throws -> Telephone {
        try await Telephone(service, user, device, policies)
    }

    /// Alice's phone talks with Bob's.
    private func talking(_ alice: Telephone, _ bob: Telephone) async throws {
        try await alice.manager.call([self.bob])
        #expect(await bob.next() == "ringing remoteCall")
        try await bob.manager.accept()
        #expect(await bob.next() == "connecting localAccepted")
    }

    @Test func aPhoneRingsOnWhenSomebodyElseAnswers() async throws {
        let (alice, bob, carol) = (try await phone("alice"), try await phone("bob"), try await phone("carol"))
        try await alice.manager.call([self.bob, self.carol])
        #expect(await bob.next() == "ringing remoteCall")
        #expect(await carol.next() == "ringing remoteCall")
        let ringing = try #require(carol.manager.call)
        try await bob.manager.accept()
        try await ringing.waitUntilActive()
        #expect(carol.manager.state == .ringing)
        try await alice.manager.call?.cancel([self.carol])
        #expect(await carol.next() == "idle remoteCancelled")
    }

    @Test func whoIsAddedToACallRings() async throws {
        let (alice, bob, carol) = (try await phone("alice"), try await phone("bob"), try await phone("carol"))
        try await talking(alice, bob)
        try await alice.manager.call?.add([self.carol])
        #expect(await carol.next() == "ringing remoteCall")
        try await carol.manager.reject()
        #expect(await carol.next() == "idle localRejected")
    }

    @Test(arguments: [CallMode.common, .advanced])
    func anAnswerOnAnotherDeviceEndsTheRinging(mode: CallMode) async throws {
        var policies = BellwireCallManager.Policies()
        policies.mode = mode
        let (alice, bob) = (try await phone("alice", policies), try await phone("bob"))
        let tablet = try await phone("bob", device: "tablet")
        try await alice.manager.call([self.bob])
        #expect(await bob.next() == "ringing remoteCall")
        #expect(await tablet.next() == "ringing remoteCall")
        try await tablet.manager.accept()
        #expect(await tablet.next() == "connecting localAccepted")
        #expect(await bob.next() == "idle handledElsewhere")
    }

    @Test func aRejectionOnAnotherDeviceEndsTheRinging() async throws {
        let (alice, bob) = (try await phone("alice"), try await phone("bob"))
        let tablet = try await phone("bob", device: "tablet")
        try await alice.manager.call([self.bob])
        #expect(await bob.next() == "ringing remoteCall")
        #expect(await tablet.next() == "ringing remoteCall")
        try await tablet.manager.reject()
        #expect(await bob.next() == "idle handledElsewhere")
    }

    @Test func whoHangsUpBeforeTheServiceHasAnsweredRingsNobody() async throws {
        let (alice, carol) = (try await phone("alice"), try await phone("carol"))
        service.goOffline()
        async let call = alice.manager.call([self.bob])
        #expect(await alice.next() == "calling localCall")
        async let hungUp: Void = alice.manager.hangUp()
        service.goOnline()
        try await hungUp
        #expect(try await call.state == .ended)
        #expect(await alice.next() == "idle localCancelled")
        // Bob comes online only now: his phone would ring while the cancel is on its way.
        let bob = try await phone("bob")
        try await carol.manager.call([self.bob])
        #expect(await bob.next() == "ringing remoteCall")
        #expect(bob.manager.call?.inviter == self.carol)
    }

    @Test func ofSeveralWhoTalkOneLeavesAndTheOthersGoOn() async throws {
        let (alice, bob, carol) = (try await phone("alice"), try await phone("bob"), try await phone("carol"))
        try await talking(alice, bob)
        try await alice.manager.call?.add([self.carol])
        #expect(await carol.next() == "ringing remoteCall")
        try await carol.manager.accept()
        #expect(await carol.next() == "connecting localAccepted")
        try await alice.manager.hangUp()
        #expect(carol.manager.call?.state == .active)
        try await carol.manager.hangUp()
        #expect(await bob.next() == "idle remoteHangup")
        #expect(await carol.next() == "idle localHangup")
    }

    @Test func aCallThatWaitsIsTaken() async throws {
        var policies = BellwireCallManager.Policies()
        policies.busy = .tell
        let (alice, bob) = (try await phone("alice"), try await phone("bob", policies))
        let carol = try await phone("carol")
        try await talking(alice, bob)
        let waiting = bob.manager.waitingCalls
        try await carol.manager.call([self.bob])
        let call = try #require(await waiting.first { _ in true })
        #expect(throws: SignalingError.self) { try bob.manager.take(call) }
        try await bob.manager.hangUp()
        #expect(await bob.next() == "idle localHangup")
        try bob.manager.take(call)
        #expect(await bob.next() == "ringing remoteCall")
        try await bob.manager.accept()
        #expect(await bob.next() == "connecting localAccepted")
        #expect(throws: SignalingError.self) { try bob.manager.take(call) }
    }

    /// Alice gives up in the moment in which Bob answers: whichever act wins, no user is left talking alone.
    @Test(arguments: 0..<20)
    func hangingUpAndAnsweringAtTheSameMoment(_ run: Int) async throws {
        let (alice, bob) = (try await phone("alice"), try await phone("bob"))
        let call = try await alice.manager.call([self.bob])
        #expect(await bob.next() == "ringing remoteCall")
        async let hungUp: Void = alice.manager.hangUp()
        async let accepted: Void? = try? bob.manager.accept()
        _ = await accepted
        try await hungUp
        #expect(alice.manager.state == .idle && call.state == .ended)
        for await change in bob.changes where change.state == .idle { break }
    }

    @Test func sequencesEndWithTheClient() async throws {
        let alice = try await phone("alice")
        await alice.client.disconnect()
        #expect(await alice.next() == "none")
        #expect(await alice.manager.waitingCalls.first { _ in true } == nil)
    }
}

/// A client, its manager, and the changes that the manager tells.
struct Telephone {
    let client: SignalingClient
    let manager: BellwireCallManager
    let changes: AsyncStream<BellwireCallManager.Change>

    init(_ service: any Site, _ user: String, _ device: String, _ policies: BellwireCallManager.Policies) async throws {
        client = SignalingClient(service.configuration(user: user, device: device))
        manager = BellwireCallManager(client, policies: policies)
        changes = manager.changes
        try await client.connect()
    }

    /// The next change, in short.
    func next() async -> String {
        guard let change = await changes.first(where: { _ in true }) else { return "none" }
        return "\(change.state) \(change.reason)"
    }
}
