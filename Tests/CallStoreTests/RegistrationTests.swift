import CallCore
import FuzzEntries
import SignalingProtocol
import Support
import Testing

@testable import CallStore
@testable import RedisStore

/// The registrations of sleeping devices, in every store.
@Suite struct RegistrationTests {
    private static let day: Milliseconds = 86_400_000

    private func registration(
        _ device: DeviceAddress, _ token: String, _ platform: PushPlatform = .fcm, app: String = "default"
    ) -> PushRegistration {
        PushRegistration(
            PushRegistration.Key(device, AppName(app)!, platform), target: .token(token), digest: "d-\(token)",
            since: 0)
    }

    private func device(_ number: Int, of user: UserID = alice) -> DeviceAddress {
        DeviceAddress(userID: user, deviceID: DeviceID("d\(number)")!)
    }

    private func brief(_ registrations: [PushRegistration]) -> [String] {
        registrations.map { "\($0.device) \($0.key.app) \($0.key.platform) \($0.target.identity) \($0.digest)" }
    }

    private func tokens(_ test: StoreUnderTest, _ user: UserID = alice) throws -> [String] {
        try test.pushes.registrations(of: [user])[0].map(\.target.identity)
    }

    private func isRegistered(_ test: StoreUnderTest, _ users: UserID...) throws -> [Bool] {
        try test.store.read(users.map(Query.registration)).map(\.isRegistered)
    }

    @Test(arguments: StoreKind.allCases)
    func thereIsOnePerDeviceAppAndPlatform(kind: StoreKind) throws {
        let test = try kind.open()
        #expect(try isRegistered(test, alice, bob) == [false, false])
        #expect(try test.pushes.registrations(of: []).isEmpty)
        #expect(try test.pushes.registrations(of: [bob, alice]) == [[], []])
        let before = try test.store.now()
        let first = try test.pushes.register(registration(alicePhone, "t1"))
        #expect(brief(first) == ["alice/phone default fcm t1 d-t1"])
        #expect((before...before + 10_000).contains(first[0].since), "by the store's time")
        try test.pushes.register(registration(aliceWeb, "w"))
        let others = [registration(alicePhone, "t2", .apnsVoIP), registration(alicePhone, "t3", app: "a")]
        for other in others { try test.pushes.register(other) }
        let anew = try test.pushes.register(registration(alicePhone, "t4"))
        #expect(anew.map(\.target.identity) == ["t3", "t2", "t4"], "in the order of their keys")
        #expect(try tokens(test) == ["t3", "t2", "t4", "w"])
        #expect(try isRegistered(test, bob, alice) == [false, true])
        #expect(try test.store.read([.record(.call(CallID("a")!)), .registration(alice)])[1].isRegistered)
        #expect(try test.pushes.unregister(alicePhone, .apnsVoIP).map(\.target.identity) == ["t3", "t4"])
        #expect(try test.pushes.unregister(alicePhone, nil, AppName("a")).map(\.target.identity) == ["t4"])
        #expect(try test.pushes.unregister(alicePhone, .apns).map(\.target.identity) == ["t4"])
        #expect(try test.pushes.unregister(alicePhone).isEmpty)
        #expect(try tokens(test) == ["w"])
        #expect(try test.pushes.unregister(aliceWeb).isEmpty)
        #expect(try isRegistered(test, alice) == [false])
    }

    @Test(arguments: StoreKind.allCases)
    func targetsOfEveryKindAreKeptAsTheyAre(kind: StoreKind) throws {
        let test = try kind.open()
        let user = UserID("a/b:c\0d é")!
        let address = DeviceAddress(userID: user, deviceID: DeviceID("x.y~z")!)
        let targets: [PushTarget] = [
            .token("a:b/c \0 \u{1F600} \"\\"), .token(String(repeating: "x", count: 4_096)),
            .subscription(endpoint: "https://push.example.com/a b:c?d=e", p256dh: "BNc-_x", auth: "tBH"),
        ]
        for (place, (target, platform)) in zip(targets, [PushPlatform.apns, .fcm, .webPush]).enumerated() {
            let key = PushRegistration.Key(address, AppName("app")!, platform)
            try test.pushes.register(PushRegistration(key, target: target, digest: "d\(place)", since: 5))
        }
        #expect(try test.pushes.registrations(of: [user])[0].map(\.target) == targets)
        #expect(try test.pushes.registrations(of: [user])[0].map(\.device) == [address, address, address])
        #expect(try isRegistered(test, user) == [true])
    }

