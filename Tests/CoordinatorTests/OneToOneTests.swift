import CallCore
import SignalingProtocol
import Testing

/// A common call of two users, message by message (docs/protocol.md, sections 2, 3 and 5).
struct OneToOneTests {
    let world = World()
    let alice: Phone
    let bob: Phone

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
        _ = world.lines()
    }

    @Test func acceptReachesTheCallerAndEndsTheCall() throws {
        let outcome = alice.invite("bob")
        #expect(
            world.lines() == [
                "bob call.invited 1", "alice/phone ok 1", "alice/phone call.userStateChanged 2",
            ])
        #expect(outcome?.call?.state == .ringing)
        #expect(outcome?.success?.offline == [])

        let answer = bob.accept()
        #expect(world.lines() == ["alice/phone call.userStateChanged 3", "bob/phone ok 3"])
        #expect(answer?.call?.state == .ended)
        let event = try #require(alice.events.last)
        #expect(event.call.state == .ended)
        #expect(event.call.endReason == .answered)
        #expect(event.actor == bob.user)
        #expect(event.changes == [MemberChange(userID: bob.user, state: .accepted, device: bob.address.deviceID)])
    }

    @Test func inviteeIsShownReceivedAsSoonAsADeviceAcks() throws {
        bob.acks = false
        alice.invite("bob")
        #expect(alice.events.isEmpty)
        bob.ack(1)
        let event = try #require(alice.events.last)
        #expect(event.name == .userStateChanged)
        #expect(event.call.state(of: "bob") == .received)
        #expect(event.actor == bob.user)
    }

    @Test func rejectReachesTheCaller() throws {
        alice.invite("bob")
        _ = world.lines()
        let outcome = bob.reject(reason: "in a meeting")
        #expect(world.lines() == ["alice/phone call.userStateChanged 3", "bob/phone ok 3"])
        #expect(outcome?.call?.endReason == .rejected)
        #expect(alice.events.last?.changes.first?.reason == "in a meeting")
    }

    @Test func rejectAsBusyEndsTheCallAsBusy() {
        alice.invite("bob")
        #expect(bob.reject(reason: "busy")?.call?.endReason == .busy)
    }

    @Test func cancelStopsTheRinging() throws {
        alice.invite("bob")
        _ = world.lines()
        #expect(alice.cancel()?.call?.endReason == .cancelled)
        #expect(world.lines() == ["bob call.cancelled 3", "alice/phone ok 3"])
        let event = try #require(bob.events.last)
        #expect(event.missed)
        #expect(event.call.state(of: "bob") == .cancelled)
        #expect(event.expiresIn == nil)
    }

    @Test func timeoutTellsBoth() throws {
        alice.invite("bob")
        world.pass(59_999)
        #expect(bob.names == [.invited])
        _ = world.lines()
        world.pass(1)
        #expect(world.timedLines() == ["60.0 alice/phone call.userStateChanged 3", "60.0 bob call.timeout 3"])
        let event = try #require(bob.events.last)
        #expect(event.missed)
        #expect(event.actor == nil)
        #expect(event.call.endReason == .timeout)
        #expect(alice.events.last?.call.state == .ended)
    }

    @Test func callEndedIsNeverSentInCommonMode() {
        for answer in [bob.accept, { _, _ in bob.reject() }, { _, _ in alice.cancel() }] {
            let id = world.nextRequestID().description
            alice.invite("bob", callID: id)
            _ = answer(id, nil)
        }
        world.pass(seconds: 200)
        #expect(!world.published.contains { $0.event?.name == .ended })
    }

    @Test func invitedExpiresWithTheInvitationAndOthersAfterAMinute() throws {
        bob.acks = false
        alice.invite("bob") { $0.timeout = 30 }
        world.pass(29_999)
        let invited = world.events(to: "bob") + world.events(to: "bob/phone")
        #expect(invited.map(\.expirySeconds) == [30, 29, 27, 23, 15, 7])
        #expect(invited.map { $0.event?.expiresIn } == [30_000, 29_000, 27_000, 23_000, 15_000, 7_000])
        world.pass(1)
        #expect(world.published.filter { $0.event?.name != .invited }.allSatisfy { $0.expirySeconds == 60 })
    }

    @Test func theLastSecondOfAnInvitationExpiresAfterOne() {
        bob.acks = false
        alice.invite("bob") { $0.timeout = 1 }
        bob.vanish()
        world.pass(400)
        bob.comeOnline()
        let last = world.events(to: "bob/phone").last
        #expect(last?.event?.expiresIn == 600)
        #expect(last?.expirySeconds == 1)
    }

    @Test func eachResponseCarriesBackItsCorrelationData() {
        let invite = Request.Body.invite(.init(invitees: [bob.user], callID: callID))
        let good = UpMessage.request(.init(id: RequestID("x1")!, body: invite))
        let bad = UpMessage.request(.init(id: RequestID("x2")!, body: .get(.init(callID: CallID("none")!))))
        world.send([alice.up(good, correlationData: [1, 2]), alice.up(bad, correlationData: [3])])
        let responses = world.published.filter { $0.response != nil }
        #expect(responses.map(\.correlationData) == [[1, 2], [3]])
        #expect(world.published.filter { $0.event != nil }.allSatisfy { $0.correlationData == nil })
    }

    @Test func timeOfAResponseIsThatOfItsRevision() {
        let invited = alice.invite("bob")?.success?.time
        world.pass(seconds: 7)
        #expect(alice.get()?.success?.time == invited)
        #expect(alice.get()?.success?.call.createdAt == invited)
    }

    @Test func aStrangerLearnsNothing() {
        let carol = world.phone("carol/phone")
        alice.invite("bob")
        _ = world.lines()
        #expect(carol.get()?.code == .callNotFound)
        #expect(carol.accept()?.code == .callNotFound)
        #expect(carol.cancel()?.code == .callNotFound)
        #expect(carol.get("none")?.error == carol.get()?.error)
        carol.ack(1)
        carol.heartbeat()
        #expect(world.lines().allSatisfy { $0.hasPrefix("carol/phone ") })
        #expect(carol.events.isEmpty)
    }

    @Test func usersWithAwkwardNamesAreReachedOnTheirTopics() {
        let names = ["a/b", "50%", "+#", "é", "e\u{301}", "日本"]
        for name in names {
            let address = DeviceAddress(userID: UserID(name)!, deviceID: DeviceID("web")!)
            alice.request(.invite(.init(invitees: [address.userID])))
            let topic = Topics.encode(address.userID)
            #expect(world.published.suffix(2).contains { $0.event != nil && $0.topic.utf8.elementsEqual(topic.utf8) })
        }
    }

    @Test func aCallerWithoutPresenceHearsTheAnswer() {
        let dave = world.stranger("dave/phone")
        dave.invite("bob", callID: "d")
        bob.accept("d")
        #expect(dave.events.last?.call.endReason == .answered)
    }

    @Test func anInviteeWithoutPresenceRingsAndAnswers() {
        let dave = world.stranger("dave/phone")
        #expect(alice.invite("dave")?.success?.offline == [dave.user])
        #expect(dave.names == [.invited])
        #expect(dave.accept()?.call?.endReason == .answered)
        #expect(alice.events.last?.call.state(of: "dave") == .accepted)
    }
}
