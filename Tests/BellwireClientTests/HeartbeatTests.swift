import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// Section 3 of the protocol, Heartbeat.
@Suite struct HeartbeatTests {
    @Test func anAcceptedMemberOfAnAdvancedCallBeatsAtTheWelcomesInterval() {
        var device = Device.online()
        device.welcome("s1", heartbeat: 7)
        device.receive(.userStateChanged, talking(2))
        let start = device.now
        device.pass(21_000)
        #expect(device.heartbeatTimes(since: start) == [7000, 14_000, 21_000])
    }

    // MARK: Calls of an earlier run of the app

    private static func restarted() -> Device {
        var configuration = ClientMachine.Configuration()
        configuration.resumesCalls = false
        var device = Device.online(configuration: configuration)
        device.welcome("s1", calls: [talking(2)])
        return device
    }

    @Test func aCallOfAnEarlierRunIsOrphanedAndHasNoHeartbeats() {
        var device = Self.restarted()
        device.receive(.userStateChanged, talking(3))
        device.disconnect()
        device.connect("s2")
        device.welcome("s2", calls: [talking(3)])
        device.send("r1", quit)
        device.pass(100_000)
        #expect(device.heartbeatTimes(since: 0).isEmpty)
        #expect(device.machine.orphanedCalls == [callID])
    }

    @Test func aCallOfAnEarlierRunGoesOnWhenTheAppTouchesIt() {
        var device = Self.restarted()
        let start = device.now
        device.send("r1", .join(.init(callID: callID)))
        device.pass(20_000)
        #expect(device.heartbeatTimes(since: start).count == 2)
        #expect(device.machine.orphanedCalls.isEmpty)
    }

    @Test func aHeartbeatOfTheAppTouchesTheCall() {
        var device = Self.restarted()
        device.perform { $0.heartbeat(callID, now: $1) }
        #expect(device.machine.orphanedCalls.isEmpty)
    }

    @Test func aCallThatThisRunTookIsNotOrphaned() {
        var configuration = ClientMachine.Configuration()
        configuration.resumesCalls = false
        var device = Device.online(configuration: configuration)
        device.send("r1", accept)
        device.welcome("s1", calls: [talking(2)])
        device.receive(.userStateChanged, talking(2))
        #expect(device.machine.orphanedCalls.isEmpty)
    }

    @Test func withoutTheSettingAnEarlierCallGoesOn() {
        var device = Device.online()
        device.welcome("s1", calls: [talking(2)])
        #expect(device.machine.orphanedCalls.isEmpty)
    }

    @Test func newsOfTheCallDoNotPutTheHeartbeatOff() {
        var device = Device.online()
        device.receive(.userStateChanged, talking(2))
        let start = device.now
        device.pass(15_000)
        device.receive(.userStateChanged, talking(3))
        device.pass(5000)
        #expect(device.heartbeatTimes(since: start) == [20_000])
    }

    @Test func aShorterIntervalCountsForRunningCallsToo() {
        var device = Device.online()
        device.receive(.userStateChanged, talking(2))
        device.welcome("s1", calls: [talking(2)], heartbeat: 5)
        let start = device.now
        device.pass(5000)
        #expect(device.heartbeatTimes(since: start) == [5000])
    }

    @Test func theInviterBeatsWhileItRings() {
        var device = Device.online(alice)
        device.send("r1", inviteBob)
        device.respond("r1", call(1, mode: .advanced))
        let start = device.now
        device.pass(20_000)
        #expect(device.heartbeatTimes(since: start) == [20_000])
    }

    @Test(arguments: [
        call(2, .active, bob: .accepted, bobDevice: phone),
        talking(2, bobDevice: web),
        call(2, .active, mode: .advanced, bob: .received),
        call(2, .ended, mode: .advanced, bob: .accepted, bobDevice: phone),
        talking(2, bob: .quit),
    ])
    func nobodyElseBeats(call: CallSnapshot) {
        var device = Device.online()
        device.receive(.userStateChanged, call, expiresIn: 600_000)
        device.pass(100_000)
        #expect(device.heartbeatTimes(since: 0).isEmpty)
    }

    @Test func heartbeatsStopWhenTheCallMovesToAnotherDevice() {
        var device = Device.online()
        device.receive(.userStateChanged, talking(2))
        device.pass(20_000)
        #expect(device.heartbeatTimes(since: 0).count == 1)
        device.receive(.handledElsewhere, talking(3, bobDevice: web))
        device.take()
        device.pass(100_000)
        #expect(device.heartbeatTimes(since: 0).isEmpty)
    }

    @Test func heartbeatsStopWhenTheCallIsGone() {
        var device = Device.online()
        device.receive(.userStateChanged, talking(2))
        device.disconnect()
        device.connect("s2")
        device.welcome("s2")
        device.take()
        device.pass(100_000)
        #expect(device.heartbeatTimes(since: 0).isEmpty)
    }

    @Test func anOverdueHeartbeatIsSentAsSoonAsTheDeviceIsBack() {
        var device = Device.online()
        device.receive(.userStateChanged, talking(2))
        device.disconnect()
        device.pass(45_000)
        device.take()
        device.connect("s2")
        let start = device.now
        device.pass(0)
        #expect(device.heartbeatTimes(since: start) == [0])
    }

    @Test func anAbsurdIntervalIsBounded() {
        var device = Device.online()
        device.welcome("s1", heartbeat: .min)
        device.receive(.userStateChanged, talking(2))
        let start = device.now
        device.pass(2000)
        #expect(device.heartbeatTimes(since: start) == [1000, 2000])
        device.welcome("s1", heartbeat: .max)
        device.pass(10_000)
    }
}