    @Test(arguments: StoreKind.allCases)
    func aTargetIsWhoseRegisteredItLast(kind: StoreKind) throws {
        let test = try kind.open()
        try test.pushes.register(registration(alicePhone, "t"))
        try test.pushes.register(registration(alicePhone, "mine", .apns))
        try test.pushes.register(registration(bobPhone, "t"))
        #expect(try tokens(test, alice) == ["mine"])
        #expect(try tokens(test, bob) == ["t"])
        try test.pushes.register(registration(aliceWeb, "mine", .apns))
        #expect(try test.pushes.registrations(of: [alice])[0].map(\.device) == [aliceWeb], "of another device, too")
        // A device that gives up a token gives the token to no other device.
        try test.pushes.unregister(bobPhone)
        #expect(try tokens(test, alice) == ["mine"])
        #expect(try isRegistered(test, alice, bob) == [true, false])
        try test.pushes.register(registration(alicePhone, "t"))
        try test.pushes.register(registration(alicePhone, "u"))
        try test.pushes.register(registration(bobPhone, "t"))
        #expect(try tokens(test, alice) == ["u", "mine"], "that was no more than what it had before")
        #expect(try tokens(test, bob) == ["t"])
    }

    @Test(arguments: StoreKind.allCases)
    func aDeviceMayRegisterOneTargetSeveralTimes(kind: StoreKind) throws {
        let test = try kind.open()
        try test.pushes.register(registration(alicePhone, "t", .apns))
        try test.pushes.register(registration(alicePhone, "t", .fcm))
        #expect(try test.pushes.register(registration(alicePhone, "t", app: "x")).count == 3)
        #expect(try test.pushes.unregister(alicePhone, nil, AppName("x")).count == 2)
        try test.pushes.end(try test.pushes.registrations(of: [alice])[0][0])
        #expect(try test.pushes.registrations(of: [alice])[0].map(\.key.platform) == [.fcm])
        try test.pushes.register(registration(alicePhone, "t", .apns))
        try test.pushes.register(registration(bobPhone, "t"))
        #expect(try tokens(test, alice).isEmpty, "all of them end")
        #expect(try isRegistered(test, alice, bob) == [false, true])
    }

    @Test(arguments: StoreKind.allCases)
    func beyondItsAppsTheOneRegisteredLongestAgoGoes(kind: StoreKind) throws {
        let test = try kind.open()
        for app in ["e", "d", "c", "b"] {
            try test.pushes.register(registration(alicePhone, "\(app)1", app: app))
            try test.pass(20)
            try test.pushes.register(registration(alicePhone, "\(app)2", .apns, app: app))
            try test.pass(20)
        }
        try test.pushes.register(registration(aliceWeb, "web", app: "z"))
        try test.pass(20)
        // A registration of the device is made anew.
        try test.pushes.register(registration(alicePhone, "e1", app: "e"))
        try test.pass(20)
        let left = try test.pushes.register(registration(alicePhone, "a1", app: "a"))
        #expect(left.map(\.target.identity) == ["a1", "b2", "b1", "c2", "c1", "e2", "e1"])
        #expect(try tokens(test).contains("web"))
        // Another device may have the token that the store removed.
        try test.pushes.register(registration(bobPhone, "d1"))
        #expect(try tokens(test, bob) == ["d1"])
    }

    @Test(arguments: StoreKind.allCases)
    func beyondItsDevicesTheOneRegisteredLongestAgoGoes(kind: StoreKind) throws {
        let test = try kind.open()
        for number in 1...PushLimits.devicesPerUser {
            try test.pushes.register(registration(device(number), "t\(number)"))
            try test.pass(20)
        }
        try test.pushes.register(registration(device(1), "more", .apns))
        try test.pass(20)
        try test.pushes.register(registration(device(99), "t99"))
        let left = Set(try test.pushes.registrations(of: [alice])[0].map(\.device.deviceID.string))
        #expect(left.count == PushLimits.devicesPerUser)
        #expect(left.isSuperset(of: ["d1", "d99"]) && !left.contains("d2"))
    }

    @Test(arguments: StoreKind.allCases)
    func oneThatWasMadeAnewDoesNotEnd(kind: StoreKind) throws {
        let test = try kind.open()
        let first = try test.pushes.register(registration(alicePhone, "t"))[0]
        try test.pass(20)
        while try test.store.now() <= first.since {}
        let second = try test.pushes.register(registration(alicePhone, "t"))[0]
        try test.pushes.end(first)
        #expect(try tokens(test) == ["t"])
        guard kind == .memory else {
            // Time that passes in a test moves the kept times, so that the registrations are read again.
            try test.pushes.end(try test.pushes.registrations(of: [alice])[0][0])
            #expect(try tokens(test).isEmpty)
            return
        }
        try test.pushes.end(second)
        #expect(try tokens(test).isEmpty)
        try test.pushes.end(second)
    }

