import CallCore
import Coordinator
import SignalingProtocol
import Testing

/// "Unacked events are resent after 1, 2, 4, 8 s, then every 8 s" (docs/protocol.md, section 5).
struct ResendTests {
    let world = World()
    let alice: Phone
    let bob: Phone

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone", acks: false)
        _ = world.lines()
    }

    private func times(_ name: EventName, to topic: String) -> [Milliseconds] {
        world.published.filter { $0.topic == topic && $0.event?.name == name }.map(\.at)
    }

    private func times(inSeconds seconds: Milliseconds...) -> [Milliseconds] { seconds.map { $0 * 1_000 } }

    @Test func anInvitationIsResentUntilItExpires() {
        alice.invite("bob")
        world.pass(seconds: 200)
        #expect(times(.invited, to: "bob") == [0])
        #expect(times(.invited, to: "bob/phone") == times(inSeconds: 1, 3, 7, 15, 23, 31, 39, 47, 55))
    }

    @Test func aLongInvitationIsResentToItsEnd() {
        alice.invite("bob") { $0.timeout = 120 }
        world.pass(seconds: 200)
        #expect(times(.invited, to: "bob/phone").suffix(3) == [103_000, 111_000, 119_000])
    }

    @Test func anotherEventIsResentForAMinute() {
        alice.acks = false
        bob.acks = true
        world.pass(seconds: 5)
        alice.invite("bob")
        bob.accept()
        world.pass(seconds: 200)
        let sent = times(.userStateChanged, to: "alice/phone")
        #expect(sent.filter { $0 > 5_000 } == times(inSeconds: 6, 8, 12, 20, 28, 36, 44, 52, 60))
        #expect(sent.filter { $0 == 5_000 }.count == 2)
    }

    @Test func anEndedCallsLastEventIsResentForAMinute() {
        alice.invite("bob")
        world.pass(seconds: 10)
        alice.cancel()
        world.pass(seconds: 200)
        #expect(times(.cancelled, to: "bob") == [10_000])
        #expect(times(.cancelled, to: "bob/phone") == times(inSeconds: 11, 13, 17, 25, 33, 41, 49, 57, 65))
        #expect(times(.invited, to: "bob/phone").allSatisfy { $0 < 10_000 })
    }

    @Test func anAckStopsTheResends() {
        alice.invite("bob")
        world.pass(seconds: 4)
        bob.ack(1)
        world.pass(seconds: 100)
        #expect(times(.invited, to: "bob/phone") == [1_000, 3_000])
    }

    @Test func onlyDevicesThatHaveNotAckedAreResentTo() {
        let web = world.phone("bob/web")
        alice.invite("bob")
        world.pass(seconds: 8)
        #expect(times(.invited, to: "bob") == [0])
        #expect(times(.invited, to: "bob/web").isEmpty)
        // The ack of the other device is a change of its own, from which the schedule counts: that ack came at once.
        #expect(times(.invited, to: "bob/phone") == [1_000, 3_000, 7_000])
        #expect(web.names == [.invited])
    }

    @Test func anInviteeOfWhomNoDeviceIsKnownIsResentToOnTheUsersTopic() {
        alice.invite("carol")
        world.pass(seconds: 8)
        #expect(times(.invited, to: "carol") == [0, 1_000, 3_000, 7_000])
    }

    @Test func anInviteeWhoseDevicesAreOfflineIsNotResentTo() {
        bob.logOut()
        alice.invite("bob")
        world.pass(seconds: 59)
        #expect(times(.invited, to: "bob") == [0])
        #expect(times(.invited, to: "bob/phone").isEmpty)
    }

    @Test func aDeviceThatComesOnlineHasAScheduleOfItsOwn() {
        bob.vanish()
        alice.invite("bob")
        world.pass(seconds: 10)
        let web = world.phone("bob/web", acks: false)
        #expect(web.names == [.invited])
        world.pass(seconds: 16)
        #expect(times(.invited, to: "bob/web") == times(inSeconds: 10, 11, 13, 17, 25))
        #expect(times(.invited, to: "bob/phone") == times(inSeconds: 1, 3, 7, 15, 23))
    }

    @Test func aResendCarriesWhatIsOwedThen() throws {
        let carol = world.phone("carol/phone")
        alice.invite("bob", "carol")
        world.pass(500)
        carol.accept()
        world.pass(seconds: 1)
        let last = try #require(world.events(to: "bob/phone").last)
        #expect(last.at == 1_500)
        #expect(last.event?.name == .invited)
        #expect(last.event?.revision == 3)
        #expect(last.event?.call.state(of: "carol") == .accepted)
        #expect(last.event?.expiresIn == 58_500)
    }

    @Test func aPhoneThatMissedTheCancelStopsRingingWithinASecondOfBeingReachable() {
        alice.invite("bob")
        bob.vanish()
        world.pass(seconds: 5)
        alice.cancel()
        world.pass(seconds: 20)
        bob.isConnected = true
        bob.republishPresence()
        #expect(bob.names.last == .cancelled, "the connection came back")
        bob.comeOnline()
        #expect(bob.welcomes.last?.calls == [], "a new session does not ring at all")
        #expect(bob.names.isEmpty)
    }

    @Test func notYetReceivedComesAfterFiveSecondsSharp() {
        alice.invite("bob") { $0.notReceivedCheck = true }
        world.pass(4_999)
        #expect(alice.events.isEmpty)
        world.pass(1)
        #expect(alice.events.last?.call.state(of: "bob") == .notYetReceived)
        #expect(alice.events.last?.actor == nil)
        #expect(alice.events.last?.changes.map(\.state) == [.notYetReceived])
    }

    @Test func notReceivedAfterIsChosenByTheInvite() {
        alice.invite("bob") {
            $0.notReceivedCheck = true
            $0.notReceivedAfter = 12
        }
        world.pass(11_999)
        #expect(alice.events.isEmpty)
        world.pass(1)
        #expect(alice.events.last?.call.state(of: "bob") == .notYetReceived)
    }

    @Test func withoutTheCheckAnUnackedInvitationStaysInviting() {
        alice.invite("bob")
        world.pass(seconds: 59)
        #expect(alice.events.isEmpty)
        #expect(alice.get()?.call?.state(of: "bob") == .inviting)
    }

    @Test func aLateAckMovesNotYetReceivedToReceived() {
        alice.invite("bob") { $0.notReceivedCheck = true }
        world.pass(seconds: 30)
        bob.ack(2)
        #expect(alice.events.last?.call.state(of: "bob") == .received)
    }

    @Test func anAckInTimePreventsNotYetReceived() {
        alice.invite("bob") { $0.notReceivedCheck = true }
        world.pass(4_999)
        bob.ack(1)
        world.pass(seconds: 10)
        #expect(alice.events.map { $0.call.state(of: "bob") } == [.received])
    }

    @Test func notYetReceivedResendsTheInvitationFromThenOn() {
        alice.invite("bob") { $0.notReceivedCheck = true }
        world.pass(seconds: 14)
        #expect(times(.invited, to: "bob/phone") == times(inSeconds: 1, 3, 6, 8, 12))
    }

    @Test func nothingIsSentOnceAllIsOver() {
        alice.acks = false
        alice.invite("bob") { $0.notReceivedCheck = true }
        world.pass(seconds: 130)
        let count = world.published.count
        world.pass(seconds: 7200)
        #expect(world.published.count == count)
        #expect(world.service.waitingDeadlines == 0)
    }
}
