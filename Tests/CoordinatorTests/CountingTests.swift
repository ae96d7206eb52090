import CallStore
import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// The counts of a decision, and the tokens that the decision takes from limits, when the commit loses and the decision
/// is made again (docs/protocol.md, section 2, Rate limits).
struct CountingTests {
    /// Returns two coordinators; before the first coordinator's next commit the second coordinator can serve another
    /// message.
    private func race(_ change: (inout RateLimits) -> Void = { _ in }) -> Race {
        var settings = ServiceSettings()
        change(&settings.limits)
        return Race(settings)
    }

    private func up(_ phone: Phone, _ callID: String, invite invitee: String, id: String? = nil) -> InboundMessage {
        phone.up(
            .invite(.init(invitees: [UserID(invitee)!], callID: CallID(callID)!)), id: id.flatMap { RequestID($0) })
    }

    @Test func aRequestThatIsJudgedTwiceIsAnsweredAndCountedOnce() {
        let race = race()
        race.alice.invite("bob")
        race.intrude(race.bob.up(.accept(.init(callID: callID))))
        let before = race.world.service.counters
        #expect(race.alice.cancel()?.code == .invalidState)
        let after = race.world.service.counters
        #expect(after[.conflicts] - before[.conflicts] == 1, "it was judged twice")
        #expect(after[.responses] - before[.responses] == 1)
        #expect(after[.responses, "invalidState"] == 1)
        #expect(after[.responses, "ok"] == before[.responses, "ok"], "the one that lost was never sent")
    }

    @Test func aDeadlineThatIsServedTwiceIsCountedOnce() {
        let race = race()
        race.bob.acks = false
        race.world.route = { _ in 0 }
        race.alice.invite("bob") { $0.timeout = 5 }
        race.world.pass(4_999)
        let before = race.world.service.counters
        // The other writer is a coordinator that dies: a living coordinator would serve the deadline itself.
        race.store.beforeCommit = { [race] _ in
            race.store.beforeCommit = nil
            race.rewrite()
        }
        race.world.pass(1)
        #expect(race.world.stored(callID)?.endReason == .timeout)
        let after = race.world.service.counters
        #expect(after[.conflicts] - before[.conflicts] == 1)
        #expect(after[.deadlines] - before[.deadlines] == 1)
    }

    @Test func aStaleAckThatIsJudgedTwiceIsCountedOnce() {
        let race = race()
        race.bob.acks = false
        let carol = race.world.phone("carol/phone")
        race.alice.invite("bob", "carol")
        #expect(race.world.stored(callID)?.member(carol.user)?.state == .received)
        // Carol's ack would come after bob's ack, and would be stale as well.
        carol.acks = false
        race.intrude(race.alice.up(.cancel(.init(callID: callID, invitees: userIDs("carol")))))
        let before = race.world.service.counters
        race.bob.ack(1)
        let after = race.world.service.counters
        #expect(after[.conflicts] - before[.conflicts] == 1)
        #expect(after[.staleAcks] - before[.staleAcks] == 1)
    }

    @Test func aMessageThatIsJudgedTwiceIsCountedOnce() {
        let race = race()
        let message = Request.Message(to: UserID("dave")!, data: JSONText("1")!, messageID: MessageID("m")!)
        let id = RequestID("same")!
        race.intrude(race.alice.up(.message(message), id: id))
        let before = race.world.service.counters
        // The other coordinator's commit sends the message; this coordinator only repeats the outcome.
        race.world.send([race.alice.up(.message(message), id: id)])
        let after = race.world.service.counters
        #expect(after[.conflicts] - before[.conflicts] == 1)
        #expect(after[.responses, "ok"] - before[.responses, "ok"] == 1)
        #expect(after[.peerMessages, "sent"] == before[.peerMessages, "sent"])
    }

    @Test func anInvitationThatIsJudgedTwiceTakesOneOfTheLimits() {
        let race = race {
            $0.callee = .init(rate: 1, burst: 2)
            $0.pair = .init(rate: 1, burst: 2)
        }
        let carol = race.world.phone("carol/phone")
        // Carol's early cancel is written under the call id first, so that alice's commit loses.
        race.intrude(carol.up(.cancel(.init(callID: callID))))
        #expect(race.alice.invite("bob")?.call != nil)
        #expect(race.world.service.counters[.conflicts] == 1)
        race.world.route = { _ in 0 }
        #expect(race.alice.invite("bob", callID: "second")?.call != nil, "one is left")
        #expect(race.alice.invite("bob", callID: "third")?.code == .rateLimited)
        #expect(carol.invite("bob", callID: "fourth")?.code == .rateLimited)
    }

    @Test func whatAnInvitationTookThatCameToNothingIsGivenBack() {
        let race = race {
            $0.callee = .init(rate: 1, burst: 1)
            $0.pair = .init(rate: 1, burst: 1)
        }
        let carol = race.world.phone("carol/phone")
        race.intrude(up(carol, "c", invite: "dave"))
        #expect(race.alice.invite("bob")?.code == .callExists)
        race.world.route = { _ in 0 }
        #expect(race.alice.invite("bob", callID: "second")?.call != nil)
    }

    @Test func whatAnInvitationTookThatCouldNotBeWrittenIsGivenBack() {
        let race = race {
            $0.callee = .init(rate: 1, burst: 1)
            $0.pair = .init(rate: 1, burst: 1)
        }
        race.world.route = { _ in 0 }
        race.store.failing = [.commit]
        #expect(race.alice.invite("bob")?.code == .unavailable)
        race.store.failing = []
        #expect(race.alice.invite("bob")?.call != nil)
    }

    @Test func aResendTakesNothing() {
        let race = race { $0.pair = .init(rate: 1, burst: 2) }
        race.world.route = { _ in 0 }
        for _ in 0..<5 { race.world.send([up(race.alice, "c", invite: "bob", id: "same")]) }
        #expect(race.alice.responses.count == 5)
        #expect(race.alice.invite("bob", callID: "second")?.call != nil)
        #expect(race.alice.invite("bob", callID: "third")?.code == .rateLimited)
    }
}
