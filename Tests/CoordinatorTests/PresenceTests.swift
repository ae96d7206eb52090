import CallCore
import Coordinator
import SignalingProtocol
import Testing

/// Devices coming and going (docs/protocol.md, section 1).
struct PresenceTests {
    let world = World()
    let alice: Phone
    let bob: Phone

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
        _ = world.lines()
    }

    @Test func aDeviceIsWelcomedOnItsOwnTopic() throws {
        let carol = world.phone("carol/phone")
        #expect(world.lines() == ["carol/phone welcome s1"])
        let welcome = try #require(carol.welcomes.last)
        #expect(welcome.serverTime == world.clock.now)
        #expect(welcome.heartbeatInterval == 20)
        #expect(welcome.heartbeatTimeout == 60)
        #expect(world.published.last?.expirySeconds == 60)
    }

    @Test func welcomeListsLiveCallsAndComesBeforeWhatIsOwed() {
        bob.logOut()
        alice.invite("bob", callID: "old")
        alice.cancel("old")
        world.pass(seconds: 1)
        #expect(alice.invite("bob", callID: "new")?.success?.offline == [bob.user])
        _ = world.lines()
        bob.comeOnline()
        #expect(
            world.lines().filter { $0.hasPrefix("bob") } == [
                "bob/phone welcome s2 new", "bob/phone call.invited 1",
            ])
    }

    @Test func anOfflineInviteeRingsWhenItComesOnlineInTime() {
        bob.logOut()
        alice.invite("bob")
        world.pass(59_900)
        bob.comeOnline()
        #expect(bob.names == [.invited])
        #expect(bob.events.last?.expiresIn == 100)
        #expect(alice.events.last?.call.state(of: "bob") == .received)
    }

    @Test func anOfflineInviteeDoesNotRingAfterTheInvitationExpired() {
        bob.logOut()
        alice.invite("bob")
        world.pass(60_001)
        bob.comeOnline()
        #expect(bob.names.isEmpty, "the call was over before the session began")
    }

    @Test func theSameSessionPublishedAgainIsWelcomedAndKeepsItsAcks() {
        alice.invite("bob")
        _ = world.lines()
        bob.republishPresence()
        #expect(world.lines() == ["bob/phone welcome s1 c"])
    }

    @Test func theSameSessionPublishedAgainIsSentWhatItHasNotAcked() {
        bob.acks = false
        alice.invite("bob")
        _ = world.lines()
        bob.republishPresence()
        #expect(world.lines() == ["bob/phone welcome s1 c", "bob/phone call.invited 1"])
    }

    @Test func aNewSessionBeginsAtRevisionZero() {
        alice.invite("bob")
        bob.comeOnline()
        #expect(bob.names == [.invited], "a restarted app is told again of a call that rings")
        #expect(world.stored(callID)?.revision == 2)
    }

    @Test func aNewSessionOfTheCallerIsToldOfItsOwnCall() {
        alice.invite("bob")
        alice.comeOnline()
        #expect(alice.welcomes.last?.calls.map(\.callID) == [callID])
        #expect(alice.names == [.userStateChanged])
    }

    @Test func callsOverBeforeTheSessionAreNotOwed() {
        alice.invite("bob")
        world.pass(seconds: 5)
        alice.cancel()
        world.pass(1)
        bob.comeOnline()
        #expect(bob.names.isEmpty)
    }

    @Test func callsOverWithinTheSessionAreOwedForAMinute() {
        alice.invite("bob")
        bob.vanish()
        world.pass(seconds: 1)
        alice.cancel()
        bob.isConnected = true
        world.pass(59_999)
        bob.republishPresence()
        #expect(bob.names.suffix(1) == [.cancelled])
    }

    @Test func callsOverForMoreThanAMinuteAreOwedNoMore() {
        bob.acks = false
        alice.invite("bob")
        alice.cancel()
        world.pass(60_000)
        _ = world.lines()
        bob.republishPresence()
        #expect(world.lines() == ["bob/phone welcome s1"])
    }

    @Test func goodbyeOfAnEarlierSessionChangesNothing() {
        bob.comeOnline(as: "new")
        world.send([bob.presence(.offline(.logout), session: "s1")])
        alice.invite("bob")
        #expect(alice.responses.last?.outcome.success?.offline == [])
        #expect(bob.names == [.invited])
    }

    @Test func onlineOfASessionThatIsOverIsNotWelcomedAndToldWhy() {
        world.send([bob.presence(.offline(.lost), session: "later")])
        _ = world.lines()
        world.send([bob.presence(.online, session: "later")])
        #expect(world.lines() == ["bob/phone error sessionOver"])
        world.pass(119_999)
        world.send([bob.presence(.online, session: "later")])
        #expect(world.lines() == ["bob/phone error sessionOver"])
        world.pass(1)
        world.send([bob.presence(.online, session: "later")])
        #expect(world.lines() == ["bob/phone welcome later"])
    }

    @Test func theEmptySessionIsNeverRememberedAsOver() {
        let carol = world.stranger("carol/phone")
        for _ in 0..<3 {
            world.send([carol.presence(.online, session: "")])
            #expect(world.lines() == ["carol/phone welcome "])
            world.send([carol.presence(.offline(.logout), session: "")])
        }
        #expect(alice.invite("carol")?.success?.offline == [carol.user])
    }

    @Test func aDeviceThatWentOfflineIsListedAsOffline() {
        bob.lose()
        #expect(alice.invite("bob")?.success?.offline == [bob.user])
    }

    @Test func presenceIsALeaseOfTenMinutes() {
        world.pass(599_999)
        #expect(alice.invite("bob", callID: "c1")?.success?.offline == [])
        let carol = world.phone("carol/phone", acks: false)
        world.pass(600_000)
        #expect(alice.invite("carol", callID: "c2")?.success?.offline == [carol.user])
    }

    @Test(arguments: [
        #"{"type":"call.heartbeat","callID":"none"}"#, #"{"type":"ack","callID":"none","revision":1}"#,
        #"{"type":"ack","messageID":"m"}"#, #"{"type":"call.get","id":"x","callID":"none"}"#,
        #"{"type":"call.unheardOf","id":"x"}"#, "not JSON",
    ])
    func anythingThatADeviceSendsRenewsItsLease(_ payload: String) {
        world.pass(599_000)
        alice.republishPresence()
        world.send("bellwire/v1/up/bob/phone", payload)
        world.pass(599_000)
        #expect(alice.invite("bob")?.success?.offline == [])
    }

    @Test func aMemberWhoOnlySendsHeartbeatsHearsOfTheEndOfALongCall() {
        alice.invite("bob", mode: .advanced)
        bob.accept()
        for _ in 0..<60 {
            world.pass(seconds: 20)
            alice.heartbeat()
            bob.heartbeat()
        }
        alice.end()
        #expect(bob.names.last == .ended)
        #expect(alice.invite("bob", callID: "next")?.success?.offline == [])
    }

    @Test func theEleventhDeviceReplacesTheOneSilentLongest() {
        for index in 1...9 {
            world.pass(1000)
            world.phone("bob/d\(index)", acks: false)
        }
        world.pass(1000)
        bob.republishPresence()
        world.pass(1000)
        world.phone("bob/d10", acks: false)
        alice.invite("bob")
        world.pass(1000)
        bob.accept()
        let told = Set(world.published.filter { $0.event?.name == .handledElsewhere }.map(\.topic))
        #expect(told == Set((2...10).map { "bob/d\($0)" }))
    }

    @Test(arguments: ["", "{}", "[]", #"{"online":"yes"}"#, #"{"online":true,"session":7}"#])
    func aMalformedPresenceIsAnsweredByAnError(_ payload: String) {
        world.send("bellwire/v1/presence/bob/phone", payload)
        #expect(world.lines() == ["bob/phone error badRequest"])
    }

    @Test func aPresenceThatIsTooLargeIsAnsweredByAnError() {
        let payload = #"{"online":true,"pad":""# + String(repeating: "x", count: 70_000) + "\"}"
        world.send("bellwire/v1/presence/bob/phone", payload)
        #expect(world.lines() == ["bob/phone error tooLarge"])
    }

    // MARK: Several at once

    /// The list of the second user names a call that turns out to be over, and the store cannot put the list right.
    @Test func nobodyIsWelcomedWhoseCallsAreNotLookedAt() {
        let race = Race()
        let (dave, erin) = (race.world.phone("dave/phone"), race.world.phone("erin/phone"))
        erin.invite("dave", callID: "d")
        race.alice.invite("bob", callID: "b")
        let (tablet, laptop) = (race.world.stranger("dave/tablet"), race.world.stranger("bob/laptop"))
        race.world.route = { _ in 0 }
        var loads = 0
        race.store.failing = [.tidy]
        race.store.beforeOperation = { [world = race.world, alice = race.alice, store = race.store] operation in
            guard operation == .load else { return }
            loads += 1
            store.beforeOperation = nil
            world.send([alice.up(.cancel(.init(callID: CallID("b")!)))], to: 1)
        }
        race.world.send([tablet.presence(.online, session: "t"), laptop.presence(.online, session: "l")])
        #expect(loads == 1 && race.store.tidied == [race.bob.user])
        #expect(tablet.welcomes.isEmpty && laptop.welcomes.isEmpty)
        race.store.failing = []
        race.world.send([tablet.presence(.online, session: "t"), laptop.presence(.online, session: "l")])
        #expect(tablet.welcomes.map(\.calls.count) == [1] && tablet.names == [.invited])
        #expect(laptop.welcomes.map(\.calls.count) == [0])
        #expect(dave.names == [.invited])
    }

    @Test func devicesThatComeTogetherAreNotWelcomedBeyondWhatTheirUserMayBeSent() {
        var settings = ServiceSettings()
        settings.limits.sentBytes = .init(rate: 100, burst: 100)
        let world = World(settings)
        let devices = (0..<5).map { world.stranger("alice/d\($0)") }
        world.send(devices.map { $0.presence(.online, session: "s") })
        #expect(devices.map(\.welcomes.count).reduce(0, +) == 1)
        #expect(world.service.counters[.messagesRefused, "rateLimited"] == 4)
        world.pass(seconds: 60)
        world.send([devices[4].presence(.online, session: "s")])
        #expect(devices[4].welcomes.count == 1, "it publishes its presence again")
    }
}