    @Test(arguments: StoreKind.allCases)
    func itEndsAfter400DaysWithoutBeingMadeAnew(kind: StoreKind) throws {
        let test = try kind.open()
        for token in ["a", "b"] { try test.pushes.register(registration(token == "a" ? alicePhone : aliceWeb, token)) }
        try test.pass(300 * Self.day)
        _ = try test.store.clean(limit: 10)
        try test.pushes.register(registration(alicePhone, "a"))
        try test.pass(99 * Self.day)
        #expect(try tokens(test) == ["a", "b"])
        try test.pass(2 * Self.day)
        #expect(try tokens(test) == ["a"])
        #expect(try isRegistered(test, alice) == [true])
        _ = try test.store.clean(limit: 10)
        try test.pass(300 * Self.day)
        #expect(try tokens(test).isEmpty)
        #expect(try isRegistered(test, alice) == [false])
        _ = try test.store.clean(limit: 10)
        #expect(try tokens(test).isEmpty)
    }

    @Test(arguments: StoreKind.allCases)
    func aDeletedUserLeavesNothing(kind: StoreKind) throws {
        let test = try kind.open()
        try test.pushes.register(registration(alicePhone, "a"))
        try test.pushes.register(registration(aliceWeb, "b"))
        try test.pushes.register(registration(bobPhone, "c"))
        let id = CallID("a")!
        try test.write(call("a"))
        let key = PushRegistration.Key(alicePhone, .standard, .fcm)
        let others = PushState(PushRegistration.Key(bobPhone, .standard, .fcm), invitation: 1, ring: .sent)
        try test.store.note([
            .push(id, PushState(key, invitation: 1, ring: .sent)), .push(id, others),
            .ringCheck(id, RingCheck(device: alicePhone, invitation: 1)),
            .ringCheck(id, RingCheck(device: bobPhone, invitation: 1)),
        ])
        try test.store.erase(alice)
        #expect(try tokens(test, alice).isEmpty)
        #expect(try tokens(test, bob) == ["c"])
        #expect(try isRegistered(test, alice, bob) == [false, true])
        #expect(try test.load("a")?.pushes == [others])
        #expect(try test.load("a")?.checks.map(\.device) == [bobPhone])
    }

    /// Random steps in any order compare every store with the rule, which is the memory store.
    @Test(arguments: [StoreKind.sqlite, .redis, .redisCluster])
    func whateverHappensEveryStoreFollowsTheRule(kind: StoreKind) throws {
        let users = [alice, bob]
        for seed in 1...8 as ClosedRange<UInt64> {
            var random = SplitMix64(seed: seed)
            let test = try kind.open()
            let rule = try StoreKind.memory.open()
            for step in 1...120 {
                let place: Comment = "\(kind), seed \(seed), step \(step)"
                let user = users.randomElement(using: &random)!
                // The seed chooses few devices with many registrations, or many devices with few.
                let device = device(Int(random.next() % (seed % 2 == 0 ? 26 : 3)), of: user)
                let platform = PushPlatform.allCases.randomElement(using: &random)!
                let app = "a\(random.next() % 6)"
                switch random.next() % 12 {
                case 0: #expect(brief(try test.pushes.unregister(device)) == brief(try rule.pushes.unregister(device)))
                case 1:
                    let name = random.next() % 2 == 0 ? AppName(app) : nil
                    #expect(
                        brief(try test.pushes.unregister(device, platform, name))
                            == brief(try rule.pushes.unregister(device, platform, name)), place)
                case 2:
                    let (found, expected) = (
                        try test.pushes.registrations(of: [user])[0], try rule.pushes.registrations(of: [user])[0]
                    )
                    guard let number = found.indices.randomElement(using: &random), expected.count == found.count
                    else { continue }
                    try test.pushes.end(found[number])
                    try rule.pushes.end(expected[number])
                case 3 where random.next() % 4 == 0:
                    try test.store.erase(user)
                    try rule.store.erase(user)
                case 4 where random.next() % 3 == 0:
                    try test.pass(101 * Self.day)
                    try rule.pass(101 * Self.day)
                case 5:
                    _ = try test.store.clean(limit: 9)
                    _ = try rule.store.clean(limit: 9)
                default:
                    let new = registration(device, "t\(random.next() % 40)", platform, app: app)
                    #expect(brief(try test.pushes.register(new)) == brief(try rule.pushes.register(new)), place)
                }
                for moved in [test, rule] { try moved.pass(20) }
                let found = try test.pushes.registrations(of: users)
                let expected = try rule.pushes.registrations(of: users)
                #expect(found.map(brief) == expected.map(brief), place)
                #expect(try isRegistered(test, alice, bob) == isRegistered(rule, alice, bob), place)
            }
        }
    }
}

/// The entries of registrations in Redis, their keys and their lifetimes.
@Suite struct RedisRegistrationTests {
    private let prefix = "test-registrations-\(UInt64.random(in: 0 ... .max))"

