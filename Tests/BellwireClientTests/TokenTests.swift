import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// Section 1 of the protocol: tokens that end.
@Suite struct TokenTests {
    private func renewing() -> ClientMachine.Configuration {
        var configuration = ClientMachine.Configuration()
        configuration.renewsTokens = true
        return configuration
    }

    /// The times follow the service's clock, which differs from this device's clock.
    @Test(arguments: [
        (3_600_000, 3_540_000), (120_000, 60_000), (100_000, 50_000), (10_000, 5_000), (1_000, 1_000), (-5, 1_000),
    ])
    func anotherTokenIsAskedForAMinuteBeforeOrHalfWay(life: Int64, expected: Int64) {
        var device = Device(configuration: renewing())
        device.connect("s1")
        let start = device.now
        device.welcome("s1", serverTime: 7_000_000, tokenExpiresAt: 7_000_000 + life)
        device.pass(7_200_000)
        #expect(device.renewalTimes(since: start) == [expected])
    }

    @Test(arguments: [Int64.min, .max])
    func timesOfNoSenseStopNothing(expiresAt: Int64) {
        var device = Device(configuration: renewing())
        device.connect("s1")
        device.welcome("s1", serverTime: 7_000_000, tokenExpiresAt: expiresAt)
        device.pass(900)
        #expect(device.renewalTimes(since: 0).isEmpty)
        device.pass(1_000)
        #expect(device.renewalTimes(since: 0).count <= 1)
    }

    @Test func withoutAProviderNothingIsAsked() {
        var device = Device()
        device.connect("s1")
        device.welcome("s1", serverTime: 0, tokenExpiresAt: 1_000)
        device.receive(.tokenWillExpire(at: 1_000))
        device.pass(60_000)
        #expect(device.renewalTimes(since: 0).isEmpty)
    }

    /// A client that only asks is not welcomed; and tokens that live for seconds are no reason to connect all the time.
    @Test func aWarningIsEnough() {
        var device = Device(configuration: renewing())
        device.connect("s1")
        let start = device.now
        device.receive(.tokenWillExpire(at: 1_000))
        device.receive(.tokenWillExpire(at: 1_000))
        device.pass(20_000)
        #expect(device.renewalTimes(since: start) == [5_000])
    }

    @Test func theAppSeesNothingOfTheRenewal() {
        var device = Device(configuration: renewing())
        device.connect("s1")
        device.welcome("s1")
        device.receive(.invited, call(1))
        device.send("r1", accept)
        device.take()
        device.perform { machine, _ in
            machine.renewing()
            return []
        }
        device.connect("s2")
        #expect(device.presences == [PresenceMessage(.online, session: "s2")])
        #expect(device.sentRequests == ["r1"], "the answer to it may have gone with the connection")
        device.welcome("s2", calls: [call(1)])
        device.receive(.invited, call(1))
        #expect(device.told.isEmpty)
        #expect(device.acks == [1])
        device.disconnect()
        #expect(device.told == [.offline(reason: "gone")])
    }

    @Test func aRenewalThatFailsIsALostConnection() {
        var device = Device.online(configuration: renewing())
        device.perform { machine, _ in
            machine.renewing()
            return []
        }
        device.disconnect()
        #expect(device.told == [.offline(reason: "gone")])
        device.connect("s2")
        device.welcome("s2")
        #expect(device.told.last == .online)
    }
}
