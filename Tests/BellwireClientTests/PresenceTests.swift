import SignalingProtocol
import Testing

@testable import BellwireClientCore

/// Section 1 of the protocol: presence, sessions, welcome.
@Suite struct PresenceTests {
    @Test func presenceIsPublishedOnlyAfterTheSubscriptionIsAnswered() {
        var device = Device()
        device.perform { $0.connected(session: "s1", now: $1) }
        device.pass(60_000)
        #expect(device.presences.isEmpty)
        device.perform { $0.subscribed(now: $1) }
        #expect(device.presences == [PresenceMessage(.online, session: "s1")])
    }

    @Test func presenceIsRepeatedAfter1248SecondsThenEvery8UntilTheWelcome() {
        var device = Device()
        let start = device.now
        device.connect("s1")
        device.pass(31_000)
        #expect(device.presenceTimes(since: start) == [0, 1000, 3000, 7000, 15_000, 23_000, 31_000])
        device.welcome("s1")
        device.take()
        device.pass(100_000)
        #expect(device.presences.isEmpty)
    }

    /// Whatever a service says of its lease: presence is published again after a pause, and within an hour.
    @Test(arguments: [Int.min, -1, 0, 1, Int.max])
    func aLeaseOfNoSenseIsRenewedAfterAPause(lease: Int) {
        var device = Device()
        device.connect("s1")
        device.welcome("s1", lease: lease)
        device.take()
        device.pass(900)
        #expect(device.presences.isEmpty)
        device.pass(3_600_000)
        #expect(!device.presences.isEmpty)
    }

    @Test func aClientThatOnlyAsksPublishesNone() {
        var configuration = ClientMachine.Configuration()
        configuration.publishesPresence = false
        var device = Device(configuration: configuration)
        device.send("r", .get(.init(callID: callID)))
        device.connect("s1")
        device.pass(1_000_000)
        device.perform { machine, now in machine.loggedOut(now: now) }
        #expect(device.presences.isEmpty)
        #expect(device.sentRequests.first == "r")
    }

    @Test func theAppIsToldOnlineOncePerConnection() {
        var device = Device()
        device.connect("s1")
        #expect(device.told.isEmpty)
        device.welcome("s1")
        device.welcome("s1")
        device.disconnect()
        device.disconnect()
        device.connect("s2")
        device.welcome("s2")
        #expect(device.told == [.online, .offline(reason: "gone"), .online])
    }

    @Test func aFailedAttemptToConnectIsNotToldAsOffline() {
        var device = Device()
        device.perform { $0.connected(session: "s1", now: $1) }
        device.disconnect()
        #expect(device.told.isEmpty)
    }

    @Test func aWelcomeNamingAnotherSessionMakesItPublishPresenceAgain() {
        var device = Device.online()
        device.welcome("other")
        #expect(device.presences == [PresenceMessage(.online, session: "s1")])
        #expect(device.told.isEmpty)
        device.take()
        device.pass(1000)
        #expect(device.presences.count == 1, "and it is repeated until the right welcome")
        device.welcome("s1")
        device.take()
        device.pass(10_000)
        #expect(device.presences.isEmpty)
    }

    /// Sessions are compared as bytes: Swift's strings hold both spellings equal.
    @Test func theTwinOfItsSessionIsAnotherSession() {
        var device = Device()
        device.connect("caf\u{E9}")
        device.welcome("cafe\u{301}")
        #expect(device.told.isEmpty)
        device.welcome("caf\u{E9}")
        #expect(device.told == [.online])
    }

    @Test func twoConnectionsThatClaimOneDeviceCannotMakeAStormOfPresence() {
        var device = Device.online()
        let start = device.now
        for _ in 0..<100 {
            device.welcome("other")
            device.pass(10)
        }
        device.pass(1)
        #expect(device.presenceTimes(since: start) == [0, 1000])
    }

    @Test func anIdleDeviceRenewsItsPresenceAtHalfOfTheLeaseAndRepeatsItUntilItIsAnswered() {
        var device = Device.online()
        let start = device.now
        device.pass(303_000)
        #expect(device.presenceTimes(since: start) == [300_000, 301_000, 303_000])
        device.welcome("s1")
        device.take()
        device.pass(299_999)
        #expect(device.presences.isEmpty)
        device.pass(1)
        #expect(device.presences.count == 1)
    }

    @Test func theWelcomeTellsHowLongTheLeaseIs() {
        var device = Device()
        device.connect("s1")
        device.welcome("s1", lease: 90)
        device.take()
        let start = device.now
        device.pass(45_000)
        #expect(device.presenceTimes(since: start) == [45_000])
        device.welcome("s1", lease: 4)
        device.take()
        device.pass(1999)
        #expect(device.presences.isEmpty)
        device.pass(1)
        #expect(device.presences == [PresenceMessage(.online, session: "s1")], "a changed lease counts at once")
    }

    @Test func nothingIsPublishedWithoutAConnection() {
        var device = Device.online()
        device.receive(.userStateChanged, talking(2))
        device.send("r1", quit)
        device.disconnect()
        device.take()
        device.pass(25_000)
        #expect(device.take().isEmpty)
    }

    @Test func aNewConnectionPublishesPresenceWithItsOwnSession() {
        var device = Device.online()
        device.disconnect()
        device.connect("s2")
        #expect(device.presences == [PresenceMessage(.online, session: "s2")])
    }

    @Test func logoutSaysGoodbyeWithTheSessionAndFailsWhatIsUnanswered() {
        var device = Device.online()
        device.send("r1", inviteBob)
        device.take()
        device.perform { $0.loggedOut(now: $1) }
        #expect(device.presences == [PresenceMessage(.offline(.logout), session: "s1")])
        #expect(device.outcomes == ["r1 disconnected"])
        #expect(device.machine.nextDeadline == nil)
    }

    @Test func logoutBeforeTheSubscriptionSaysNothing() {
        var device = Device()
        device.perform { $0.connected(session: "s1", now: $1) }
        device.perform { $0.loggedOut(now: $1) }
        #expect(device.presences.isEmpty)
    }
}
