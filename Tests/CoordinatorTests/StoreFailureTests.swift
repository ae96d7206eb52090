import CallCore
import CallStore
import Coordinator
import SignalingProtocol
import Testing

/// A store that cannot answer: the sender is told `unavailable`, nothing is lost, and all heals when the store is back.
struct StoreFailureTests {
    let world: World
    let store: FaultyStore
    let alice: Phone
    let bob: Phone
    private let id = RequestID("again")!

    init() {
        var faulty: FaultyStore!
        world = World(store: { memory in
            faulty = FaultyStore(memory)
            return faulty
        })
        store = faulty
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
        _ = world.lines()
    }

    @Test(arguments: [FaultyStore.Operation.load, .commit, .devices, .holders])
    func aRequestIsAnsweredUnavailableAndSucceedsWhenSentAgain(_ operation: FaultyStore.Operation) {
        store.failing = [operation]
        #expect(alice.invite("bob", id: id)?.code == .unavailable)
        #expect(world.lines() == ["alice/phone unavailable"])
        #expect(world.service.storeFailure != nil)
        #expect(world.stored(callID) == nil)
        store.failing = []
        #expect(alice.invite("bob", id: id)?.call?.revision == 1)
        #expect(world.service.storeFailure == nil)
        #expect(bob.names == [.invited])
    }

    /// The record may be a write of another coordinator that no replica has yet, so the response needs a commit.
    @Test func aRepeatedRequestIsCommittedWhereCommitsWaitForReplicas() {
        #expect(alice.invite("bob", id: id)?.success != nil)
        let commits = store.commits
        #expect(alice.invite("bob", id: id)?.success != nil)
        #expect(store.commits == commits)
        store.waitsForReplicas = true
        store.failing = [.commit]
        #expect(alice.invite("bob", id: id)?.code == .unavailable)
        store.failing = []
        let revision = world.stored(callID)?.revision
        #expect(alice.invite("bob", id: id)?.call?.revision == revision)
        #expect(store.commits == commits + 1)
        // A request that only reads, and a refusal, wait for nothing.
        store.failing = [.commit]
        #expect(alice.get()?.success != nil)
        #expect(alice.invite("carol", id: id)?.code == .badRequest, "the id was used for another request")
    }

    @Test func withoutAClockARequestIsAnsweredUnavailable() {
        store.failing = [.now]
        #expect(alice.invite("bob", id: id)?.code == .unavailable)
        store.failing = []
        #expect(alice.invite("bob", id: id)?.success != nil)
        #expect(world.stored(callID)?.createdAt == world.clock.now)
    }

    @Test func aCoordinatorThatNeverReadAClockWritesNothing() {
        store.failing = [.now]
        world.restart(store: store)
        #expect(alice.invite("bob")?.code == .unavailable)
        #expect(world.stored(callID) == nil)
    }

