@testable import CallCore
import FuzzEntries
import SignalingProtocol
import Support
import Testing

@testable import CallStore

/// The outbox of each endpoint, in every store (docs/decisions/0019).
@Suite struct OutboxTests {
    private let app = EndpointName("app")!
    private let other = EndpointName("other")!
    private let one = WorkerID("one")
    private let two = WorkerID("two")

    /// A store with both endpoints.
    private func open(_ kind: StoreKind) throws -> StoreUnderTest {
        let test = try kind.open()
        try test.outbox.keep([app, other].map { KeptEndpoint(name: $0, patterns: "*", url: "https://x/\($0)") })
        return test
    }

    /// Writes these revisions of a call, with an outbox entry of each revision for each endpoint.
    private func owe(
        _ test: StoreUnderTest, _ id: String, _ numbers: ClosedRange<Int>, to names: [EndpointName]
    ) throws {
        let known = try test.load(id)?.version ?? 0
        let revisions = numbers.map { number in
            OutboxEntries.Revision(
                number: Int64(number), time: Milliseconds(number), record: .call(revision(id, number)))
        }
        try test.write(revision(id, numbers.upperBound), over: known) {
            $0.outboxEntries = OutboxEntries(to: names, revisions: revisions)
        }
    }

    private func revision(_ id: String, _ number: Int) -> Call {
        var call = call(id)
        call.revision = number
        return call
    }

    private func claim(_ test: StoreUnderTest, _ worker: WorkerID, _ name: EndpointName? = nil) throws -> [OutboxItem] {
        try test.outbox.claim(name ?? app, by: worker, limit: 1_000, near: nil).sorted { $0.id < $1.id }
    }

    private func settle(
        _ test: StoreUnderTest, _ item: OutboxItem, _ outcome: Settlement.Outcome, by worker: WorkerID
    ) throws -> Settled {
        try test.outbox.settle([Settlement(item, outcome)], by: worker)[0]
    }

    @Test(arguments: StoreKind.allCases)
    func whatIsOwedIsWrittenWithItsCommitOrNotAtAll(kind: StoreKind) throws {
        let test = try open(kind)
        try owe(test, "a", 1...1, to: [app, other])
        let lost = try test.write(revision("a", 9), over: 0) {
            $0.outboxEntries = OutboxEntries(
                to: [app], revisions: [.init(number: 9, time: 9, record: .call(revision("a", 9)))])
        }
        #expect(lost == .conflict)
        for name in [app, other] {
            let items = try claim(test, one, name)
            #expect(items.map(\.number) == [1])
            #expect(RecordCodec.decode(items[0].record, .call(CallID("a")!)) == .call(revision("a", 1)))
            #expect(try settle(test, items[0], .taken, by: one) == .done)
        }
        #expect(try test.outbox.count(app) == OutboxCount())
    }

    @Test(arguments: StoreKind.allCases)
    func theRevisionsOfOneCallComeOneAfterTheOtherAlsoThoseOfOneCommit(kind: StoreKind) throws {
        let test = try open(kind)
        try owe(test, "a", 1...3, to: [app])
        var item = try #require(try claim(test, one).first)
        try owe(test, "a", 4...4, to: [app])
        #expect(try claim(test, two).isEmpty, "the line is claimed")
        for number in 2...4 {
            guard case .next(let next) = try settle(test, item, .taken, by: one) else {
                Issue.record("no revision \(number)")
                return
            }
            #expect(next.number == Int64(number))
            #expect(RecordCodec.decode(next.record, next.id) == .call(revision("a", number)))
            item = next
        }
        #expect(try settle(test, item, .taken, by: one) == .done)
    }

    @Test(arguments: StoreKind.allCases)
    func whatIsTriedAgainWaitsAndItsAttemptsAreCounted(kind: StoreKind) throws {
        let test = try open(kind)
        try owe(test, "a", 1...2, to: [app])
        let item = try #require(try claim(test, one).first)
        #expect(item.attempts == 0 && item.firstAttempt == nil)
        #expect(try settle(test, item, .again(after: 60_000), by: one) == .done)
        #expect(try claim(test, one).isEmpty)
        try test.pass(60_000)
        let again = try #require(try claim(test, two).first)
        #expect(again.number == 1 && again.attempts == 1 && again.firstAttempt != nil)
        guard case .next(let next) = try settle(test, again, .taken, by: two) else {
            Issue.record("no second revision")
            return
        }
        #expect(next.attempts == 0 && next.firstAttempt == nil)
        #expect(try settle(test, next, .released, by: two) == .done)
        #expect(try claim(test, one).map(\.number) == [2])
    }

