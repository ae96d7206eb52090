import CallCore
import CallStore
import Coordinator
import SignalingProtocol
import Testing

/// Two users ring each other (docs/protocol.md, section 3, Glare).
struct GlareTests {
    let world = World()
    let alice: Phone
    let bob: Phone

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
        _ = world.lines()
    }

    private func merge(_ invite: inout Request.Invite) { invite.glare = .merge }

    @Test func theSecondInviteAcceptsTheFirst() throws {
        alice.invite("bob", callID: "a", mode: .advanced)
        _ = world.lines()
        let outcome = bob.invite("alice", callID: "b", change: merge)
        #expect(world.lines() == ["alice/phone call.userStateChanged 3", "bob/phone ok 3 merged"])
        let call = try #require(outcome?.call)
        #expect(call.callID == CallID("a"))
        #expect(call.state == .active)
        #expect(call.state(of: "bob") == .accepted)
        #expect(alice.names == [.userStateChanged, .userStateChanged])
    }

    @Test func mergedOutcomeCarriesOfflineLikeEveryInvite() {
        alice.invite("bob", callID: "a")
        #expect(bob.invite("alice", callID: "b", change: merge)?.success?.offline == [])
    }

    @Test func theLaterRequestsFlagDecides() {
        alice.invite("bob", callID: "a", change: merge)
        #expect(bob.invite("alice", callID: "b")?.success?.merged == false)
        #expect(world.stored(CallID("b")!)?.state == .ringing)
        #expect(alice.names.last == .invited)
    }

    @Test(arguments: [CallMode.common, .advanced])
    func aResentInviteFindsTheMergedCall(_ mode: CallMode) {
        let id = RequestID("again")!
        alice.invite("bob", callID: "a", mode: mode)
        let first = bob.invite("alice", callID: "b", id: id, change: merge)
        #expect(bob.invite("alice", callID: "b", id: id, change: merge) == first)
        world.pass(seconds: 100)
        #expect(bob.invite("alice", callID: "b", id: id, change: merge)?.success?.merged == true)
        #expect(alice.names.allSatisfy { $0 == .userStateChanged }, "nobody rings twice")
    }

    @Test func aResentInviteIsStillMergedAfterManyOtherRequests() {
        var settings = ServiceSettings()
        settings.calls.oneActiveCall = false
        let world = World(settings)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        let id = RequestID("again")!
        alice.invite("bob", callID: "a", mode: .advanced)
        bob.invite("alice", callID: "b", id: id, change: merge)
        for round in 0..<20 {
            if round % 2 == 0 { bob.add("carol", callID: "a") } else { bob.cancel("a", invitees: ["carol"]) }
        }
        let again = bob.invite("alice", callID: "b", id: id, change: merge)
        #expect(again?.call?.callID == CallID("a"))
        #expect(!alice.names.contains(.invited), "a repeated request changes nothing, however late it comes")
    }

    @Test func aCancelOfTheAliasEndsTheMergedAdvancedCall() {
        alice.invite("bob", callID: "a", mode: .advanced)
        bob.invite("alice", callID: "b", change: merge)
        let outcome = bob.cancel("b")
        #expect(outcome?.call?.callID == CallID("a"))
        #expect(outcome?.call?.endReason == .hangup)
        #expect(alice.names.last == .ended)
        #expect(bob.cancel("b")?.code == .callEnded)
    }

    @Test func aCancelOfTheAliasOfAnAnsweredCommonCallTellsThatItWasAnswered() {
        alice.invite("bob", callID: "a")
        bob.invite("alice", callID: "b", change: merge)
        let error = bob.cancel("b")?.error
        #expect(error?.code == .invalidState)
        #expect(error?.state == "accepted")
    }

    @Test func anAliasIsAUsedCallID() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", callID: "a")
        bob.invite("alice", callID: "b", change: merge)
        #expect(bob.invite("carol", callID: "b")?.code == .callExists)
        #expect(carol.invite("alice", callID: "b")?.code == .callExists)
        #expect(carol.get("b")?.code == .callNotFound)
        #expect(carol.cancel("b")?.code == .callNotFound)
    }

    @Test func onlyACallOfTheTwoAloneMerges() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", "carol", callID: "a")
        #expect(bob.invite("alice", callID: "b", change: merge)?.success?.merged == false)
        carol.invite("alice", callID: "c1")
        #expect(alice.invite("carol", "dave", callID: "c2", change: merge)?.success?.merged == false)
    }

    @Test func aCallThatIsOverDoesNotMerge() {
        alice.invite("bob", callID: "a")
        alice.cancel("a")
        #expect(bob.invite("alice", callID: "b", change: merge)?.success?.merged == false)
        #expect(alice.names.last == .invited)
    }

    @Test func aCallThatWasAnsweredDoesNotMerge() {
        alice.invite("bob", callID: "a", mode: .advanced)
        bob.accept("a")
        let web = world.phone("bob/web")
        #expect(web.invite("alice", callID: "b", change: merge)?.code == .alreadyInCall)
    }

    @Test func oneWhoIsInAnotherCallCannotMerge() {
        let carol = world.phone("carol/phone")
        carol.invite("bob", callID: "x", mode: .advanced)
        bob.accept("x")
        alice.invite("bob", callID: "a", mode: .advanced)
        #expect(bob.invite("alice", callID: "b", change: merge)?.error?.callID == CallID("x"))
    }

    @Test func bothInOneBatchMakeOneCall() {
        world.send([
            alice.up(.invite(.init(invitees: [bob.user], callID: CallID("a")!, glare: .merge))),
            bob.up(.invite(.init(invitees: [alice.user], callID: CallID("b")!, glare: .merge))),
        ])
        #expect(world.stored(CallID("a")!)?.endReason == .answered)
        #expect(world.lines().contains { $0.hasPrefix("bob/phone ok") && $0.hasSuffix("merged") })
        #expect(!alice.names.contains(.invited))
    }

    // MARK: Two coordinators

    /// Each coordinator gathered its facts before the other coordinator wrote.
    @Test(arguments: [CallMode.common, .advanced])
    func atTheSameInstantOnTwoCoordinatorsOneCallIsMade(_ mode: CallMode) throws {
        let race = Race()
        let (world, alice, bob) = (race.world, race.alice, race.bob)
        let invite = Request.Invite(invitees: [alice.user], callID: CallID("b")!, mode: mode, glare: .merge)
        race.intrude(bob.up(.invite(invite)))
        let outcome = try #require(alice.invite("bob", callID: "a", mode: mode, change: merge)?.success)
        #expect(outcome.merged)
        #expect(outcome.call.callID == CallID("b"))
        #expect(world.stored(CallID("a")!) == nil)
        #expect(world.stored(CallID("b")!)?.member(alice.user)?.state == .accepted)
        #expect(!bob.names.contains(.invited), "the one who merges rings nobody")
        #expect(bob.events.last?.call.state(of: "alice") == .accepted)
    }

    @Test func aMergeThatLosesAgainstACancelRingsInstead() {
        let race = Race()
        let (world, alice, bob) = (race.world, race.alice, race.bob)
        alice.invite("bob", callID: "a")
        race.intrude(alice.up(.cancel(.init(callID: CallID("a")!))))
        let outcome = bob.invite("alice", callID: "b", change: merge)
        #expect(outcome?.success?.merged == false)
        #expect(outcome?.call?.callID == CallID("b"))
        #expect(world.stored(CallID("a")!)?.endReason == .cancelled)
        #expect(alice.names.last == .invited)
    }

    /// Found by simulation (lite, seed 431): the alias stood already, and the service took the answer on another device
    /// for the merge.
    @Test(arguments: [CallMode.common, .advanced])
    func aMergeThatLosesAgainstAnAcceptOnAnotherDeviceIsNone(_ mode: CallMode) {
        let race = Race()
        let (world, alice, bob) = (race.world, race.alice, race.bob)
        let web = world.phone("bob/web")
        alice.invite("bob", callID: "a", mode: mode)
        // The first commit writes the alias, and the second commit writes the acceptance.
        race.intrude(beforeCommit: 2, web.up(.accept(.init(callID: CallID("a")!))))
        let outcome = bob.invite("alice", callID: "b", change: merge)
        #expect(world.stored(CallID("a")!)?.member(bob.user)?.device == web.address.deviceID)
        #expect(outcome?.success?.merged != true)
        #expect(outcome?.success?.call.callID == (mode == .common ? CallID("b") : nil))
        #expect(outcome?.error?.callID == (mode == .advanced ? CallID("a") : nil))
    }

    /// Found by simulation (seed 22014). The alias stands. The merge is written after this copy of the invite has read
    /// the call, and before this copy looks for a call to merge with.
    @Test func aCopyOfAnInviteFindsTheMergeOfTheOtherCopy() throws {
        let race = Race()
        let (world, alice, bob) = (race.world, race.alice, race.bob)
        let key = RequestKey(device: bob.address, requestID: RequestID("merge")!)
        alice.invite("bob", callID: "a")
        _ = world.memory.commit([
            Commit(
                .call(CallID("b")!), record: .alias(of: CallID("a")!, origin: key), expected: 0, deadline: nil,
                expiresAt: nil)
        ])
        race.store.beforeOperation = { [world, store = race.store] operation in
            // The first load reads the alias, and the second load reads the call to which the alias points.
            guard operation == .load else { return }
            guard store.operationCounts[.load] == 3 else { return }
            store.beforeOperation = nil
            let stored = world.memory.load([.call(CallID("a")!)])[0]!
            guard case .call(let call) = stored.record else { return }
            var machine = CallMachine(call: call, settings: world.settings.calls)
            _ = try? machine.acceptRequested(
                .init(callID: call.callID), CallMachine.Acting(key: key, now: world.clock.now), activeElsewhere: nil)
            machine.remember(RequestOutcome(key: key, type: "call.invite", offline: [], merged: true))
            // The claim of the call is given up in the next step, which is still to come.
            _ = world.memory.commit([
                Commit(
                    .call(call.callID), record: .call(machine.call), expected: stored.version, deadline: nil,
                    expiresAt: nil)
            ])
        }
        race.store.operationCounts = [:]
        let outcome = bob.invite("alice", callID: "b", id: key.requestID, change: merge)
        #expect(outcome?.success?.merged == true)
        #expect(outcome?.call?.callID == CallID("a"))
        #expect(world.stored(CallID("b")!) == nil, "and nobody rings again")
    }

    @Test func theOutcomeOfAMergeIsNeverForgotten() {
        let id = RequestID("merge")!
        alice.invite("bob", callID: "a", mode: .advanced)
        let first = bob.invite("alice", callID: "b", id: id, mode: .advanced, change: merge)
        for _ in 0..<40 { bob.add("carol", callID: "a") }
        for _ in 0..<40 {
            bob.add("erin", callID: "a")
            bob.cancel("a", invitees: ["erin"])
        }
        let again = bob.invite("alice", callID: "b", id: id, mode: .advanced, change: merge)
        #expect(again?.success?.merged == true && first?.success?.merged == true)
    }

    @Test func aMergeThatLosesAgainstARejectOnAnotherDeviceRingsInstead() {
        let race = Race()
        let (world, alice, bob) = (race.world, race.alice, race.bob)
        let web = world.phone("bob/web")
        alice.invite("bob", callID: "a")
        race.intrude(web.up(.reject(.init(callID: CallID("a")!))))
        let outcome = bob.invite("alice", callID: "b", change: merge)
        #expect(outcome?.success?.merged == false)
        #expect(outcome?.call?.callID == CallID("b"))
        #expect(alice.names.last == .invited)
    }

    /// Found by simulation (seed 615): the claim of the two users belonged to the later call, and ended with that call.
    @Test func ofTwoCallsThatRingTheEarlierMergesWhenTheLaterIsOver() {
        alice.invite("bob", callID: "a1")
        alice.invite("bob", callID: "a2")
        alice.cancel("a2")
        let outcome = bob.invite("alice", callID: "b", change: merge)
        #expect(outcome?.success?.merged == true)
        #expect(outcome?.call?.callID == CallID("a1"))
    }

    @Test func aThirdMemberEndsTheClaimOfTheTwo() throws {
        alice.invite("bob", callID: "a", mode: .advanced)
        alice.add("carol", callID: "a")
        #expect(bob.invite("alice", callID: "b", change: merge)?.success?.merged == false)
        #expect(world.memory.read([.holder(.ringing(from: alice.user, to: bob.user))])[0].holder == nil)
    }
}
