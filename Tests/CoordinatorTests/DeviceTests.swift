import CallCore
import SignalingProtocol
import Testing

/// A user with several devices (docs/protocol.md, section 5).
struct DeviceTests {
    let world = World()
    let alice: Phone
    let phone: Phone
    let web: Phone

    init() {
        alice = world.phone("alice/phone")
        phone = world.phone("bob/phone")
        web = world.phone("bob/web")
        _ = world.lines()
    }

    @Test func allDevicesRingAndTheOthersStopWhenOneAnswers() {
        alice.invite("bob")
        #expect(world.lines().filter { $0.hasPrefix("bob") } == ["bob call.invited 1"])
        #expect(phone.names == [.invited])
        #expect(web.names == [.invited])
        phone.accept()
        #expect(
            world.lines() == [
                "alice/phone call.userStateChanged 3", "bob/phone ok 3", "bob/web call.handledElsewhere 3",
            ])
        #expect(web.events.last?.changes.map(\.userID) == [phone.user], "the own entry included")
        #expect(web.events.last?.missed == false)
    }

    @Test func rejectingOnOneStopsTheOthers() {
        alice.invite("bob")
        phone.reject()
        #expect(web.names == [.invited, .handledElsewhere])
        #expect(phone.names == [.invited])
    }

    @Test func handledElsewhereComesOnceAndNothingMore() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", "carol", mode: .advanced)
        phone.accept()
        carol.accept()
        alice.end()
        world.pass(seconds: 70)
        #expect(web.names.filter { $0 == .handledElsewhere }.count == 1)
        #expect(web.names.last == .handledElsewhere)
    }

    @Test func theInvitersOtherDevicesAreToldOfTheCall() {
        let pad = world.phone("alice/pad")
        _ = world.lines()
        alice.invite("bob")
        #expect(
            world.lines().filter { $0.hasPrefix("alice") } == [
                "alice/phone ok 1", "alice/pad call.created 1", "alice/phone call.userStateChanged 2",
            ])
        phone.accept()
        #expect(pad.names == [.created])
    }

    @Test func answeringOnTheSecondDeviceIsRefused() {
        alice.invite("bob")
        phone.accept()
        let error = web.accept()?.error
        #expect(error?.code == .answeredElsewhere)
        #expect(web.reject()?.code == .answeredElsewhere)
        #expect(phone.accept()?.code == .callEnded)
        #expect(phone.accept()?.error?.state == "accepted")
    }

    @Test func bothDevicesInOneBatchHaveOneWinner() {
        alice.invite("bob")
        _ = world.lines()
        world.send([web.up(.accept(.init(callID: callID))), phone.up(.reject(.init(callID: callID)))])
        #expect(
            world.lines().prefix(3) == [
                "alice/phone call.userStateChanged 3", "bob/web ok 3", "bob/phone answeredElsewhere accepted",
            ])
        #expect(phone.names.last == .handledElsewhere)
    }

    @Test func aDeviceThatComesOnlineDuringTheRingingRingsToo() {
        alice.invite("bob")
        let pad = world.phone("bob/pad")
        #expect(pad.names == [.invited])
        #expect(pad.welcomes.last?.calls.map(\.callID) == [callID])
    }

    @Test func aDeviceThatComesOnlineAfterTheAnswerDoesNotRing() {
        alice.invite("bob", "carol", mode: .advanced)
        phone.accept()
        let pad = world.phone("bob/pad")
        #expect(pad.names == [.handledElsewhere])
        #expect(pad.welcomes.last?.calls.map(\.callID) == [callID], "it may take the call over")
    }

    @Test func theAnsweringDeviceRestartedFindsItsCall() {
        alice.invite("bob", mode: .advanced)
        phone.accept()
        phone.comeOnline()
        #expect(phone.welcomes.last?.calls.first?.member(phone.user)?.device == phone.address.deviceID)
        #expect(phone.names == [.userStateChanged])
    }

    @Test func onlyOneDevicesAckIsNeededForReceived() {
        phone.acks = false
        web.acks = false
        alice.invite("bob")
        web.ack(1)
        #expect(alice.events.last?.call.state(of: "bob") == .received)
        phone.ack(1)
        #expect(alice.events.count == 1, "the second one changes nothing")
    }

    @Test func aDeviceThatWasAwayAtTheCancelHearsOfItInItsSession() {
        alice.invite("bob")
        web.vanish()
        alice.cancel()
        web.isConnected = true
        world.pass(seconds: 1)
        #expect(web.names == [.invited, .cancelled])
    }

    @Test func missedIsNotSaidWhenSomeDeviceResponded() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", "carol", mode: .advanced)
        carol.accept()
        phone.reject()
        alice.add("bob")
        alice.cancel(invitees: ["bob"])
        #expect(phone.names.last == .cancelled)
        #expect(phone.events.last?.missed == false)
    }

    @Test func eachUserGetsOnlyItsOwnTopics() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", mode: .advanced)
        phone.accept()
        alice.end()
        #expect(carol.events.isEmpty)
        #expect(carol.responses.isEmpty)
        #expect(world.published.allSatisfy { $0.topic != "carol" })
    }
}
