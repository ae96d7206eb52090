import CallCore
import CallStore
import Coordinator
import SignalingProtocol
import Testing

/// Several coordinators on a shared store: each message goes to any coordinator, and the store decides.
struct TwoCoordinatorTests {
    @Test(arguments: 0..<8)
    func aCallSpreadOverThreeCoordinatorsGoesAsOnOne(_ seed: Int) {
        func run(_ coordinators: Int, _ route: @escaping (Int) -> Int) -> [String] {
            let world = World(coordinators: coordinators)
            world.route = route
            let alice = world.phone("alice/phone")
            let bob = world.phone("bob/phone")
            world.phone("bob/web", acks: false)
            alice.invite("bob", "carol", mode: .advanced) { $0.notReceivedCheck = true }
            world.pass(seconds: 6)
            bob.accept()
            world.pass(seconds: 20)
            alice.heartbeat()
            bob.add("dave")
            world.pass(seconds: 45)
            alice.heartbeat()
            bob.quit()
            world.pass(seconds: 120)
            return world.timedLines()
        }
        let alone = run(1) { _ in 0 }
        // A sequence of routes that differs by seed and has no period of its own.
        #expect(run(3) { turn in (turn &* (seed &* 2 &+ 1) &+ turn / 3) } == alone)
    }

    @Test func aCallThatWentOnElsewhereIsNotLookedAtAtItsOldDeadline() {
        var store: FaultyStore!
        let world = World(coordinators: 2) {
            store = FaultyStore($0)
            return store
        }
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        world.route = { _ in 0 }
        // The test begins beside the sweeps, since a sweep asks the store for due records as well.
        world.pass(100)
        alice.invite("bob", mode: .advanced)
        let old = world.services[0].nextDeadline!
        world.route = { _ in 1 }
        world.pass(100)
        bob.accept()
        world.pass(old - 1 - world.clock.now)
        store.operationCounts = [:]
        let published = world.published.count
        world.pass(1)
        #expect(world.published.count == published)
        #expect(store.operationCounts[.due] == 1)
        #expect(store.operationCounts[.load] == nil)
        #expect(world.services[0].waitingDeadlines == 0)
        #expect(world.services[1].waitingDeadlines == 1, "it is served where the call went on")
    }

    @Test func acceptAgainstCancelHasOneWinner() {
        let race = Race()
        race.alice.invite("bob")
        race.intrude(race.alice.up(.cancel(.init(callID: callID))))
        let error = race.bob.accept()?.error
        #expect(error?.code == .callEnded)
        #expect(error?.state == "cancelled")
        #expect(race.alice.responses.last?.outcome.success != nil)
        #expect(race.alice.events.allSatisfy { $0.call.acceptedAt == nil }, "only the winner publishes")
    }

    @Test func cancelAgainstAcceptHasOneWinner() {
        let race = Race()
        race.alice.invite("bob")
        race.intrude(race.bob.up(.accept(.init(callID: callID))))
        let error = race.alice.cancel()?.error
        #expect(error?.code == .invalidState)
        #expect(error?.state == "accepted")
        #expect(!race.bob.names.contains(.cancelled))
    }

    /// Another coordinator ends the call after the welcome was made and before the deliveries are decided. The end's
    /// time is a moment before the device's session began. The welcome told the device that the call lives, so the
    /// device is told of the end.
    @Test func aCallThatEndsWhileItsDeviceIsWelcomedIsNotTakenForLive() {
        let race = Race()
        race.alice.invite("bob", mode: .advanced)
        race.bob.accept()
        race.bob.lose()
        race.world.pass(seconds: 1)
        race.world.route = { _ in 0 }
        var loads = 0
        race.store.beforeOperation = { operation in
            guard operation == .load else { return }
            loads += 1
            guard loads == 2 else { return }
            race.store.beforeOperation = nil
            race.world.clock.now -= 5
            race.world.send([race.alice.up(.end(.init(callID: callID)))], to: 1)
            race.world.clock.now += 5
        }
        race.bob.comeOnline()
        #expect(race.bob.welcomes.last?.calls.map(\.state) == [.active])
        race.world.pass(seconds: 2)
        #expect(race.bob.names == [.ended])
    }