    @Test func everyRequestOfABatchIsAnswered() {
        store.failing = [.load]
        world.send([
            alice.up(.invite(.init(invitees: [bob.user], callID: callID))), bob.up(.get(.init(callID: callID))),
            alice.up(.get(.init(callID: CallID("x")!))), bob.up(.ackCall(callID, revision: 1)),
        ])
        #expect(
            world.lines().sorted() == ["alice/phone unavailable", "alice/phone unavailable", "bob/phone unavailable"])
    }

    @Test func aMalformedRequestNeedsNoStore() {
        store.failing = Set(FaultyStore.Operation.allCases)
        world.send("bellwire/v1/up/alice/phone", #"{"type":"call.get","id":"x"}"#)
        world.send("bellwire/v1/up/alice/phone", "{")
        #expect(world.lines() == ["alice/phone badRequest", "alice/phone error badRequest"])
    }

    @Test(arguments: [FaultyStore.Operation.load, .commit, .note, .devices])
    func anAckThatIsLostIsAskedForAgain(_ operation: FaultyStore.Operation) {
        bob.acks = false
        alice.invite("bob")
        store.failing = [operation]
        bob.ack(1)
        store.failing = []
        bob.acks = true
        world.pass(seconds: 3)
        #expect(world.stored(callID)?.member(bob.user)?.state == .received)
        let count = world.published.count
        world.pass(seconds: 50)
        #expect(world.published.count == count, "and the resends stop")
    }

    /// Records and notes that are written together fail together: the response says to send again, and the repeated
    /// request finds the written record.
    @Test func aCommitBesideANoteThatFailsIsFoundByTheResend() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", mode: .advanced)
        bob.accept()
        _ = world.lines()
        let invite = carol.up(.invite(.init(invitees: userIDs("dave"), callID: CallID("x")!)), id: id)
        store.failing = [.note]
        world.send([bob.up(.heartbeat(callID)), invite])
        store.failing = []
        #expect(world.stored(CallID("x")!) != nil)
        #expect(world.lines() == ["carol/phone unavailable"])
        world.send([invite])
        world.pass(seconds: 2)
        #expect(world.lines() == ["carol/phone ok 1", "dave call.invited 1"], "what nobody timed, the sweep finds")
    }

    @Test func eventsThatCannotBeAddressedComeWithTheResends() {
        alice.invite("bob", mode: .advanced)
        // The commit goes through, and then presence cannot be read.
        store.afterCommit = { [store] () throws(StoreError) in store.failing = [.devices] }
        #expect(bob.accept()?.success != nil)
        store.afterCommit = nil
        store.failing = []
        #expect(alice.events.last?.call.state(of: "bob") == .received)
        world.pass(seconds: 2)
        #expect(alice.events.last?.call.state(of: "bob") == .accepted)
    }

    @Test func aCommitThatWasWrittenThoughItSeemedToFailIsFoundByTheResend() {
        store.afterCommit = { () throws(StoreError) in throw StoreError(.unreachable, "timed out") }
        #expect(alice.invite("bob", id: id)?.code == .unavailable)
        #expect(world.stored(callID) != nil)
        store.afterCommit = nil
        #expect(alice.invite("bob", id: id)?.call?.revision == 1)
        world.pass(seconds: 3)
        #expect(bob.names == [.invited])
        #expect(world.stored(callID)?.member(bob.user)?.state == .received)
    }

    @Test func deadlinesThatCouldNotBeServedAreServedLater() {
        bob.acks = false
        alice.invite("bob") { $0.notReceivedCheck = true }
        store.failing = [.load, .due]
        world.pass(seconds: 10)
        #expect(alice.events.isEmpty)
        store.failing = []
        world.pass(2 * World.sweepInterval)
        #expect(alice.events.last?.call.state(of: "bob") == .notYetReceived)
        world.pass(seconds: 60)
        #expect(alice.events.last?.call.endReason == .timeout)
    }

    @Test(arguments: [FaultyStore.Operation.cameOnline, .calls, .load])
    func aDeviceThatCannotBeWelcomedPublishesItsPresenceAgain(_ operation: FaultyStore.Operation) {
        alice.invite("carol")
        let carol = world.stranger("carol/phone")
        store.failing = [operation]
        carol.comeOnline()
        #expect(carol.events.isEmpty)
        store.failing = []
        carol.republishPresence()
        #expect(carol.welcomes.last?.calls.map(\.callID) == [callID])
        #expect(carol.names == [.invited])
    }

    /// The presence is written, and then the store goes away: a device that was welcomed would not come again for its
    /// deliveries.
    @Test(arguments: [FaultyStore.Operation.commit, .devices, .load, .calls])
    func aDeviceThatCannotBeToldWhatItIsOwedIsNotWelcomedYet(_ operation: FaultyStore.Operation) {
        alice.invite("carol")
        world.pass(seconds: 20)
        let carol = world.stranger("carol/phone")
        _ = world.lines()
        store.failing = [operation]
        carol.comeOnline()
        #expect(world.memory.devices(of: [carol.user])[0].map(\.isOnline) == [true])
        #expect(world.lines().isEmpty)
        store.failing = []
        carol.republishPresence()
        #expect(world.lines().prefix(2) == ["carol/phone welcome s1 c", "carol/phone call.invited 1"])
        #expect(world.stored(callID)?.member(carol.user)?.state == .received)
    }

    /// The store goes away after each number of operations in turn.
    @Test(arguments: 0..<12)
    func whereverTheStoreFailsADeviceThatComesOnlineRings(_ limit: Int) {
        alice.invite("carol")
        world.pass(seconds: 20)
        let carol = world.stranger("carol/phone")
        store.failsAfter = store.operations + limit
        carol.comeOnline()
        store.failsAfter = nil
        if carol.welcomes.isEmpty { carol.republishPresence() }
        #expect(carol.welcomes.map { $0.calls.map(\.callID) } == [[callID]])
        world.pass(seconds: 2)
        #expect(carol.names == [.invited])
        #expect(world.stored(callID)?.member(carol.user)?.state == .received)
    }

    /// After a break all devices come at once: the cost for the store does not depend on the number of devices.
    @Test func devicesThatComeTogetherAreServedTogether() {
        func operations(_ count: Int) -> Int {
            let phones = (0..<count).map { world.stranger("of-\(count)-\($0)/phone") }
            let before = store.operations
            world.send(phones.map { $0.presence(.online, session: "s") })
            #expect(phones.allSatisfy { $0.welcomes.count == 1 })
            return store.operations - before
        }
        #expect(operations(40) == operations(1))
    }

    /// The first device cannot be told its deliveries; the other devices are welcomed.
    @Test func oneOfManyThatCannotBeServedIsNotWelcomed() {
        alice.invite("carol")
        world.pass(seconds: 20)
        let (carol, dave) = (world.stranger("carol/phone"), world.stranger("dave/phone"))
        store.failing = [.commit]
        world.send([carol.presence(.online, session: "s1"), dave.presence(.online, session: "s1")])
        #expect(carol.welcomes.isEmpty)
        #expect(dave.welcomes.map(\.calls.count) == [0])
    }

    @Test func aGoodbyeThatIsLostIsBoundedByTheTimeout() {
        alice.invite("bob")
        store.failing = [.wentOffline]
        alice.logOut()
        store.failing = []
        world.pass(seconds: 60)
        #expect(bob.names.last == .timeout)
    }

    /// The store goes away after each number of operations in turn: every response holds, and a repeated request heals
    /// the rest.
    @Test(arguments: 0..<14)
    func whereverTheStoreFailsTheCallComesToTheSameEnd(_ limit: Int) {
        func failing(_ act: () -> Response.Outcome?) {
            store.failsAfter = store.operations + limit
            _ = act()
            store.failsAfter = nil
            #expect(act()?.success != nil)
        }
        failing { alice.invite("bob", id: RequestID("i")!, mode: .advanced) }
        failing { bob.accept(id: RequestID("a")!) }
        failing { alice.request(.add(.init(callID: callID, invitees: userIDs("carol"))), id: RequestID("d")!) }
        failing { bob.request(.end(.init(callID: callID)), id: RequestID("e")!) }
        world.pass(seconds: 5)
        #expect(world.stored(callID)?.endReason == .hangup)
        #expect(alice.calls[callID]?.state == .ended)
        #expect(bob.calls[callID]?.state == .ended)
    }

    @Test func cleaningSurvivesAFailure() {
        store.failing = [.clean]
        store.operationCounts = [:]
        world.pass(seconds: 10)
        #expect(world.service.storeFailure != nil)
        #expect(world.service.counters[.storeErrors] == 1)
        // The failed cleaning does not say that more is left: the next cleaning comes when it would have come anyway.
        world.pass(9_999)
        #expect(store.operationCounts[.clean] == 1)
        store.failing = []
        world.pass(1)
        #expect(store.operationCounts[.clean] == 2)
        #expect(world.service.storeFailure == nil)
    }
}
