import CallCore
import CallStore
import FuzzEntries
import SignalingProtocol
import Support
import Testing

/// Section 1 of the protocol, presence, as every store keeps it.
@Suite struct PresenceTests {
    @Test(arguments: StoreKind.allCases)
    func aDeviceThatCameOnlineIsReachableInItsSession(kind: StoreKind) throws {
        let test = try kind.open()
        #expect(try test.presence(alicePhone) == nil)
        #expect(try test.online(alicePhone, "s1") == .current())
        let presence = try #require(try test.presence(alicePhone))
        #expect(presence.session == "s1")
        #expect(presence.isOnline)
        #expect(presence.since == presence.seen)
        #expect(try test.isReachable(alicePhone))
    }

    @Test(arguments: StoreKind.allCases)
    func aRepeatedPresenceGoesOnWithTheSession(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "s1")
        try test.pass(5000)
        let before = try #require(try test.presence(alicePhone))
        #expect(try test.online(alicePhone, "s1") == .current())
        let after = try #require(try test.presence(alicePhone))
        #expect(after.since == before.since)
        #expect(after.seen >= before.seen + 5000)
    }

    @Test(arguments: StoreKind.allCases)
    func aSessionMayHoldAnyCharacter(kind: StoreKind) throws {
        let test = try kind.open()
        let session = "a\u{0}b:%s\u{0}"
        #expect(try test.online(alicePhone, session) == .current())
        #expect(try test.presence(alicePhone)?.session == session)
        #expect(try test.offline(alicePhone, session))
        #expect(try test.online(alicePhone, session) == .over)
    }

    // "Any other `online:true` makes its session the current session"

    @Test(arguments: StoreKind.allCases)
    func anotherSessionReplacesTheCurrentOne(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "s1")
        try test.pass(5000)
        let first = try #require(try test.presence(alicePhone))
        #expect(try test.online(alicePhone, "s2") == .current())
        let second = try #require(try test.presence(alicePhone))
        #expect(second.session == "s2")
        #expect(second.since >= first.since + 5000)
    }

    // Several brokers: a newer session at another broker takes the device over; the same name at another broker is
    // another session.

    @Test(arguments: StoreKind.allCases)
    func aSessionAtAnotherBrokerTakesTheDeviceOver(kind: StoreKind) throws {
        let test = try kind.open()
        let former = DeviceSession(alicePhone, id: "s 1\u{0}", broker: "[::1]:1883")
        let newer = DeviceSession(alicePhone, id: "\u{301}s2", broker: "b:1883")
        #expect(try test.store.cameOnline([former], policy: .init()) == [.current()])
        #expect(try test.presence(alicePhone)?.broker == "[::1]:1883")
        #expect(try test.store.cameOnline([newer], policy: .init()) == [.current(takenOver: former)])
        #expect(try test.presence(alicePhone)?.broker == "b:1883")
        #expect(try test.presence(alicePhone)?.session == newer.id)
        #expect(try test.store.wentOffline([former], policy: .init()) == [false], "a late will")
        try test.store.renew([alicePhone])
        #expect(try test.presence(alicePhone)?.broker == "b:1883")
        #expect(try test.isReachable(alicePhone))
        #expect(try test.store.wentOffline([newer], policy: .init()) == [true])
        #expect(try !test.isReachable(alicePhone))
        #expect(try test.presence(alicePhone)?.session == newer.id)
    }

    /// A coordinator that stood still had received the message of the former session.
    @Test(arguments: StoreKind.allCases)
    func aMessageThatIsOlderThanTheSessionChangesNothing(kind: StoreKind) throws {
        let test = try kind.open()
        let before = try test.store.now() - 1_000
        _ = try test.online(alicePhone, "newer")
        func late(_ id: String) throws -> OnlineOutcome {
            try test.store.cameOnline([DeviceSession(alicePhone, id: id, received: before)], policy: .init())[0]
        }
        #expect(try late("former") == .late)
        #expect(try test.presence(alicePhone)?.session == "newer")
        #expect(try late("newer") == .current(), "the session's own message")
    }

    @Test(arguments: StoreKind.allCases)
    func aDeploymentMayComeToHaveSeveralBrokersOrOneAgain(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "s1")
        let named = DeviceSession(alicePhone, id: "s1", broker: "a:1883")
        #expect(try test.store.wentOffline([named], policy: .init()) == [true])
        let second = DeviceSession(alicePhone, id: "s2", broker: "a:1883")
        #expect(try test.store.cameOnline([second], policy: .init()) == [.current()])
        #expect(try test.offline(alicePhone, "s2"))
    }

    // "an `online:false` whose session is not the device's current session changes no state, and is remembered for 120
    // s. An `online:true` of a session that is remembered as over is ignored"

    @Test(arguments: StoreKind.allCases)
    func theEndOfTheCurrentSessionTakesTheDeviceOffline(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "s1")
        #expect(try test.offline(alicePhone, "s1"))
        #expect(try test.presence(alicePhone)?.isOnline == false)
        #expect(try !test.isReachable(alicePhone))
        #expect(try !test.offline(alicePhone, "s1"), "it was over already")
    }

    @Test(arguments: StoreKind.allCases)
    func theEndOfAnEarlierSessionChangesNothing(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "s1")
        _ = try test.online(alicePhone, "s2")
        #expect(try !test.offline(alicePhone, "s1"))
        #expect(try test.presence(alicePhone)?.session == "s2")
        #expect(try test.isReachable(alicePhone))
    }

    @Test(arguments: StoreKind.allCases)
    func aSessionWhoseEndCameFirstNeverBegins(kind: StoreKind) throws {
        let test = try kind.open()
        #expect(try !test.offline(alicePhone, "s1"))
        #expect(try test.online(alicePhone, "s1") == .over)
        #expect(try !test.isReachable(alicePhone))
        #expect(try test.online(alicePhone, "s2") == .current())
        #expect(try test.online(alicePhone, "s1") == .over)
        #expect(try test.presence(alicePhone)?.session == "s2")
    }

    @Test(arguments: StoreKind.allCases)
    func aSessionThatWasCurrentAndEndedDoesNotBeginAgain(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "s1")
        try test.offline(alicePhone, "s1")
        #expect(try test.online(alicePhone, "s1") == .over)
        #expect(try !test.isReachable(alicePhone))
    }

    @Test(arguments: StoreKind.allCases)
    func anOverSessionIsRememberedForTwoMinutes(kind: StoreKind) throws {
        let test = try kind.open()
        try test.offline(alicePhone, "s1")
        try test.pass(110_000)
        #expect(try test.online(alicePhone, "s1") == .over)
        try test.pass(10_000)
        #expect(try test.online(alicePhone, "s1") == .current())
    }

    @Test(arguments: StoreKind.allCases)
    func cleaningKeepsWhatIsStillRemembered(kind: StoreKind) throws {
        let test = try kind.open()
        try test.offline(alicePhone, "s1")
        try test.pass(100_000)
        _ = try test.store.clean(limit: 100)
        #expect(try test.online(alicePhone, "s1") == .over)
    }

    @Test(arguments: StoreKind.allCases)
    func aSessionIsOverForItsDeviceAlone(kind: StoreKind) throws {
        let test = try kind.open()
        try test.offline(alicePhone, "s1")
        #expect(try test.online(aliceWeb, "s1") == .current())
        #expect(try test.online(bobPhone, "s1") == .current())
    }

    @Test(arguments: StoreKind.allCases)
    func aFlappingDeviceIsRememberedWithinBounds(kind: StoreKind) throws {
        let test = try kind.open()
        for number in 1...100 {
            try test.offline(alicePhone, "s\(number)")
            try test.pass(1)
        }
        #expect(try test.online(alicePhone, "s100") == .over)
        #expect(try test.online(alicePhone, "s1") == .current(), "the oldest were let go")
    }

    // "`session` may be left out: an absent `session` is the empty string, which is never remembered as over"

    @Test(arguments: StoreKind.allCases)
    func theEmptySessionIsNeverRememberedAsOver(kind: StoreKind) throws {
        let test = try kind.open()
        #expect(try !test.offline(alicePhone, ""))
        #expect(try test.online(alicePhone, "") == .current())
        try test.pass(5000)
        let first = try #require(try test.presence(alicePhone))
        #expect(try test.offline(alicePhone, ""))
        #expect(try !test.isReachable(alicePhone))
        #expect(try test.online(alicePhone, "") == .current())
        #expect(try test.isReachable(alicePhone))
        #expect(try test.presence(alicePhone)!.since >= first.since + 5000, "it is another session of that name")
    }

    // "Presence is a lease of 10 min (setting); anything that the device sends renews it"

    @Test(arguments: StoreKind.allCases)
    func aSilentDeviceIsUnreachableWhenItsLeaseIsOver(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "s1")
        try test.pass(590_000)
        #expect(try test.isReachable(alicePhone))
        try test.pass(10_000)
        #expect(try !test.isReachable(alicePhone))
    }

    @Test(arguments: StoreKind.allCases)
    func aRenewedLeaseBeginsAnewInTheSameSession(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "s1")
        try test.pass(590_000)
        let since = try test.presence(alicePhone)?.since
        try test.store.renew([alicePhone, aliceWeb])
        #expect(try test.presence(alicePhone)?.since == since)
        try test.pass(590_000)
        #expect(try test.isReachable(alicePhone))
        #expect(try test.presence(aliceWeb) == nil, "a device without presence is not counted online")
    }

    @Test(arguments: StoreKind.allCases)
    func anOfflineDeviceIsNotRenewed(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "s1")
        try test.offline(alicePhone, "s1")
        try test.store.renew([alicePhone])
        #expect(try !test.isReachable(alicePhone))
    }

    // "A user has at most 10 devices online (setting); the eleventh replaces the one silent longest."

    @Test(arguments: StoreKind.allCases)
    func theEleventhDeviceReplacesTheOneSilentLongest(kind: StoreKind) throws {
        let test = try kind.open()
        let devices = (1...11).map { DeviceAddress(userID: alice, deviceID: DeviceID("d\($0)")!) }
        for device in devices.prefix(10) {
            _ = try test.online(device, "s")
            try test.pass(10)
        }
        try test.store.renew([devices[0]])
        try test.pass(10)
        _ = try test.online(bobPhone, "s")
        #expect(try test.online(devices[10], "s") == .current())
        let online = Set(try test.store.devices(of: [alice])[0].filter(\.isOnline).map(\.device))
        #expect(online == Set(devices).subtracting([devices[1]]))
        #expect(try test.isReachable(bobPhone), "another user's devices do not count")
    }

    @Test(arguments: StoreKind.allCases)
    func aDeviceThatIsOnlineAlreadyReplacesNobody(kind: StoreKind) throws {
        let test = try kind.open()
        var policy = PresencePolicy()
        policy.maxDevices = 2
        for session in ["s1", "s2"] {
            for device in [alicePhone, aliceWeb] {
                _ = try test.online(device, session, policy)
                try test.pass(10)
            }
        }
        #expect(try test.isReachable(alicePhone))
        #expect(try test.isReachable(aliceWeb))
    }

    @Test(arguments: StoreKind.allCases)
    func offlineDevicesDoNotCount(kind: StoreKind) throws {
        let test = try kind.open()
        var policy = PresencePolicy()
        policy.maxDevices = 2
        let tablet = DeviceAddress(userID: alice, deviceID: DeviceID("tablet")!)
        _ = try test.online(alicePhone, "s", policy)
        try test.pass(10)
        _ = try test.online(aliceWeb, "s", policy)
        try test.pass(10)
        try test.offline(aliceWeb, "s", policy)
        _ = try test.online(tablet, "s", policy)
        #expect(try test.isReachable(alicePhone))
        #expect(try test.isReachable(tablet))
    }

    @Test(arguments: StoreKind.allCases)
    func devicesAreListedPerUserInTheOrderOfTheQuestion(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(bobPhone, "s")
        _ = try test.online(aliceWeb, "s")
        _ = try test.online(alicePhone, "s")
        let listed = try test.store.devices(of: [bob, carol, alice]).map { $0.map(\.device) }
        #expect(listed == [[bobPhone], [], [alicePhone, aliceWeb]])
    }

    // Random steps in any order compare every store with the rule, `UserPresence`.

    @Test(arguments: StoreKind.allCases)
    func whateverHappensEveryStoreFollowsTheRule(kind: StoreKind) throws {
        var policy = PresencePolicy()
        policy.maxDevices = 3
        let devices = (1...12).map { DeviceAddress(userID: alice, deviceID: DeviceID("d\($0)")!) }
        for seed in 1...12 as ClosedRange<UInt64> {
            var random = SplitMix64(seed: seed)
            let test = try kind.open()
            var rule = UserPresence()
            var now: Milliseconds = 1_790_000_000_000
            let began = ContinuousClock.now
            for step in 1...80 {
                // The same moment never comes twice: each store chooses which of two equally silent devices was silent
                // longest.
                let passed = [1_000, 1_000, 20_000, 60_000, 200_000].randomElement(using: &random)! as Milliseconds
                now += passed
                try test.pass(passed)
                let device = devices[Int(random.next() % (step % 3 == 0 ? 12 : 4))]
                var session = DeviceSession(
                    device, id: ["", "s1", "s2"].randomElement(using: &random)!,
                    broker: [nil, "a:1", "b:1"].randomElement(using: &random)!)
                // The store's time differs from the rule's time.
                let age = [nil, 0, 0, 30_000].randomElement(using: &random)! as Milliseconds?
                let place: Comment = "\(kind), seed \(seed), step \(step)"
                switch random.next() % 5 {
                case 0, 1:
                    session.received = age.map { now - $0 }
                    let expected = rule.cameOnline(session, policy, now: now)
                    let time = try test.store.now()
                    session.received = age.map { time - $0 }
                    #expect(try test.store.cameOnline([session], policy: policy) == [expected], place)
                // Each store chooses when it forgets a device beyond its expiry.
                case 2...3 where rule.devices.contains { $0.device == device && $0.seen + policy.lease <= now }:
                    continue
                case 2...3:
                    let expected = rule.wentOffline(session, policy, now: now)
                    #expect(try test.store.wentOffline([session], policy: policy) == [expected], place)
                default:
                    rule.renew(device, lease: policy.lease, now: now)
                    try test.store.renew([device])
                }
                let time = try test.store.now()
                // The comparison includes offline devices: the number of remembered devices is part of the rule.
                let found = try test.store.devices(of: [alice])[0].filter { $0.seen + policy.lease > time }
                let expected = rule.devices.filter { $0.seen + policy.lease > now }
                #expect(found.map(\.isOnline) == expected.map(\.isOnline), place)
                #expect(found.map(\.device) == expected.map(\.device), place)
                #expect(found.map(\.session) == expected.map(\.session), place)
                #expect(found.map(\.broker) == expected.map(\.broker), place)
                // The time of the stores goes on meanwhile.
                let elapsed = Milliseconds((ContinuousClock.now - began) / .milliseconds(1)) + 1
                for (found, expected) in zip(found, expected) {
                    #expect((0...elapsed).contains((time - found.since) - (now - expected.since)), place)
                }
            }
        }
    }
}