    @Test func acceptOnTwoDevicesHasOneWinner() {
        let race = Race()
        let web = race.world.phone("bob/web")
        race.alice.invite("bob")
        race.intrude(web.up(.accept(.init(callID: callID))))
        #expect(race.bob.accept()?.code == .answeredElsewhere)
        #expect(race.bob.names.last == .handledElsewhere)
        #expect(race.world.stored(callID)?.member(race.bob.user)?.device == web.address.deviceID)
    }

    /// Found by the chaos test (seed 4): the call's end bears the time of its decision, and the session began between
    /// the decision and the commit. The device was rung, so it must be told of the end, also when its ack is lost.
    @Test(arguments: [true, false])
    func aDeviceThatIsRungWhileTheCallEndsIsToldOfTheEnd(ackIsLost: Bool) throws {
        let race = Race()
        race.alice.invite("bob")
        var web: Phone?
        race.world.route = { _ in web == nil ? 0 : 1 }
        race.store.beforeCommit = { _ in
            race.store.beforeCommit = nil
            race.world.clock.now += 300
            web = race.world.stranger("bob/web", acks: !ackIsLost)
            web?.comeOnline()
        }
        race.alice.cancel()
        race.world.pass(seconds: 2)
        #expect(web?.names == [.invited, .cancelled])
    }

    @Test func timeoutAgainstAcceptHasOneWinner() {
        let race = Race()
        race.alice.invite("bob")
        race.world.pass(59_999)
        race.intrude(race.bob.up(.accept(.init(callID: callID))))
        race.world.pass(1)
        #expect(race.world.stored(callID)?.endReason == .answered)
        #expect(!race.world.published.contains { $0.event?.name == .timeout })
    }

    @Test func acceptAgainstTimeoutHasOneWinner() {
        let race = Race()
        race.alice.invite("bob")
        race.world.clock.now += 60_000
        race.store.beforeCommit = { [race] _ in
            race.store.beforeCommit = nil
            race.world.join()
        }
        race.world.route = { _ in 0 }
        let error = race.bob.accept()?.error
        #expect(error?.code == .callEnded)
        #expect(error?.state == "timeout")
    }

    @Test func ackAgainstAcceptChangesNothingMore() {
        let race = Race()
        race.bob.acks = false
        race.alice.invite("bob")
        race.intrude(race.bob.up(.accept(.init(callID: callID))))
        race.bob.ack(1)
        #expect(race.world.stored(callID)?.member(race.bob.user)?.state == .accepted)
        #expect(race.alice.events.map(\.revision) == [2])
    }

    @Test func theSameInviteAtBothMakesOneCall() {
        let race = Race()
        let id = RequestID("x")!
        let invite = Request.Body.invite(.init(invitees: [race.bob.user], callID: callID))
        race.intrude(race.alice.up(invite, id: id))
        race.world.send([race.alice.up(invite, id: id)])
        #expect(race.alice.responses.count == 2)
        #expect(race.alice.responses.allSatisfy { $0.outcome.success != nil })
        #expect(race.world.events(to: "bob").count == 1)
    }

    @Test func theSameCallIDFromTwoUsersGoesToOne() {
        let race = Race()
        race.intrude(race.bob.up(.invite(.init(invitees: userIDs("carol"), callID: callID))))
        #expect(race.alice.invite("dave")?.code == .callExists)
        #expect(race.world.stored(callID)?.inviter == race.bob.user)
    }

    @Test func onlyTheCallThatLostIsJudgedAgain() {
        let race = Race()
        race.alice.invite("bob", callID: "x")
        race.alice.invite("bob", callID: "y")
        race.intrude(race.bob.up(.reject(.init(callID: CallID("x")!))))
        race.world.send([
            race.alice.up(.cancel(.init(callID: CallID("x")!))), race.alice.up(.cancel(.init(callID: CallID("y")!))),
        ])
        let outcomes = race.alice.responses.suffix(2).map(\.outcome)
        #expect(outcomes.count { $0.success != nil } == 1)
        #expect(outcomes.count { $0.code == .invalidState } == 1)
        #expect(race.world.stored(CallID("y")!)?.endReason == .cancelled)
    }

