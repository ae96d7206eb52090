import CallCore
import CallStore
import Coordinator
import SignalingProtocol
import Testing

/// With a store that works meanwhile, a large batch is served in parts: nobody can tell.
struct PartTests {
    private static let calls = 120

    /// A world whose store says that it works meanwhile.
    private func world() -> (World, FaultyStore) {
        var front: FaultyStore!
        let world = World(store: { memory in
            front = FaultyStore(memory)
            front.worksMeanwhile = true
            return front
        })
        return (world, front)
    }

    private func invites(_ world: World) -> [InboundMessage] {
        (0..<Self.calls).map { number in
            world.phone("caller\(number)/phone").up(
                .invite(.init(invitees: userIDs("callee\(number)"), callID: CallID("c\(number)")!)),
                id: RequestID("i\(number)"))
        }
    }

    @Test func everyCallOfALargeBatchIsServedOnceAndInOrder() {
        let (world, _) = world()
        for number in 0..<Self.calls { world.phone("callee\(number)/phone") }
        let messages = invites(world)
        _ = world.lines()
        world.send(messages)
        let expected = (0..<Self.calls).flatMap { ["callee\($0) call.invited 1", "caller\($0)/phone ok 1"] }
        #expect(world.lines().prefix(expected.count).elementsEqual(expected))
        for number in 0..<Self.calls {
            #expect(world.stored(CallID("c\(number)")!)?.members[1].state == .received)
        }
    }

    /// Sends invitations of which the store takes the first `parts` and no more. Returns the world and what was sent.
    private func sent(failingAfter parts: Int) -> (World, [InboundMessage]) {
        let (world, store) = world()
        for number in 0..<Self.calls { world.phone("callee\(number)/phone") }
        let messages = invites(world)
        _ = world.lines()
        let before = store.commits
        store.beforeCommit = { count in if count == before + parts { store.failing = [.commit] } }
        world.send(messages)
        store.failing = []
        store.beforeCommit = nil
        return (world, messages)
    }

    @Test func aPartThatCannotBeWrittenIsAnsweredAndFoundByItsResend() {
        let (world, messages) = sent(failingAfter: 1)
        let answers = world.lines().filter { $0.hasPrefix("caller") }
        #expect(answers.contains { $0.hasSuffix("unavailable") })
        world.send(messages)
        world.pass(seconds: 3)
        for number in 0..<Self.calls {
            #expect(world.stored(CallID("c\(number)")!)?.members[1].state == .received)
        }
    }

    /// What was told before the store went away is not told again, and nothing is told twice.
    @Test func eachRequestHasOneAnswerWhicheverPartFails() {
        let (world, _) = sent(failingAfter: 2)
        let answers = world.lines().filter { $0.hasPrefix("caller") && !$0.contains("call.") }
        #expect(answers.count == Self.calls)
        #expect(answers.contains { $0.hasSuffix(" ok 1") })
        #expect(answers.contains { $0.hasSuffix("unavailable") })
    }

    @Test func sessionsAreKnownInEveryPart() {
        let (world, store) = world()
        for number in 0..<Self.calls { world.phone("callee\(number)/phone", acks: false) }
        let messages = invites(world)
        store.operationCounts = [:]
        world.send(messages)
        #expect(store.operationCounts[.commit] == 3, "there are parts")
        world.send((0..<Self.calls).map { world.phones[$0].up(.ackCall(CallID("c\($0)")!, revision: 1)) })
        let count = world.published.count
        world.pass(seconds: 30)
        let resent = world.published[count...].filter { $0.topic.hasPrefix("callee") && $0.event?.name == .invited }
        #expect(resent.isEmpty, "the acks of all of them were kept under their sessions")
    }
}
