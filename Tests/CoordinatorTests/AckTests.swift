import CallCore
import SignalingProtocol
import Testing

/// Acks are cumulative, and each ack names a revision (docs/protocol.md, section 5).
struct AckTests {
    let world = World()
    let alice: Phone
    let bob: Phone
    let carol: Phone

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
        carol = world.phone("carol/phone")
        _ = world.lines()
    }

    @Test func anAckCoversEverythingUpToIt() {
        alice.acks = false
        alice.invite("bob", "carol")
        bob.accept()
        let revision = alice.calls[callID]!.revision
        alice.ack(revision)
        let count = world.events(to: "alice/phone").count
        world.pass(seconds: 60)
        #expect(world.events(to: "alice/phone").dropFirst(count).allSatisfy { $0.event!.revision > revision })
    }

    @Test func anAckAboveTheCurrentRevisionCountsAsTheCurrentOne() {
        bob.acks = false
        alice.invite("bob")
        bob.ack(1000)
        #expect(alice.events.last?.call.state(of: "bob") == .received)
        // The ack does not cover later events.
        alice.cancel()
        #expect(bob.names.last == .cancelled)
        world.pass(seconds: 2)
        #expect(world.events(to: "bob/phone").map { $0.event?.name } == [.cancelled])
    }

    @Test func aStaleAckIsAnsweredAtOnceWithWhatIsOwed() {
        bob.acks = false
        alice.invite("bob", mode: .advanced)
        bob.accept()
        alice.add("carol")
        let revision = world.stored(callID)!.revision
        _ = world.lines()
        bob.ack(1)
        #expect(world.lines() == ["bob/phone call.userStateChanged \(revision)"])
    }

    /// The ack of the invitation is itself a change, and the device still lacks the changes in between.
    @Test func aStaleAckOfAnInvitationIsAnsweredAtOnceToo() throws {
        bob.acks = false
        alice.invite("bob", "carol")
        #expect(bob.events.map(\.revision) == [1, 2], "carol's ack is a change that bob is told of")
        _ = world.lines()
        bob.ack(1)
        let event = try #require(world.published.last { $0.topic == "bob/phone" }?.event)
        #expect(world.lines().contains("bob/phone call.userStateChanged 3"))
        #expect(event.changes.map(\.userID) == [carol.user])
    }

    @Test func aStaleAckInOneBatchWithAChangeIsAnsweredAtOnce() {
        let web = world.phone("bob/web")
        alice.invite("bob", "carol", mode: .advanced)
        web.acks = false
        bob.accept()
        let accepted = world.stored(callID)!.revision
        #expect(web.names.last == .handledElsewhere)
        // The service has answered the late acks that this device sent while it rang: there is a single answer a
        // second.
        world.clock.now += 1_000
        _ = world.lines()
        world.send([
            web.up(.ackCall(callID, revision: accepted - 1)), carol.up(.accept(.init(callID: callID))),
        ])
        #expect(world.lines().contains("bob/web call.handledElsewhere \(accepted + 1)"))
    }

    @Test func anAckOfTheCurrentRevisionIsAnsweredByNothing() {
        alice.invite("bob")
        _ = world.lines()
        bob.ack(2)
        bob.ack(2)
        #expect(world.lines().isEmpty)
    }

    @Test func aLowerAckTakesNothingBack() {
        bob.acks = false
        alice.invite("bob", mode: .advanced)
        bob.accept()
        bob.ack(3)
        alice.add("carol")
        bob.ack(world.stored(callID)!.revision)
        let count = world.published.count
        bob.ack(2)
        #expect(world.published.count == count, "what is acked is owed no more")
    }

    @Test func anAckFromBeforeAReinvitationDoesNotReceiveIt() {
        bob.acks = false
        alice.invite("bob", "carol", mode: .advanced)
        bob.ack(1)
        bob.reject()
        let revision = world.stored(callID)!.revision
        alice.add("bob")
        // The service gives a single answer a second, and the first ack has had its answer.
        world.clock.now += 1_000
        bob.ack(revision)
        #expect(world.stored(callID)?.member(bob.user)?.state == .inviting)
        #expect(world.published.last?.topic == "bob/phone")
        #expect(world.published.last?.event?.name == .invited)
        bob.ack(revision + 1)
        #expect(world.stored(callID)?.member(bob.user)?.state == .received)
    }

    @Test func acksOfStrangersAndOfUnknownCallsAreIgnored() {
        alice.invite("bob")
        _ = world.lines()
        carol.ack(1)
        carol.ack(1, "unknown")
        carol.heartbeat("unknown")
        #expect(world.lines().isEmpty)
    }

    @Test func anAckOfAMessageIsIgnored() {
        world.send([bob.up(.ackMessage(MessageID("m")!))])
        #expect(world.lines().isEmpty)
    }

    @Test func theActingDeviceKnowsItsRevisionFromTheResponse() {
        alice.acks = false
        bob.acks = false
        alice.invite("bob")
        bob.accept()
        _ = world.lines()
        world.pass(seconds: 100)
        #expect(world.lines().allSatisfy { $0.hasPrefix("alice/phone") }, "bob's phone is owed nothing")
        #expect(world.events(to: "alice/phone").allSatisfy { $0.event?.revision == 2 }, "nor is alice her own invite")
    }

    @Test func everyMissedChangeComesInOneEvent() throws {
        alice.acks = false
        alice.vanish()
        alice.invite("bob", "carol")
        bob.reject()
        carol.accept()
        alice.isConnected = true
        world.pass(seconds: 1)
        let event = try #require(alice.events.first)
        #expect(alice.events.count == 1)
        #expect(event.changes.map(\.userID) == [bob.user, carol.user])
        #expect(event.changes.map(\.state) == [.rejected, .accepted])
    }
}
