import BellwireClient
import Testing

/// A single call at a time.
@Suite(.atEverySite) struct CallManagerTests {
    private let service = Everywhere.site()

    private func phone(_ user: String, _ policies: BellwireCallManager.Policies = .init()) async throws -> Telephone {
        try await Telephone(service, user, "phone", policies)
    }

    @Test(arguments: [CallMode.common, .advanced])
    func aCallGoesThroughItsStatesOnBothSides(mode: CallMode) async throws {
        var policies = BellwireCallManager.Policies()
        policies.mode = mode
        let (alice, bob) = (try await phone("alice", policies), try await phone("bob"))
        try await alice.manager.call([UserID("bob")!], media: "video")
        #expect(await alice.next() == "calling localCall")
        #expect(await bob.next() == "ringing remoteCall")
        try await bob.manager.accept()
        #expect(await bob.next() == "connecting localAccepted")
        #expect(await alice.next() == "connecting remoteAccepted")
        alice.manager.mediaConnected()
        #expect(await alice.next() == "connected mediaConnected")
        try await alice.manager.hangUp()
        #expect(await alice.next() == "idle localHangup")
        if mode == .advanced { #expect(await bob.next() == "idle remoteHangup") }
        #expect(alice.manager.state == .idle && alice.manager.call == nil)
    }

    @Test func whoRejectsAndWhoCancelsIsToldApart() async throws {
        let (alice, bob) = (try await phone("alice"), try await phone("bob"))
        try await alice.manager.call([UserID("bob")!])
        #expect(await bob.next() == "ringing remoteCall")
        try await bob.manager.reject()
        #expect(await bob.next() == "idle localRejected")
        #expect(await alice.next() == "calling localCall")
        #expect(await alice.next() == "idle remoteRejected")
        try await alice.manager.call([UserID("bob")!])
        #expect(await bob.next() == "ringing remoteCall")
        try await alice.manager.hangUp()
        #expect(await alice.next() == "calling localCall")
        #expect(await alice.next() == "idle localCancelled")
        #expect(await bob.next() == "idle remoteCancelled")
    }

    @Test func nobodyWhoIsInACallRingsASecondTime() async throws {
        let (alice, bob) = (try await phone("alice"), try await phone("bob"))
        let carol = try await phone("carol")
        try await alice.manager.call([UserID("bob")!])
        #expect(await bob.next() == "ringing remoteCall")
        try await carol.manager.call([UserID("bob")!])
        #expect(await carol.next() == "calling localCall")
        #expect(await carol.next() == "idle remoteBusy")
        #expect(bob.manager.state == .ringing && alice.manager.state == .calling)
        await #expect(throws: SignalingError.self) { try await bob.manager.call([UserID("carol")!]) }
    }

    @Test func whoWantsToBeToldOfWaitingCallsIs() async throws {
        var policies = BellwireCallManager.Policies()
        policies.busy = .tell
        let (alice, bob) = (try await phone("alice"), try await phone("bob", policies))
        let carol = try await phone("carol")
        try await alice.manager.call([UserID("bob")!])
        let waiting = bob.manager.waitingCalls
        #expect(await bob.next() == "ringing remoteCall")
        let call = try await carol.manager.call([UserID("bob")!])
        #expect(await waiting.first { _ in true }?.id == call.id)
        #expect(carol.manager.state == .calling)
    }

    @Test func twoWhoCallEachOtherAreConnected() async throws {
        let (alice, bob) = (try await phone("alice"), try await phone("bob"))
        async let one = try? alice.manager.call([UserID("bob")!])
        async let other = try? bob.manager.call([UserID("alice")!])
        _ = await (one, other)
        for phone in [alice, bob] {
            for await change in phone.changes {
                #expect(change.state != .idle)
                if change.state == .connecting { break }
            }
        }
        #expect(alice.manager.call?.id == bob.manager.call?.id)
    }

    @Test func aCallThatCannotBeMadeLeavesNothingBehind() async throws {
        let alice = try await phone("alice")
        await #expect(throws: SignalingError.self) { try await alice.manager.call([]) }
        #expect(await alice.next() == "calling localCall")
        #expect(await alice.next().hasPrefix("idle failed"))
        #expect(alice.manager.state == .idle)
        await #expect(throws: SignalingError.self) { try await alice.manager.accept() }
        try await alice.manager.hangUp()
    }
}
