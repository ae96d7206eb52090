import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// The service holds a session to be over (docs/protocol.md, section 1, Presence).
@Suite struct SessionOverTests {
    private func over(_ session: String?) -> DownMessage {
        .error(SignalingError(.sessionOver, "it is over", session: session))
    }

    @Test func theOwnSessionIsGivenUpForAnother() {
        var device = Device.online()
        device.receive(over("s1"))
        #expect(device.take() == [.renewSession])
        device.machine.renewing()
        device.connect("s2")
        #expect(device.presences == [PresenceMessage(.online, session: "s2")])
        #expect(device.told.isEmpty, "the app sees nothing of it")
    }

    @Test func anotherSessionIsNobodysBusinessHere() {
        var device = Device.online()
        device.receive(over("s0"))
        device.receive(over(nil))
        #expect(device.take().isEmpty)
        device.disconnect()
        device.take()
        device.receive(over("s1"))
        #expect(device.take().isEmpty)
    }

    @Test func aServiceThatSaysSoAllTheTimeMakesNoStormOfConnections() {
        var device = Device.online()
        var renewals = 0
        for round in 2..<100 {
            device.receive(over("s\(round - 1)"))
            renewals += device.take().count { $0 == .renewSession }
            device.machine.renewing()
            device.connect("s\(round)")
            device.pass(100)
        }
        #expect(renewals == 2, "of 9.8 s: the first, and one after 8 s")
    }

    /// A `sessionOver` that comes within the pause is not forgotten: the service would take the device for offline
    /// until its presence is renewed.
    @Test func whatWasSaidTooSoonIsAskedAgain() {
        var device = Device.online()
        device.receive(over("s1"))
        device.machine.renewing()
        device.connect("s2")
        device.pass(100)
        device.receive(over("s2"))
        device.take()
        let before = device.presences.count
        device.pass(8_000)
        #expect(device.presences.count > before)
        device.receive(over("s2"))
        #expect(device.take().contains(.renewSession))
    }

    @Test func whoPublishesNoPresenceHasNoSession() {
        var configuration = ClientMachine.Configuration()
        configuration.publishesPresence = false
        var device = Device(configuration: configuration)
        device.connect("s1")
        device.receive(over("s1"))
        #expect(device.take().isEmpty)
    }
}
