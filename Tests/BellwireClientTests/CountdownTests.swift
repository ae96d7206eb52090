import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// The countdown of an invitation runs on the device's clock.
@Suite struct CountdownTests {
    @Test func anInvitationThatPassesWithoutNewsStopsRinging() {
        var device = Device.online()
        device.receive(.invited, call(1), expiresIn: 10_000)
        device.take()
        device.pass(12_999)
        #expect(device.told.isEmpty)
        device.pass(1)
        #expect(device.told == [.invitationExpired(call(1))])
        device.pass(1_000_000)
        #expect(device.told.count == 1)
    }

    @Test func itStopsAlsoWithoutAConnection() {
        var device = Device.online()
        device.receive(.invited, call(1), expiresIn: 10_000)
        device.disconnect()
        device.take()
        device.pass(13_000)
        #expect(device.told == [.invitationExpired(call(1))])
    }

    @Test func theServicesClockDoesNotMatter() {
        var device = Device.online()
        let farAway: Int64 = 9_000_000_000_000
        device.receive(.invited, call(1, expiresAt: farAway), time: farAway - 60_000, expiresIn: 10_000)
        device.pass(13_000)
        #expect(device.told.last == .invitationExpired(call(1, expiresAt: farAway)))
    }

    @Test(arguments: [Int.max, .min, 0]) func absurdCountdownsAreBounded(expiresIn: Int) {
        var device = Device.online()
        device.receive(.invited, call(1, expiresAt: .min), time: .max, expiresIn: expiresIn)
        device.pass(603_000)
        #expect(device.told.last == .invitationExpired(call(1, expiresAt: .min)))
    }

    @Test func newsStopTheCountdown() {
        var device = Device.online()
        device.receive(.invited, call(1), expiresIn: 10_000)
        device.receive(.cancelled, call(2, .ended, bob: .cancelled))
        device.take()
        device.pass(60_000)
        #expect(device.told.isEmpty)
    }

    @Test func newsOfOtherMembersDoNotProlongIt() {
        var device = Device.online()
        device.receive(.invited, call(1, expiresAt: 60_000), time: 0, expiresIn: 60_000)
        device.pass(50_000)
        device.receive(.userStateChanged, call(2, expiresAt: 60_000), time: 5000)
        device.take()
        device.pass(13_000)
        #expect(device.told == [.invitationExpired(call(2, expiresAt: 60_000))])
    }

    @Test func aReInvitationStartsANewCountdown() {
        var device = Device.online()
        device.receive(.invited, call(1, expiresAt: 10_000), expiresIn: 10_000)
        device.pass(5000)
        device.receive(.invited, call(3, expiresAt: 70_000), expiresIn: 60_000)
        device.take()
        device.pass(62_999)
        #expect(device.told.isEmpty)
        device.pass(1)
        #expect(device.told.count == 1)
    }

    @Test func aCallFoundInTheWelcomeCountsDownFromTheServicesOwnTimes() {
        var device = Device.online()
        device.welcome("s1", calls: [call(1, expiresAt: 1_015_000)], serverTime: 1_000_000)
        device.take()
        device.pass(17_999)
        #expect(device.told.isEmpty)
        device.pass(1)
        #expect(device.told.count == 1)
    }

    @Test func theInvitersOwnCallDoesNotRingForEverEither() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.respond("r1", call(1, expiresAt: 60_000), time: 0)
        device.take()
        device.pass(62_999)
        #expect(device.told.isEmpty)
        device.pass(1)
        #expect(device.told == [.invitationExpired(call(1, expiresAt: 60_000))])
    }

    @Test func aTruthThatComesLateIsStillTold() {
        var device = Device.online()
        device.receive(.invited, call(1), expiresIn: 10_000)
        device.pass(13_000)
        device.take()
        device.receive(.timeout, call(2, .ended, bob: .timeout))
        #expect(device.told.count == 1)
    }

    @Test func aRepeatedInvitationDoesNotRingAgainAfterItWasGivenUp() {
        var device = Device.online()
        device.receive(.invited, call(1), expiresIn: 10_000)
        device.pass(13_000)
        device.take()
        device.receive(.invited, call(1), expiresIn: 10_000)
        #expect(device.told.isEmpty)
        device.pass(60_000)
        #expect(device.told.isEmpty)
    }
}