    private func command(_ words: [String]) throws -> RedisReply {
        var pipeline = RedisPipeline()
        pipeline.command("EVAL", 2 + words.count) {
            $0.add("return redis.call(unpack(ARGV))")
            $0.add("0")
            for word in words { $0.add(word) }
        }
        return try RedisConnection(RedisServer.shared.get().address, timeout: 1_000).run(pipeline)[0]
    }

    private func open() throws -> StoreUnderTest {
        let server = try RedisServer.shared.get()
        let store = RedisCallStore(address: server.address, prefix: prefix)
        return StoreUnderTest(store) { [prefix] in try server.shiftTimes(by: $0, prefix: prefix) }
    }

    private func keys() throws -> [String] {
        try command(["KEYS", prefix + ":*"]).values().compactMap(\.text).map { String($0.dropFirst(prefix.count + 1)) }
            .filter { !$0.hasSuffix("clock") }.sorted()
    }

    private let phone = PushRegistration(
        PushRegistration.Key(alicePhone, .standard, .fcm), target: .token("t"), digest: "DIGEST", since: 0)

    @Test func everyKeyHasItsEndAndNothingIsLeftBehind() throws {
        let test = try open()
        try test.pushes.register(phone)
        _ = try test.pushes.reserve([PushReservation(device: alicePhone, inviter: bob, id: "x")])
        #expect(try keys() == ["token:{DIGEST}", "{u:alice}:pushes:phone", "{u:alice}:registrations"])
        for key in try keys() {
            let life = try command(["PTTL", "\(prefix):\(key)"]).number()
            let most = key.contains("pushes") ? PushLimits.window : PushLimits.registrationLife
            #expect((most - 60_000...most).contains(life), "\(key)")
        }
        // With a new target nothing of the former target is left.
        try test.pushes.register(PushRegistration(phone.key, target: .token("u"), digest: "NEW", since: 0))
        #expect(try keys() == ["token:{NEW}", "{u:alice}:pushes:phone", "{u:alice}:registrations"])
        try test.pushes.unregister(alicePhone)
        #expect(try keys() == ["{u:alice}:pushes:phone"])
        try test.pushes.register(phone)
        try test.store.erase(alice)
        #expect(try keys() == ["{u:alice}:pushes:phone"])
        try test.pushes.register(phone)
        try test.pushes.end(try test.pushes.registrations(of: [alice])[0][0])
        #expect(try keys() == ["{u:alice}:pushes:phone"])
    }

    /// A process died in between, or the two entries are on machines that have lost different writes.
    @Test func oneWhoseTargetHasAnotherOwnerOrNoneDoesNotCount() throws {
        let test = try open()
        try test.pushes.register(phone)
        #expect(try command(["HGET", "\(prefix):token:{DIGEST}", "owner"]).value()?.text == "phone/alice")
        _ = try command(["HSET", "\(prefix):token:{DIGEST}", "owner", "phone/bob"])
        #expect(try test.pushes.registrations(of: [alice]) == [[]])
        try test.pushes.unregister(alicePhone)
        #expect(try keys() == ["token:{DIGEST}"], "it is another one's")
        try test.pushes.register(phone)
        _ = try command(["DEL", "\(prefix):token:{DIGEST}"])
        #expect(try test.pushes.registrations(of: [alice]) == [[]])
        #expect(try test.pushes.register(phone).count == 1)
    }

    @Test func whatIsDamagedIsLeftOut() throws {
        let test = try open()
        try test.pushes.register(phone)
        for (name, value) in [("phone/default/none", "5:D:tx"), ("x", "y"), ("phone/default/apns", "nonsense")] {
            _ = try command(["HSET", "\(prefix):{u:alice}:registrations", name, value])
        }
        #expect(try test.pushes.registrations(of: [alice])[0].map(\.target.identity) == ["t"])
        #expect(try test.pushes.register(phone).map(\.target.identity) == ["t"])
        let left = try command(["HKEYS", "\(prefix):{u:alice}:registrations"]).values().compactMap(\.text)
        #expect(left == ["phone/default/fcm"], "what cannot be read is over")
    }

    @Test func theQueueIsGoneWhenItIsEmptyAndHoldersEndByThemselves() throws {
        let test = try open()
        try test.write(call("a")) { $0.pushes = true }
        #expect(try keys().filter { $0.contains("push") }.map { $0.drop { $0 != "}" } } == ["}:push:due"])
        #expect(try test.pushes.take(by: WorkerID("w")).map(\.string) == ["a"])
        let holders = try #require(try keys().first { $0.hasSuffix("push:holders") })
        #expect(try command(["PTTL", "\(prefix):\(holders)"]).number() > PushLimits.missedLife)
        #expect(try test.pushes.settle([PushSettlement(CallID("a")!, again: nil)], by: WorkerID("w")) == [.done])
        #expect(try keys().allSatisfy { !$0.contains("push") })
    }
}