    @Test(arguments: StoreKind.allCases)
    func aWorkerThatIsGoneIsReplacedAndItsClaimsAreVoid(kind: StoreKind) throws {
        let test = try open(kind)
        try owe(test, "a", 1...1, to: [app])
        let item = try #require(try claim(test, one).first)
        #expect(try test.outbox.recover() == 0)
        try test.pass(WorkerLease.life - 500)
        #expect(try test.outbox.renew(one))
        try test.pass(WorkerLease.life - 500)
        #expect(try test.outbox.recover() == 0, "it lives")
        try test.pass(WorkerLease.life)
        #expect(try settle(test, item, .taken, by: one) == .void)
        #expect(try !test.outbox.renew(one))
        #expect(try test.outbox.recover() == 1)
        let again = try #require(try claim(test, two).first)
        #expect(again.number == 1)
        #expect(try settle(test, item, .taken, by: one) == .void, "it is another worker's")
        #expect(try settle(test, again, .taken, by: two) == .done)
    }

    @Test(arguments: StoreKind.allCases)
    func whatWasGivenUpIsADeadLetterAndMayBeReplayedInItsPlace(kind: StoreKind) throws {
        let test = try open(kind)
        try owe(test, "a", 1...3, to: [app])
        var item = try #require(try claim(test, one).first)
        for _ in 1...2 {
            guard case .next(let next) = try settle(test, item, .givenUp, by: one) else {
                Issue.record("no next revision")
                return
            }
            item = next
        }
        let dead = try test.outbox.deadLetters(app, since: 0, limit: 10)
        #expect(dead.map(\.number) == [1, 2])
        #expect(try test.outbox.deadLetters(app, since: 2, limit: 10).map(\.number) == [2])
        #expect(try test.outbox.count(app).dead == 2 && test.outbox.count(app).waiting == 1)
        #expect(try settle(test, item, .released, by: one) == .done)
        #expect(try test.outbox.replay(dead, of: app) == 2)
        #expect(try test.outbox.replay(dead, of: app) == 0)
        #expect(try claim(test, one).map(\.number) == [1])
        #expect(try test.outbox.count(app).dead == 0 && test.outbox.count(app).waiting == 3)
    }

    /// Behind the dead letter waits an entry that was tried before, and is not due for long.
    @Test(arguments: StoreKind.allCases)
    func aDeadLetterThatGoesFirstIsDueAtOnceAndUntried(kind: StoreKind) throws {
        let test = try open(kind)
        try owe(test, "a", 1...2, to: [app])
        let first = try #require(try claim(test, one).first)
        guard case .next(let second) = try settle(test, first, .givenUp, by: one) else {
            Issue.record("no second revision")
            return
        }
        #expect(try settle(test, second, .again(after: 600_000), by: one) == .done)
        #expect(try claim(test, one).isEmpty)
        let dead = try test.outbox.deadLetters(app, since: 0, limit: 10)
        #expect(try test.outbox.replay(dead, of: app) == 1)
        let again = try #require(try claim(test, one).first)
        #expect(again.number == 1 && again.attempts == 0 && again.firstAttempt == nil)
    }

    @Test(arguments: StoreKind.allCases)
    func whatIsForgottenLeavesNothingAndStartsAnewIfItComesBack(kind: StoreKind) throws {
        let test = try open(kind)
        let endpoint = try #require(try test.outbox.endpoints().first { $0.name == app })
        try owe(test, "a", 1...3, to: [app])
        let item = try #require(try claim(test, one).first)
        _ = try settle(test, item, .givenUp, by: one)
        try test.outbox.forget(app)
        #expect(try !test.outbox.endpoints().contains { $0.name == app })
        // A coordinator that has not read of the removal yet writes this entry.
        try owe(test, "b", 1...1, to: [app])
        while try test.outbox.clear(app) {}
        try test.outbox.keep([endpoint])
        #expect(try test.outbox.count(app) == OutboxCount())
        #expect(try test.outbox.deadLetters(app, since: 0, limit: 9).isEmpty)
        #expect(try claim(test, one).isEmpty)
        try owe(test, "c", 1...1, to: [app])
        #expect(try test.outbox.count(app).waiting == 1)
    }

