import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// Section 5 of the protocol: acks and revisions.
@Suite struct EventTests {
    /// No service would take an ack below 0, and so the event would come again and again.
    @Test func anEventBelowTheFirstRevisionIsAckedAsNone() {
        var device = Device.online()
        device.receive(.invited, call(.min), expiresIn: 60_000)
        #expect(device.acks == [0])
    }

    @Test func everyEventIsAckedAtOnceAndToldOnce() {
        var device = Device.online()
        device.receive(.invited, call(1), expiresIn: 60_000)
        #expect(device.acks == [1])
        device.receive(.invited, call(1), expiresIn: 59_000)
        #expect(device.acks == [1, 1], "a repeated event is acked too")
        #expect(device.told.count == 1)
    }

    @Test func anOlderEventIsIgnoredAndAckedWithWhatTheDeviceHas() {
        var device = Device.online()
        device.receive(.cancelled, call(5, .ended, bob: .cancelled))
        device.take()
        device.receive(.invited, call(1), expiresIn: 60_000)
        #expect(device.told.isEmpty)
        #expect(device.acks == [5])
        #expect(device.machine.knownCall(callID)?.countdown == nil, "it must not ring")
    }

    @Test func anEventOfARevisionThatCameAsResponseIsIgnored() {
        var device = Device.online()
        device.receive(.invited, call(1), expiresIn: 60_000)
        device.send("r1", accept)
        device.respond("r1", call(2, .ended, bob: .accepted, bobDevice: phone))
        device.take()
        device.receive(.userStateChanged, call(2, .ended, bob: .accepted, bobDevice: phone))
        #expect(device.told.isEmpty)
        #expect(device.acks == [2])
    }

    @Test func aWelcomeDoesNotCountAsRevisionHad() {
        var device = Device.online()
        device.welcome("s1", calls: [call(3)])
        #expect(device.told == [.snapshot(call(3))])
        device.take()
        device.receive(.invited, call(3), expiresIn: 60_000)
        #expect(device.told.count == 1)
    }

    @Test func aReInvitationIsToldAgain() {
        var device = Device.online()
        device.receive(.cancelled, call(2, .active, mode: .advanced, bob: .cancelled))
        device.take()
        device.receive(.invited, call(3, .active, mode: .advanced), expiresIn: 60_000)
        #expect(device.told.count == 1)
        #expect(device.machine.knownCall(callID)?.countdown != nil)
    }

    @Test func anEventOfALaterProtocolIsAcked() {
        var device = Device.online()
        device.perform { $0.receivedUnknownEvent(callID, revision: 7, now: $1) }
        #expect(device.acks == [7])
        #expect(device.told.isEmpty)
    }

    @Test func theServicesErrorsAreTold() {
        var device = Device.online()
        device.receive(.error(SignalingError(.badRequest, "what?")))
        #expect(device.told == [.error(SignalingError(.badRequest, "what?"))])
    }

    @Test func theTableOfCallsIsBoundedAndForgetsEndedOnesFirst() {
        var configuration = ClientMachine.Configuration()
        configuration.knownCalls = 3
        var device = Device.online(configuration: configuration)
        let ids = (0..<4).map { CallID("c\($0)")! }
        device.receive(.invited, call(1, id: ids[0]), expiresIn: 60_000)
        device.pass(1)
        device.receive(.cancelled, call(2, .ended, bob: .cancelled, id: ids[1]))
        device.pass(1)
        device.receive(.invited, call(1, id: ids[2]), expiresIn: 60_000)
        device.pass(1)
        device.receive(.invited, call(1, id: ids[3]), expiresIn: 60_000)
        #expect(device.machine.calls.map(\.callID) == [ids[0], ids[2], ids[3]])
        device.take()
        device.receive(.invited, call(1, id: CallID("c4")!), expiresIn: 60_000)
        #expect(device.machine.calls.map(\.callID) == [ids[0], ids[2], ids[3]])
        #expect(device.refused == [CallID("c4")!], "all live: the newest one that rings is not taken in")
        #expect(device.told.isEmpty && device.acks.isEmpty)
    }
}
