import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// A welcome brings the app up to date on its calls.
@Suite struct ResyncTests {
    /// Bob talks; then his connection is new.
    private func reconnected() -> Device {
        var device = Device.online()
        device.receive(.userStateChanged, talking(2))
        device.disconnect()
        device.pass(1000)
        device.connect("s2")
        device.take()
        return device
    }

    @Test func aCallThatTheWelcomeDoesNotListIsToldAsGoneExactlyOnce() {
        var device = reconnected()
        device.welcome("s2")
        #expect(device.told == [.online, .gone(talking(2))])
        device.take()
        device.welcome("s2")
        device.disconnect()
        device.connect("s3")
        device.take()
        device.welcome("s3")
        #expect(device.told == [.online])
    }

    @Test func aWelcomeThatHadToLeaveOutCallsMakesNoneGone() {
        var device = reconnected()
        device.welcome("s2", omitted: 1)
        #expect(device.told == [.online])
    }

    @Test func aListedCallIsNotToldAgainUnlessItChanged() {
        var device = reconnected()
        device.welcome("s2", calls: [talking(2)])
        #expect(device.told == [.online])
        device.take()
        device.welcome("s2", calls: [talking(4)])
        #expect(device.told == [.snapshot(talking(4))])
    }

    @Test func aRestartedAppIsToldOfItsCalls() {
        var device = Device()
        device.connect("s1")
        device.welcome("s1", calls: [talking(7)])
        #expect(device.told == [.online, .snapshot(talking(7))])
    }

    @Test func aCallHeardOfOnThisConnectionIsNotGone() {
        // The event of the call overtook the welcome, which was written before the call was made.
        var device = reconnected()
        let other = call(1, id: CallID("other")!)
        device.receive(.invited, other, expiresIn: 60_000)
        device.take()
        device.welcome("s2")
        #expect(device.told == [.online, .gone(talking(2))])
    }

    @Test func aCallHeardOfLongAgoOnThisConnectionIsGoneAsWell() {
        var device = Device.online()
        device.receive(.userStateChanged, talking(2))
        device.pass(80_000)
        device.take()
        device.welcome("s1")
        #expect(device.told.isEmpty)
        device.pass(220_000)
        device.welcome("s1")
        #expect(device.told == [.gone(talking(2))])
    }

    @Test func aCallWhoseInviteIsUnansweredIsNotGone() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.receive(.userStateChanged, call(2))
        device.disconnect()
        device.connect("s2")
        device.take()
        device.welcome("s2")
        #expect(device.told == [.online])
        device.take()
        device.respond("r1", call(3, .ended, bob: .rejected))
        #expect(device.told == [.snapshot(call(3, .ended, bob: .rejected))])
        #expect(device.outcomes == ["r1 ok"])
    }

    @Test func aCallThatIsOverForThisUserIsNotGone() {
        var device = Device.online()
        device.receive(.userStateChanged, talking(3, bob: .quit))
        device.disconnect()
        device.connect("s2")
        device.take()
        device.welcome("s2")
        #expect(device.told == [.online])
    }

    @Test func anOlderWelcomeBringsNothingBackToLife() {
        var device = Device.online()
        device.receive(.cancelled, call(2, .ended, bob: .cancelled))
        device.take()
        device.welcome("s1", calls: [call(1)])
        #expect(device.told.isEmpty)
        #expect(device.machine.knownCall(callID)?.countdown == nil)
    }

    @Test func anEventOlderThanTheWelcomeIsToldButDoesNotTurnTheCallBack() {
        var device = Device.online()
        device.welcome("s1", calls: [talking(3)])
        device.take()
        device.receive(.invited, call(1, mode: .advanced), expiresIn: 5000)
        #expect(device.told.count == 1)
        #expect(device.machine.knownCall(callID)?.snapshot == talking(3))
        device.take()
        device.pass(20_000)
        #expect(device.told.isEmpty, "the invitation was accepted: nothing rings")
        #expect(device.heartbeatTimes(since: 0).count == 1)
    }

    @Test func aCallThatTheServiceDoesNotFindIsGone() {
        var device = Device.online()
        device.receive(.userStateChanged, talking(2))
        device.send("r1", quit)
        device.take()
        device.respond("r1", .callNotFound)
        #expect(device.outcomes == ["r1 callNotFound"])
        #expect(device.told == [.gone(talking(2))])
    }
}