    @Test(arguments: StoreKind.allCases)
    func aDeadLetterOfACallWhoseIDWasUsedBeforeGivesWay(kind: StoreKind) throws {
        let test = try open(kind)
        for _ in 1...2 {
            try owe(test, "a", 1...1, to: [app])
            let item = try #require(try claim(test, one).first)
            #expect(try settle(test, item, .givenUp, by: one) == .done)
        }
        let count = try test.outbox.count(app)
        #expect(count.dead == 1)
        #expect(try count.bytes == test.outbox.deadLetters(app, since: 0, limit: 9)[0].record.count)
    }

    @Test(arguments: StoreKind.allCases)
    func beyondItsBoundsTheOldestGo(kind: StoreKind) throws {
        let test = try open(kind)
        for number in 1...40 { try owe(test, "c\(number)", number...number, to: [app]) }
        var bounds = OutboxBounds(backlog: 10)
        var loss = OutboxLoss()
        func settleDown() throws {
            loss = OutboxLoss()
            while case let step = try test.outbox.bound(app, bounds), step != OutboxLoss() {
                loss.becameDead += step.becameDead
                loss.deleted += step.deleted
            }
        }
        try settleDown()
        var count = try test.outbox.count(app)
        // A store on several machines bounds each of its parts to the part's share.
        #expect(count.waiting <= 10 && count.dead == loss.becameDead && count.waiting + count.dead == 40)
        #expect(loss.becameDead >= 30)
        bounds.deadLetters = 5
        try settleDown()
        count = try test.outbox.count(app)
        #expect(count.dead <= 5)
        bounds.bytes = 0
        try settleDown()
        #expect(try test.outbox.count(app).bytes == 0)
        #expect(try test.outbox.count(app).waiting == 0)
    }

    /// Returns a store with twenty users with an entry each, half of them dead letters, and another user with sixty
    /// large, later entries in two calls.
    private func flooded(_ kind: StoreKind) throws -> StoreUnderTest {
        let test = try open(kind)
        for number in 1...20 { try owe(test, "o\(number)", by: UserID("other\(number)")!, 1...1, bytes: 10) }
        let items = try claim(test, one)
        #expect(items.count == 20)
        for (place, item) in items.enumerated() {
            #expect(try settle(test, item, place % 2 == 0 ? .givenUp : .released, by: one) == .done)
        }
        try owe(test, "f", by: alice, 1...30, bytes: 2_000)
        try owe(test, "g", by: alice, 1...30, bytes: 2_000)
        return test
    }

    private func owe(
        _ test: StoreUnderTest, _ id: String, by inviter: UserID, _ numbers: ClosedRange<Int>, bytes: Int
    ) throws {
        let revisions = numbers.map { number in
            var call = call(id, [inviter, bob], media: String(repeating: "x", count: bytes))
            call.revision = number
            return OutboxEntries.Revision(number: Int64(number), time: Milliseconds(number), record: .call(call))
        }
        guard case .call(let last)? = revisions.last?.record else { return }
        try test.write(last, over: 0) { $0.outboxEntries = OutboxEntries(to: [app], revisions: revisions) }
    }

    private func settleDown(_ test: StoreUnderTest, _ bounds: OutboxBounds) throws -> OutboxLoss {
        var loss = OutboxLoss()
        while case let step = try test.outbox.bound(app, bounds), step != OutboxLoss() {
            loss.becameDead += step.becameDead
            loss.deleted += step.deleted
        }
        return loss
    }

