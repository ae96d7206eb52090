import CallCore
import Coordinator
import SignalingProtocol
import Testing

/// The inviting device goes offline before any invitee has accepted (docs/protocol.md, section 3, Caller lost).
struct CallerLostTests {
    let world = World()
    let alice: Phone
    let bob: Phone

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
    }

    @Test func logoutCancelsAtOnce() throws {
        alice.invite("bob")
        alice.logOut()
        let event = try #require(bob.events.last)
        #expect(event.name == .cancelled)
        #expect(event.missed)
        #expect(event.actor == nil)
        #expect(event.call.endReason == .callerLost)
        #expect(event.changes.map(\.reason) == ["callerLost"])
    }

    @Test func lossCancelsAfterTheGrace() {
        alice.invite("bob")
        world.pass(seconds: 3)
        alice.lose()
        world.pass(9_999)
        #expect(bob.names == [.invited])
        world.pass(1)
        #expect(bob.names == [.invited, .cancelled])
        #expect(bob.events.last?.call.endReason == .callerLost)
    }

    @Test func comingBackInTimeKeepsTheCall() {
        alice.invite("bob")
        alice.lose()
        world.pass(9_999)
        alice.comeOnline()
        world.pass(seconds: 30)
        #expect(world.stored(callID)?.state == .ringing)
        #expect(bob.names == [.invited])
    }

    @Test func aSecondLossHasAGraceOfItsOwn() {
        alice.invite("bob")
        alice.lose()
        world.pass(seconds: 9)
        alice.comeOnline()
        world.pass(seconds: 9)
        alice.lose()
        world.pass(9_999)
        #expect(bob.names == [.invited])
        world.pass(1)
        #expect(bob.names.last == .cancelled)
    }

    @Test func theReturnMayOvertakeTheLoss() {
        alice.invite("bob")
        let will = alice.presence(.offline(.lost), session: alice.session!)
        alice.comeOnline()
        world.send([will])
        world.pass(seconds: 30)
        #expect(world.stored(callID)?.state == .ringing)
    }

    @Test func anotherDeviceOfTheCallerDoesNotMatter() {
        let web = world.phone("alice/web")
        alice.invite("bob")
        web.logOut()
        world.pass(seconds: 30)
        #expect(world.stored(callID)?.state == .ringing)
        alice.logOut()
        #expect(world.stored(callID)?.state == .ended, "nor does it keep the call")
    }

    @Test func anotherOnlineDeviceDoesNotKeepTheCallOfALostOne() {
        world.phone("alice/web")
        alice.invite("bob")
        alice.lose()
        world.pass(10_000)
        #expect(bob.names.last == .cancelled)
    }

    /// The device came back, and the store failed before the call was told of the return.
    @Test func aReturnOfWhichOnlyPresenceKnowsCounts() {
        var faulty: FaultyStore!
        let world = World(store: { memory in
            faulty = FaultyStore(memory)
            return faulty
        })
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob")
        alice.lose()
        faulty.failing = [.calls]
        alice.comeOnline()
        faulty.failing = []
        world.pass(seconds: 30)
        #expect(world.stored(callID)?.state == .ringing)
        #expect(bob.names == [.invited])
    }

    @Test func onceSomebodyAcceptedTheCallGoesOn() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", "carol")
        bob.accept()
        alice.logOut()
        world.pass(seconds: 20)
        #expect(world.stored(callID)?.member(carol.user)?.state == .received)
    }

    @Test func anAnswerWithinTheGraceCounts() {
        alice.invite("bob", mode: .advanced)
        alice.lose()
        world.pass(seconds: 5)
        bob.accept()
        world.pass(seconds: 20)
        #expect(world.stored(callID)?.state == .active)
    }

    @Test func aCallerWithoutPresenceIsNeverLost() {
        let dave = world.stranger("dave/phone")
        dave.invite("bob", callID: "d")
        world.send([dave.presence(.offline(.lost), session: "x")])
        world.pass(seconds: 30)
        #expect(world.stored(CallID("d")!)?.state == .ringing)
    }

    @Test func everyPendingInviteeIsToldInAdvancedModeToo() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", "carol", mode: .advanced)
        alice.logOut()
        #expect(bob.names.last == .cancelled)
        #expect(carol.names.last == .cancelled)
        #expect(world.stored(callID)?.endReason == .callerLost)
    }

    @Test func theGraceIsASetting() {
        var settings = ServiceSettings()
        settings.calls.callerGrace = 2_000
        let world = World(settings)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob")
        alice.lose()
        world.pass(1_999)
        #expect(bob.names == [.invited])
        world.pass(1)
        #expect(bob.names.last == .cancelled)
    }

    @Test func aLossSurvivesTheCoordinatorThatHeardOfIt() {
        alice.invite("bob")
        alice.lose()
        world.pass(seconds: 4)
        world.restart()
        world.pass(seconds: 7)
        #expect(bob.names.last == .cancelled)
    }
}
