@testable import CallCore
import FuzzEntries
import SignalingProtocol
import Support
import Testing

@testable import CallStore

/// The queue of calls for which a device may have to be woken, in every store (docs/decisions/0021).
@Suite struct PushQueueTests {
    private let one = WorkerID("one")
    private let two = WorkerID("two")

    private func enter(_ test: StoreUnderTest, _ id: String) throws {
        let known = try test.load(id)?.version ?? 0
        #expect(try test.write(call(id), over: known) { $0.pushes = true } == .committed(version: known + 1))
    }

    private func take(_ test: StoreUnderTest, _ worker: WorkerID) throws -> [String] {
        try test.pushes.take(by: worker).map(\.string).sorted()
    }

    private func settle(
        _ test: StoreUnderTest, _ id: String, again: Milliseconds? = nil, by worker: WorkerID
    ) throws -> PushSettled {
        try test.pushes.settle([PushSettlement(CallID(id)!, again: again)], by: worker)[0]
    }

    @Test(arguments: StoreKind.allCases)
    func aCallIsEnteredWithItsCommitOrNotAtAll(kind: StoreKind) throws {
        let test = try kind.open()
        try test.write(call("quiet"))
        #expect(try test.pushes.count() == (0, nil))
        try enter(test, "a")
        #expect(try test.write(call("b"), over: 7) { $0.pushes = true } == .conflict)
        let count = try test.pushes.count()
        #expect(count.calls == 1)
        #expect(try abs(#require(count.oldest) - test.store.now()) < 10_000)
        #expect(try take(test, one) == ["a"])
        #expect(try test.pushes.count() == (1, nil), "it is held")
        #expect(try settle(test, "a", by: one) == .done)
        #expect(try test.pushes.count() == (0, nil))
        #expect(try settle(test, "a", by: one) == .void)
    }

    /// The commit writes a queue entry beside outbox entries, which have keys of their own in the same step.
    @Test(arguments: StoreKind.allCases)
    func aCommitMayOweBoth(kind: StoreKind) throws {
        let test = try kind.open()
        let names = ["app", "other"].map { EndpointName($0)! }
        try test.outbox.keep(names.map { KeptEndpoint(name: $0, patterns: "*", url: "https://x/\($0)") })
        for (count, pushes) in [(0, true), (1, true), (2, true), (1, false), (2, false)] {
            let id = "c\(count)\(pushes)"
            try test.write(call(id)) {
                $0.pushes = pushes
                $0.outboxEntries = OutboxEntries(
                    to: Array(names.prefix(count)), revisions: [.init(number: 1, time: 1, record: .call(call(id)))])
                $0.notes = [.heard(CallID(id)!, UserHeard(userID: bob, at: 5))]
            }
            #expect(try test.load(id)?.heard == [UserHeard(userID: bob, at: 5)])
        }
        #expect(try take(test, one) == ["c0true", "c1true", "c2true"])
        for (name, ids) in zip(names, [["c1false", "c1true", "c2false", "c2true"], ["c2false", "c2true"]]) {
            let items = try test.outbox.claim(name, by: two, limit: 100, near: nil)
            #expect(items.map(\.id.string).sorted() == ids)
        }
        #expect(try test.pushes.renew(one) && test.pushes.renew(two))
    }

    @Test(arguments: StoreKind.allCases)
    func whatComesWhileACallIsHeldMarksIt(kind: StoreKind) throws {
        let test = try kind.open()
        try enter(test, "a")
        #expect(try take(test, one) == ["a"])
        try enter(test, "a")
        try enter(test, "a")
        #expect(try take(test, two).isEmpty, "it is held")
        #expect(try settle(test, "a", by: two) == .void)
        #expect(try settle(test, "a", again: 60_000, by: one) == .again)
        #expect(try test.pushes.count() == (1, nil))
        #expect(try settle(test, "a", by: one) == .done)
        #expect(try test.pushes.count().calls == 0)
    }