    @Test(arguments: StoreKind.allCases)
    func beyondTheBytesTheRevisionsGoOfWhoHasTheMost(kind: StoreKind) throws {
        let test = try flooded(kind)
        let bytes = try test.outbox.count(app).bytes
        let loss = try settleDown(test, OutboxBounds(bytes: bytes / 2))
        #expect(loss.becameDead == 0 && (15...40).contains(loss.deleted), "\(loss)")
        #expect(try test.outbox.count(app).bytes <= bytes / 2)
        #expect(try test.outbox.count(app).dead == 10, "the others' dead letters are kept")
        let items = try claim(test, two)
        #expect(items.count { $0.id.string.hasPrefix("o") } == 10, "and so is what waits of the others")
        // The first entries of a line have gone, and the remaining entries stand in their order.
        var left = 0
        for var item in items where !item.id.string.hasPrefix("o") {
            #expect(item.number > 1)
            left += 1
            while case .next(let next) = try settle(test, item, .taken, by: two) {
                #expect(next.number == item.number + 1)
                (item, left) = (next, left + 1)
            }
            #expect(item.number == 30)
        }
        #expect(left + loss.deleted == 60)
    }

    @Test(arguments: StoreKind.allCases)
    func whoHasTheMostLosesDeadLettersFirst(kind: StoreKind) throws {
        let test = try flooded(kind)
        for var item in try claim(test, one) {
            guard item.id.string == "f" else {
                _ = try settle(test, item, .released, by: one)
                continue
            }
            for _ in 1...15 {
                if case .next(let next) = try settle(test, item, .givenUp, by: one) { item = next }
            }
            #expect(item.number == 16)
            _ = try settle(test, item, .released, by: one)
        }
        let bytes = try test.outbox.count(app).bytes
        let loss = try settleDown(test, OutboxBounds(bytes: bytes - 20_000))
        #expect((8...12).contains(loss.deleted))
        let dead = try test.outbox.deadLetters(app, since: 0, limit: 99)
        #expect(dead.count { $0.id.string.hasPrefix("o") } == 10)
        let kept = dead.count { $0.id.string == "f" }
        // Redis keeps the user's two calls in two partitions, and takes entries from both.
        #expect(kind.isRedis ? (9..<15).contains(kept) : kept == 15 - loss.deleted)
        let waiting = try claim(test, two)
        #expect(waiting.first { $0.id.string == "f" }?.number == 16, "dead letters go before what waits")
        for item in waiting { _ = try settle(test, item, .released, by: two) }
        #expect(try test.outbox.replay(dead.filter { $0.id.string == "f" }, of: app) == kept)
        // The replayed entries still count with their owner.
        _ = try settleDown(test, OutboxBounds(bytes: bytes / 2))
        #expect(try test.outbox.count(app).dead == 10)
        #expect(try test.outbox.count(app).bytes <= bytes / 2)
    }

    /// The counts of users end with the counted entries, also where a worker held the entry meanwhile.
    @Test(arguments: StoreKind.allCases)
    func whatWasTakenCountsForNobody(kind: StoreKind) throws {
        let test = try flooded(kind)
        let bytes = try test.outbox.count(app).bytes
        for var item in try claim(test, one) where item.id.string == "f" || item.id.string == "g" {
            while case .next(let next) = try settle(test, item, .taken, by: one) { item = next }
        }
        for number in 1...3 { try owe(test, "h\(number)", by: carol, 1...5, bytes: 2_000) }
        try owe(test, "i", by: alice, 1...4, bytes: 2_000)
        #expect(try test.outbox.count(app).bytes < bytes)
        let loss = try settleDown(test, OutboxBounds(bytes: try test.outbox.count(app).bytes - 8_000))
        #expect(loss.deleted > 0)
        let items = try claim(test, two)
        #expect(items.contains { $0.id.string == "i" && $0.number == 1 }, "Carol has more than Alice")
    }

    /// An entry that a worker has claimed is on its way.
    @Test(arguments: StoreKind.allCases)
    func whatIsClaimedIsLeftAloneAndOthersDoNotPayForIt(kind: StoreKind) throws {
        let test = try flooded(kind)
        let items = try claim(test, one).filter { ["f", "g"].contains($0.id.string) }
        #expect(items.count == 2)
        let bounds = OutboxBounds(bytes: try test.outbox.count(app).bytes / 2)
        #expect(try settleDown(test, bounds) == OutboxLoss(), "all others are within a share")
        for item in items { _ = try settle(test, item, .released, by: one) }
        #expect(try settleDown(test, bounds).deleted >= 15)
        #expect(try test.outbox.count(app).dead == 10)
    }

