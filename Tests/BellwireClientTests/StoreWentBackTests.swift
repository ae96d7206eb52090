import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// The store has lost writes that were answered, and gives revisions a second time (docs/protocol.md, section 5).
@Suite struct StoreWentBackTests {
    /// Returns a device whose call rings since revision 1, which was made at 1,000. The call had revision 3, which was
    /// made at 3,000 and is lost.
    private func ringing() -> Device {
        var device = Device.online()
        device.receive(.invited, call(1), time: 1_000, expiresIn: 60_000)
        device.receive(.userStateChanged, call(3), time: 3_000)
        device.take()
        return device
    }

    @Test(arguments: [2, 3])
    func aLaterEventOfARevisionThatWasHadStopsTheRinging(revision: Int) {
        var device = ringing()
        device.receive(.cancelled, call(revision, .ended, bob: .cancelled), time: 5_000)
        #expect(device.told.count == 1)
        #expect(device.acks == [revision])
        #expect(device.machine.knownCall(callID)?.isLive == false)
        #expect(device.machine.knownCall(callID)?.countdown == nil)
    }

    @Test(arguments: [2, 3])
    func anEventThatIsNotLaterIsIgnored(revision: Int) {
        var device = ringing()
        device.receive(.cancelled, call(revision, .ended, bob: .cancelled), time: 3_000)
        #expect(device.told.isEmpty)
        #expect(device.acks == [3])
        #expect(device.machine.knownCall(callID)?.isLive == true)
    }

    @Test func aLaterEventComesOnceAndTheNextOnesAreCountedFromIt() {
        var device = ringing()
        device.receive(.invited, call(2), time: 5_000, expiresIn: 50_000)
        device.receive(.invited, call(2), time: 5_000, expiresIn: 49_000)
        #expect(device.told.count == 1)
        device.receive(.cancelled, call(3, .ended, bob: .cancelled), time: 6_000)
        #expect(device.told.count == 2)
        #expect(device.acks == [2, 2, 3])
    }

    @Test func aLostAcceptDoesNotKeepTheDeviceInTheCall() {
        var device = Device.online()
        device.receive(.invited, call(1, mode: .advanced), time: 1_000, expiresIn: 60_000)
        device.send("r1", accept)
        device.respond("r1", talking(2), time: 2_000)
        device.take()
        // The invitation expired: the service does not know of the answer.
        device.receive(.timeout, call(2, .ended, mode: .advanced, bob: .timeout), time: 61_000)
        #expect(device.told.count == 1)
        #expect(device.machine.knownCall(callID)?.nextHeartbeat == nil)
    }

    @Test func aLaterResponseIsNewsToo() {
        var device = ringing()
        device.send("r1", get)
        device.respond("r1", call(2, .ended, bob: .cancelled), time: 5_000)
        #expect(device.told == [.snapshot(call(2, .ended, bob: .cancelled))])
        #expect(device.machine.knownCall(callID)?.isLive == false)
    }

    @Test func whatAWelcomeToldOfALostRevisionIsReplacedByALaterEvent() {
        var device = Device.online()
        device.receive(.invited, call(1), time: 1_000, expiresIn: 60_000)
        device.welcome("s1", calls: [call(4)], serverTime: 4_000)
        device.receive(.cancelled, call(2, .ended, bob: .cancelled), time: 5_000)
        #expect(device.machine.knownCall(callID)?.isLive == false)
    }

    @Test func aWelcomeOfANewConnectionBringsTheCallBackAsItIs() {
        var device = Device.online()
        device.receive(.invited, call(1), time: 1_000, expiresIn: 60_000)
        device.receive(.cancelled, call(2, .ended, bob: .cancelled), time: 2_000)
        device.disconnect()
        device.connect("s2")
        device.take()
        device.welcome("s2", calls: [call(1)], serverTime: 9_000)
        #expect(device.told.last == .snapshot(call(1)))
        device.receive(.invited, call(1), time: 1_000, expiresIn: 50_000)
        #expect(device.told.count == 3, "online, the call, and that it rings")
        #expect(device.machine.knownCall(callID)?.countdown != nil)
    }

    @Test func anOlderWelcomeOfTheSameConnectionBringsNothingBack() {
        var device = Device.online()
        device.receive(.invited, call(1), time: 1_000, expiresIn: 60_000)
        device.receive(.cancelled, call(2, .ended, bob: .cancelled), time: 2_000)
        device.take()
        device.welcome("s1", calls: [call(1)], serverTime: 2_001)
        #expect(device.told.isEmpty)
    }
}