    @Test(arguments: StoreKind.allCases)
    func whatIsLookedAtAgainWaitsUnlessSomethingNewComes(kind: StoreKind) throws {
        let test = try kind.open()
        for id in ["a", "b"] { try enter(test, id) }
        #expect(try take(test, one) == ["a", "b"])
        for id in ["a", "b"] { #expect(try settle(test, id, again: 60_000, by: one) == .done) }
        #expect(try take(test, two).isEmpty)
        #expect(try test.pushes.count() == (2, nil), "nothing is due")
        try enter(test, "b")
        #expect(try take(test, two) == ["b"])
        try test.pass(60_000)
        #expect(try take(test, one) == ["a"])
    }

    @Test(arguments: StoreKind.allCases)
    func aWorkerThatIsGoneIsReplacedAndWhatItHeldIsVoid(kind: StoreKind) throws {
        let test = try kind.open()
        try enter(test, "a")
        #expect(try take(test, one) == ["a"])
        #expect(try test.pushes.recover() == 0)
        try test.pass(WorkerLease.life - 500)
        #expect(try test.pushes.renew(one))
        try test.pass(WorkerLease.life - 500)
        #expect(try test.pushes.recover() == 0, "it lives")
        try enter(test, "a")
        try test.pass(WorkerLease.life)
        #expect(try settle(test, "a", by: one) == .void)
        #expect(try !test.pushes.renew(one))
        #expect(try test.pushes.recover() == 1)
        #expect(try test.pushes.recover() == 0)
        #expect(try take(test, two) == ["a"])
        #expect(try settle(test, "a", by: one) == .void, "it is another worker's")
        #expect(try settle(test, "a", by: two) == .done, "the mark is gone: it looks at everything anyway")
    }

    /// A worker that stood still between its reading and this note would undo a note of the worker that has taken the
    /// call since.
    @Test(arguments: StoreKind.allCases)
    func howFarAPushIsIsWrittenByWhoeverHoldsTheCall(kind: StoreKind) throws {
        let test = try kind.open()
        let id = CallID("a")!
        func note(_ ring: PushState.Phase, by worker: WorkerID) throws -> PushState.Phase? {
            let state = PushState(PushRegistration.Key(alicePhone, .standard, .fcm), invitation: 1, ring: ring)
            try test.store.note([.push(id, state, by: worker), .heard(id, UserHeard(userID: bob, at: 5))])
            return try test.load("a")?.pushes.first?.ring
        }
        try enter(test, "a")
        #expect(try note(.trying, by: one) == nil, "nobody holds it")
        #expect(try test.load("a")?.heard.count == 1, "others are of no worker")
        #expect(try take(test, one) == ["a"])
        #expect(try note(.trying, by: two) == nil)
        #expect(try note(.trying, by: one) == .trying)
        try enter(test, "a")
        #expect(try note(.sent, by: one) == .sent, "it is held, and marked")
        try test.pass(WorkerLease.life + 100)
        #expect(try note(.over, by: one) == .sent, "its lease is over")
        #expect(try test.pushes.recover() == 1)
        #expect(try note(.over, by: one) == .sent)
        #expect(try take(test, two) == ["a"])
        #expect(try note(.over, by: one) == .sent, "it is another worker's")
        #expect(try note(.trying, by: two) == .trying)
        #expect(try settle(test, "a", by: two) == .done)
        #expect(try note(.over, by: two) == .trying, "it was let go")
    }

    @Test(arguments: StoreKind.allCases)
    func noMoreIsTakenThanAskedForAndOnlyWhatIsNear(kind: StoreKind) throws {
        let test = try kind.open()
        let ids = (1...20).map { "c\($0)" }
        for id in ids { try enter(test, id) }
        #expect(try test.pushes.take(by: one, limit: 0).isEmpty)
        #expect(try test.pushes.take(by: one, near: []).isEmpty || !kind.isRedis)
        for id in ids where try test.load(id) != nil {
            _ = try test.pushes.take(by: one, limit: 20, near: [CallID(id)!])
            #expect(try settle(test, id, by: one) == .done)
        }
        #expect(try test.pushes.count().calls == 0)
    }

    @Test(arguments: StoreKind.allCases)
    func whatNobodyPushesIsForgotten(kind: StoreKind) throws {
        let test = try kind.open()
        for id in ["held", "waits"] { try enter(test, id) }
        #expect(try take(test, one) == ["held", "waits"])
        #expect(try settle(test, "waits", again: 0, by: one) == .done)
        #expect(try test.pushes.bound() == 0)
        try test.pass(PushLimits.missedLife + 1_000)
        try enter(test, "new")
        #expect(try test.pushes.bound() == 1)
        #expect(try test.pushes.recover() == 1)
        #expect(try take(test, two) == ["held", "new"])
    }

    @Test(arguments: StoreKind.allCases)
    func beyondItsBoundTheEarliestGo(kind: StoreKind) throws {
        let test = try kind.open()
        for number in 1...40 { try enter(test, "c\(number)") }
        for id in try take(test, one) {
            let again = Milliseconds(id.dropFirst())! * 1_000
            #expect(try settle(test, id, again: again, by: one) == .done)
        }
        #expect(try test.pushes.bound(most: 40) == 0)
        let forgotten = try test.pushes.bound(most: 10)
        // A store on several machines bounds each of its parts to the part's share.
        #expect(kind.isRedis ? forgotten >= 30 : forgotten == 30)
        #expect(try test.pushes.count().calls == 40 - forgotten)
        guard !kind.isRedis else { return }
        try test.pass(60_000)
        #expect(try take(test, one) == (31...40).map { "c\($0)" })
        try enter(test, "more")
        #expect(try test.pushes.bound(most: 5) == 1, "what is held is left alone")
    }

    @Test(arguments: StoreKind.allCases)
    func whatIsPushedIsKeptAndASecretIsMadeOnce(kind: StoreKind) throws {
        let test = try kind.open()
        #expect(try test.pushes.policy() == nil)
        let secret = try test.pushes.secret()
        #expect(secret.count == 32)
        #expect(try test.pushes.policy() == nil)
        var policy = PushPolicy(after: 500, apps: [.standard: [.apns, .apnsVoIP], AppName("x_2")!: []])
        try test.pushes.keep(policy)
        #expect(try test.pushes.policy() == policy)
        policy = PushPolicy(after: 0, apps: [AppName("other")!: Set(PushPlatform.allCases)])
        try test.pushes.keep(policy)
        #expect(try test.pushes.policy() == policy)
        try test.pushes.keep(PushPolicy())
        #expect(try test.pushes.policy() == PushPolicy())
        #expect(try test.pushes.secret() == secret)
        #expect(try kind.open().pushes.secret() != secret)
    }

    @Test(arguments: StoreKind.allCases)
    func whatIsPushedCountsUntilTheLastOfItsProcessesEnds(kind: StoreKind) throws {
        let test = try kind.open()
        let (first, second) = (WorkerID("p1"), WorkerID("p2"))
        func until() throws -> Milliseconds? { try test.pushes.kept().map { $0.until - (try test.store.now()) } }
        try test.pushes.pushes(first, for: 60_000)
        #expect(try until() == nil, "nobody has said what is pushed")
        try test.pushes.keep(PushPolicy())
        #expect((50_000...60_000).contains(try #require(try until())))
        try test.pushes.pushes(second, for: 600_000)
        #expect((590_000...600_000).contains(try #require(try until())))
        try test.pushes.pushes(second, for: 0)
        #expect((50_000...60_000).contains(try #require(try until())), "the other one is there")
        try test.pushes.pushes(first, for: 0)
        #expect((-10_000...0).contains(try #require(try until())))
        #expect(try test.pushes.policy() == PushPolicy(), "it is known for whoever looks")
    }

    // MARK: Reservations

    private func push(_ id: String, to device: DeviceAddress = bobPhone, from inviter: UserID = alice)
        -> PushReservation
    {
        PushReservation(device: device, inviter: inviter, id: id)
    }

    @Test(arguments: StoreKind.allCases)
    func aDeviceGetsSoManyPushesInAWhileAndFewerOfOneInviter(kind: StoreKind) throws {
        let test = try kind.open()
        let first = (1...12).map { push("a:\($0)") }
        #expect(try test.pushes.reserve(first) == (1...12).map { $0 <= PushLimits.perInviter })
        #expect(try test.pushes.reserve([first[0], first[9], first[10]]) == [true, true, false], "an attempt more")
        #expect(try test.pushes.reserve([push("a:11", to: alicePhone)]) == [true], "each device for itself")
        let others = (1...25).map { push("b:\($0)", from: UserID("caller/\($0)")!) }
        #expect(try test.pushes.reserve(others) == (1...25).map { $0 <= PushLimits.perDevice - PushLimits.perInviter })
        #expect(try test.pushes.reserve([first[0], push("c", from: carol)]) == [true, false])
        try test.pass(PushLimits.window + 100)
        #expect(try test.pushes.reserve([push("c", from: carol), push("d")]) == [true, true])
        #expect(try test.pushes.reserve([]).isEmpty)
    }

    // MARK: The rule

    @Test(arguments: [StoreKind.sqlite, .redis, .redisCluster])
    func whateverHappensEveryStoreFollowsTheRule(kind: StoreKind) throws {
        for seed in 1...6 as ClosedRange<UInt64> {
            var random = SplitMix64(seed: seed)
            let test = try kind.open()
            let rule = try StoreKind.memory.open()
            var stopwatch = Stopwatch()
            var held: [WorkerID: [String]] = [:]
            var workers = [WorkerID("w1"), WorkerID("w2")]
            for step in 1...100 {
                try rule.pass(stopwatch.lap())
                let place: Comment = "\(kind), seed \(seed), step \(step)"
                let number = Int(random.next() % 2)
                let worker = workers[number]
                switch random.next() % 8 {
                case 0, 1, 2:
                    let id = "c\(random.next() % 6)"
                    try enter(test, id)
                    try enter(rule, id)
                case 3:
                    // A worker whose lease is over goes on as another worker.
                    guard try rule.pushes.renew(worker), try test.pushes.renew(worker) else {
                        workers[number] = WorkerID("\(worker)'")
                        continue
                    }
                    let found = try take(test, worker)
                    #expect(try found == take(rule, worker), place)
                    held[worker, default: []] += found
                case 4, 5:
                    guard let id = held[worker]?.popLast() else { continue }
                    let again = [nil, 0, 3_000].randomElement(using: &random)! as Milliseconds?
                    let settled = try settle(test, id, again: again, by: worker)
                    #expect(try settled == settle(rule, id, again: again, by: worker), place)
                    if settled == .again { held[worker, default: []].append(id) }
                case 6:
                    #expect(try test.pushes.recover() == rule.pushes.recover(), place)
                default:
                    let passed = [1_000, 2_000, 3_000].randomElement(using: &random)! as Milliseconds
                    try test.pass(passed)
                    try rule.pass(passed)
                }
                let found = try test.pushes.count()
                #expect(try found.calls == rule.pushes.count().calls, place)
                // The rule is read just before and just after now: this machine knows Redis's clock with the error of
                // the way there and back.
                let isDue = try ([-500, 1_000] as [Milliseconds]).map { error in
                    try rule.pass(error)
                    return try rule.pushes.count().oldest != nil
                }
                try rule.pass(-500)
                #expect(isDue.contains(found.oldest != nil), place)
            }
        }
    }

    @Test(arguments: [StoreKind.sqlite, .redis, .redisCluster])
    func whateverIsReservedEveryStoreFollowsTheRule(kind: StoreKind) throws {
        for seed in 1...6 as ClosedRange<UInt64> {
            var random = SplitMix64(seed: seed)
            let test = try kind.open()
            let rule = try StoreKind.memory.open()
            var stopwatch = Stopwatch()
            for step in 1...60 {
                try rule.pass(stopwatch.lap())
                if random.next() % 6 == 0 {
                    let passed = [7_000, 25_000].randomElement(using: &random)! as Milliseconds
                    try test.pass(passed)
                    try rule.pass(passed)
                }
                let pushes = (0..<Int(random.next() % 8)).map { _ in
                    push(
                        "p\(random.next() % 60)", to: [alicePhone, bobPhone].randomElement(using: &random)!,
                        from: UserID("u\(random.next() % 5)")!)
                }
                #expect(
                    try test.pushes.reserve(pushes) == rule.pushes.reserve(pushes), "\(kind), seed \(seed), \(step)")
            }
        }
    }
}

extension StoreUnderTest {
    /// Registrations and the queue of pushes; the functions wait for the answers.
    var pushes: BlockingPushes { BlockingPushes(store) }
}