    @Test(arguments: StoreKind.allCases)
    func deadLettersAreKeptForTheirTime(kind: StoreKind) throws {
        let test = try open(kind)
        try owe(test, "a", 1...1, to: [app])
        let item = try #require(try claim(test, one).first)
        #expect(try settle(test, item, .givenUp, by: one) == .done)
        var bounds = OutboxBounds()
        #expect(try test.outbox.bound(app, bounds) == OutboxLoss())
        bounds.deadLetterLife = 0
        #expect(try test.outbox.bound(app, bounds) == OutboxLoss(deleted: 1))
    }

    @Test(arguments: StoreKind.allCases)
    func anEndpointThatIsOffKeepsNothingWaitingUntilItMoves(kind: StoreKind) throws {
        let test = try open(kind)
        try test.outbox.turnOff(app, at: "https://before/app")
        #expect(try test.outbox.endpoints().map(\.isOff) == [false, false], "it has moved since")
        try test.outbox.turnOff(app, at: "https://x/app")
        #expect(try test.outbox.endpoints().map(\.isOff) == [true, false])
        try owe(test, "a", 1...1, to: [app])
        #expect(try test.outbox.bound(app, OutboxBounds()).becameDead == 1)
        try test.outbox.keep([KeptEndpoint(name: app, patterns: "call.*", url: "https://x/app")])
        #expect(try test.outbox.endpoints()[0].isOff)
        try test.outbox.keep([KeptEndpoint(name: app, patterns: "call.*", url: "https://y/app")])
        #expect(
            try test.outbox.endpoints()[0] == KeptEndpoint(name: app, patterns: "call.*", url: "https://y/app"))
        try test.outbox.forget(app)
        while try test.outbox.clear(app) {}
        #expect(try test.outbox.endpoints().map(\.name) == [other])
        #expect(try test.outbox.count(app) == OutboxCount())
    }

    @Test(arguments: StoreKind.allCases)
    func anEndpointThatIsOffIsTurnedOnAndItsDeadLettersGoOut(kind: StoreKind) throws {
        let test = try open(kind)
        try test.outbox.turnOff(app, at: "https://x/app")
        try owe(test, "a", 1...1, to: [app])
        #expect(try test.outbox.bound(app, OutboxBounds()).becameDead == 1)
        #expect(try test.outbox.turnOn(app))
        #expect(try test.outbox.endpoints().map(\.isOff) == [false, false])
        let letters = try test.outbox.deadLetters(app, since: 0, limit: 10)
        #expect(try test.outbox.replay(letters, of: app) == 1)
        #expect(try test.outbox.bound(app, OutboxBounds()) == OutboxLoss())
        #expect(try claim(test, one).map(\.number) == [1])
        #expect(try test.outbox.turnOn(app), "it is on already")
        #expect(try !test.outbox.turnOn(EndpointName("none")!))
        #expect(try test.outbox.endpoints().map(\.name) == [app, other])
    }

    @Test(arguments: StoreKind.allCases)
    func whatTheLastAttemptCameToIsKeptUntilTheEndpointMoves(kind: StoreKind) throws {
        let test = try open(kind)
        func last() throws -> [String?] { try test.outbox.endpoints().map(\.lastAttempt) }
        #expect(try last() == [nil, nil])
        try test.outbox.note("HTTP 401", of: app, at: "https://before/app")
        try test.outbox.note("HTTP 401", of: EndpointName("none")!, at: "https://x/app")
        #expect(try last() == [nil, nil], "it has moved since, and the other one is not known")
        try test.outbox.note("HTTP 503", of: app, at: "https://x/app")
        try test.outbox.note("HTTP 401", of: app, at: "https://x/app")
        try test.outbox.turnOff(app, at: "https://x/app")
        #expect(try last() == ["HTTP 401", nil])
        let kept = KeptEndpoint(name: app, patterns: "call.*", url: "https://x/app", backlog: 7)
        try test.outbox.keep([kept])
        var expected = kept
        (expected.isOff, expected.lastAttempt) = (true, "HTTP 401")
        #expect(try test.outbox.endpoints()[0] == expected)
        try test.outbox.keep([KeptEndpoint(name: app, patterns: "*", url: "https://y/app")])
        #expect(try last() == [nil, nil])
        try test.outbox.note("HTTP 200", of: app, at: "https://y/app")
        try test.outbox.forget(app)
        try test.outbox.keep([KeptEndpoint(name: app, patterns: "*", url: "https://y/app")])
        #expect(try last() == [nil, nil], "it was forgotten")
    }

    /// SQLite keeps no trace of a removed endpoint, since a file loses nothing.
    @Test(arguments: StoreKind.allCases)
    func anEndpointThatWasRemovedIsNotKeptAsLost(kind: StoreKind) throws {
        let test = try open(kind)
        let before = try test.outbox.endpoints()
        let changed = KeptEndpoint(name: app, patterns: "call.*", url: "https://y/app")
        let third = KeptEndpoint(name: EndpointName("third")!, patterns: "*", url: "https://x/third")
        try test.outbox.keepLost([changed])
        #expect(try test.outbox.endpoints() == before, "an endpoint in the list stays as it is")
        try test.outbox.keepLost([third])
        #expect(try test.outbox.endpoints() == (kind == .sqlite ? before : before + [third]))
        try test.outbox.forget(app)
        try test.outbox.keepLost([changed])
        #expect(try test.outbox.endpoints().contains { $0.name == app } == false)
        try test.outbox.keep([changed])
        #expect(try test.outbox.endpoints().contains(changed))
    }

    /// Random steps in any order compare every store with the rule, which is the memory store.
    @Test(arguments: [StoreKind.sqlite, .redis, .redisCluster])
    func whateverHappensEveryStoreFollowsTheRule(kind: StoreKind) throws {
        for seed in 1...6 as ClosedRange<UInt64> {
            var random = SplitMix64(seed: seed)
            let test = try open(kind)
            let rule = try open(.memory)
            var stopwatch = Stopwatch()
            var held: [WorkerID: [OutboxItem]] = [:]
            var workers = [WorkerID("w1"), WorkerID("w2")]
            var revisions: [String: Int] = [:]
            for step in 1...100 {
                try rule.pass(stopwatch.lap())
                let place: Comment = "\(kind), seed \(seed), step \(step)"
                let number = Int(random.next() % 2)
                let worker = workers[number]
                switch random.next() % 8 {
                case 0, 1, 2:
                    let id = "c\(random.next() % 5)"
                    let next = revisions[id, default: 0] + 1
                    let last = next + Int(random.next() % 3)
                    revisions[id] = last
                    let names = random.next() % 2 == 0 ? [app] : [app, other]
                    try owe(test, id, next...last, to: names)
                    try owe(rule, id, next...last, to: names)
                case 3:
                    let name = [app, other].randomElement(using: &random)!
                    // A worker whose lease is over goes on as another worker.
                    guard try rule.outbox.renew(worker), try test.outbox.renew(worker) else {
                        workers[number] = WorkerID("\(worker)'")
                        continue
                    }
                    let expected = try claim(rule, worker, name)
                    let found = try claim(test, worker, name)
                    #expect(brief(found) == brief(expected), place)
                    held[worker, default: []] += found
                case 4, 5:
                    guard let item = held[worker]?.popLast() else { continue }
                    let outcome =
                        [.taken, .givenUp, .released, .again(after: 3_000), .again(after: 0)]
                        .randomElement(using: &random)! as Settlement.Outcome
                    let expected = try settle(rule, item, outcome, by: worker)
                    let found = try settle(test, item, outcome, by: worker)
                    #expect(brief(found) == brief(expected), place)
                    if case .next(let next) = found { held[worker, default: []].append(next) }
                case 6:
                    #expect(try test.outbox.recover() == rule.outbox.recover(), place)
                default:
                    let passed = [1_000, 2_000, 3_000].randomElement(using: &random)! as Milliseconds
                    try test.pass(passed)
                    try rule.pass(passed)
                }
                for name in [app, other] { #expect(try test.outbox.count(name) == rule.outbox.count(name), place) }
            }
        }
    }

    private func brief(_ items: [OutboxItem]) -> [String] {
        items.map { "\($0.id.string) \($0.number) \($0.attempts) \($0.record.count)" }
    }

    private func brief(_ settled: Settled) -> String {
        switch settled {
        case .void: "void"
        case .done: "done"
        case .next(let item): brief([item])[0]
        }
    }
}

extension StoreUnderTest {
    /// The outbox; its functions wait for the answers.
    var outbox: BlockingOutbox { BlockingOutbox(store) }
}