    @Test func aConflictAtEveryFirstCommitChangesNoOutcome() {
        let race = Race()
        race.world.phone("bob/web", acks: false)
        race.world.route = { _ in 0 }
        func disturbed(_ act: () -> Response.Outcome?) -> Response.Outcome? {
            race.store.beforeCommit = { [race] _ in
                race.store.beforeCommit = nil
                race.rewrite()
            }
            return act()
        }
        #expect(race.alice.invite("bob", mode: .advanced)?.success != nil)
        #expect(disturbed { race.bob.accept() }?.success != nil)
        #expect(disturbed { race.alice.add("carol") }?.success != nil)
        #expect(disturbed { race.bob.quit() }?.success != nil)
        #expect(disturbed { race.alice.end() }?.success != nil)
        #expect(race.world.service.counters[.conflicts] == 4)
        #expect(race.world.stored(callID)?.endReason == .hangup)
    }

    @Test func whatLosesEveryRaceIsAnsweredUnavailable() {
        let race = Race()
        race.alice.invite("bob")
        race.world.route = { _ in 0 }
        let id = RequestID("x")!
        race.store.beforeCommit = { [race] _ in race.rewrite() }
        #expect(race.bob.accept(id: id)?.code == .unavailable)
        #expect(race.world.services[0].counters[.conflicts] > 1)
        race.store.beforeCommit = nil
        #expect(race.bob.accept(id: id)?.call?.endReason == .answered)
    }

    @Test func deadlinesOfADeadCoordinatorAreServedByAnother() {
        let world = World(coordinators: 2)
        let alice = world.phone("alice/phone")
        world.route = { _ in 0 }
        alice.invite("bob") { $0.notReceivedCheck = true }
        world.kill(0)
        world.pass(5_000 + 2 * World.sweepInterval)
        #expect(alice.events.last?.call.state(of: "bob") == .notYetReceived)
        world.pass(55_000)
        #expect(alice.events.last?.call.endReason == .timeout)
    }

    @Test func aDeadlineIsServedByOne() {
        let world = World(coordinators: 3)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone", acks: false)
        alice.invite("bob")
        for _ in 0..<3 { bob.republishPresence() }
        world.pass(seconds: 100)
        #expect(world.published.count { $0.event?.name == .timeout && $0.at == 60_000 } == 1)
        #expect(bob.names.last == .timeout)
    }

    /// A store that writes claims and records in steps cannot check both at once (docs/decisions/0006): a writer that
    /// is about to give the holder a right to its claim again must lose that commit.
    @Test func aClaimIsTakenOverOnlyAfterItsHolderWasFenced() throws {
        let world = World(coordinators: 2)
        let alice = world.phone("alice/phone")
        world.phone("bob/phone")
        alice.invite("bob", callID: "a", mode: .advanced)
        let before = try #require(world.memory.load([.call(CallID("a")!)])[0])
        guard case .call(let call) = before.record else { return }
        // The call has ended, and its coordinator died before it gave the claim up.
        var machine = CallMachine(call: call, settings: world.settings.calls)
        let key = RequestKey(device: alice.address, requestID: RequestID("end")!)
        try machine.endRequested(.init(callID: call.callID), .init(key: key, now: world.clock.now))
        let ended = Commit(
            .call(call.callID), record: .call(machine.call), expected: before.version, deadline: nil, expiresAt: nil)
        #expect(world.memory.commit([ended]) == [.committed(version: before.version + 1)])
        #expect(
            world.memory.read([.holder(.activeCall(of: alice.user))])[0].holder?.callID == call.callID
        )

        #expect(alice.invite("bob", callID: "b", mode: .advanced)?.call?.callID == CallID("b"))
        #expect(
            world.memory.read([.holder(.activeCall(of: alice.user))])[0].holder?.callID == CallID("b")
        )
        let after = try #require(world.memory.load([.call(CallID("a")!)])[0])
        #expect(after.version == before.version + 2, "a late commit to the old call conflicts")
    }
}
