@testable import CallCore
import CallStore
import HTTPSending
import SignalingProtocol
import Support
import Testing

@testable import Delivery

/// How a worker handles an outbox (docs/decisions/0019), in virtual time.
@Suite struct DelivererTests {
    /// Endpoints that answer when a test tells them to, and as the test says.
    private final class Endpoints: RequestSender {
        var open: [HTTPRequest] = []
        private var answers: [HTTPAnswer] = []
        let descriptor: Int32 = -1

        func send(_ request: HTTPRequest) { open.append(request) }

        func take() -> [HTTPAnswer] {
            defer { answers = [] }
            return answers
        }

        func answer(_ status: Int?, retryAfter: Int? = nil, reason: String = "no answer", _ place: Int = 0) {
            let outcome: HTTPAnswer.Outcome =
                status.map { .answered(.init(status: $0, retryAfter: retryAfter, body: [])) }
                ?? .failed(reason: reason, wasHandedOver: true)
            answers.append(HTTPAnswer(id: open.remove(at: place).id, outcome: outcome, took: 1))
        }

        func turnDown(_ place: Int = 0) {
            answers.append(
                HTTPAnswer(id: open.remove(at: place).id, outcome: .notTried(reason: "its turn never came"), took: 1))
        }

        /// The ids of the open requests.
        var ids: [String] { open.map { request in request.headers.first { $0.name == "webhook-id" }!.value } }
    }

    private final class Clock {
        var now: Milliseconds = 1_790_000_000_000
        /// How far the wall clock is from the store's time.
        var apart: Milliseconds = 0
        var wall: WallTime { WallTime(milliseconds: now + apart) }
    }

    private final class Rig {
        let clock = Clock()
        let store: MemoryCallStore
        let doubtful: DoubtfulStore
        let endpoints = Endpoints()
        var deliverer: Deliverer
        /// The news about the endpoint that operators were told.
        private(set) var news: [EndpointNews] = []
        private var workers = 0
        private let settings: [WebhookEndpoint]
        let app = EndpointName("app")!

        init(events: [String] = ["*"], retryFor: Int = 60) {
            let clock = clock
            store = MemoryCallStore { clock.now }
            doubtful = DoubtfulStore(store)
            settings = [
                WebhookEndpoint(
                    name: "app", url: try! HTTPSURL("https://app.example/hook"),
                    secrets: [try! WebhookSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")],
                    events: EventPatterns(events)!, retryFor: retryFor)
            ]
            deliverer = Deliverer(
                doubtful, settings, sender: endpoints, now: 0, wall: { clock.wall }, newName: Self.names("w0"))!
            listen()
            turn()
        }

        private func listen() {
            deliverer.onNews = { [weak self] name, news in if name == self?.app { self?.news.append(news) } }
        }

        /// The last attempt as the store knows it.
        var lastAttempt: String? { store.endpoints()[0].lastAttempt }

        /// An event of a call of its own goes out and is answered.
        func attempt(_ status: Int?, reason: String = "no answer") {
            attempts += 1
            owe("n\(attempts)", 1...1)
            endpoints.answer(status, reason: reason, endpoints.open.count - 1)
            turn()
        }

        private var attempts = 0

        func turn(after duration: Milliseconds = 0) {
            clock.now += duration
            for _ in 0..<3 { deliverer.turn(clock.now - 1_790_000_000_000) }
        }

        /// Starts another worker. The former worker is never heard of again, and its sent requests stay open.
        func another() {
            workers += 1
            deliverer = Deliverer(doubtful, settings, sender: endpoints, now: 0, newName: Self.names("w\(workers)"))!
            listen()
            turn()
        }

        private static func names(_ worker: String) -> () -> String {
            var lives = 0
            return {
                lives += 1
                return "\(worker).\(lives)"
            }
        }

        func owe(_ id: String, _ numbers: ClosedRange<Int>) {
            let calls = numbers.map { call(id, $0) }
            let known = store.load([.call(CallID(id)!)])[0]?.version ?? 0
            var commit = Commit(
                .call(CallID(id)!), record: .call(calls.last!), expected: known, deadline: nil, expiresAt: nil)
            commit.outboxEntries = OutboxEntries(
                to: [app],
                revisions: calls.map { .init(number: Int64($0.revision), time: clock.now, record: .call($0)) })
            #expect(store.commit([commit]) == [.committed(version: known + 1)])
            deliverer.committed([.call(CallID(id)!)])
            turn()
        }

        private func call(_ id: String, _ revision: Int) -> Call {
            let (alice, bob) = (UserID("alice")!, UserID("bob")!)
            let key = RequestKey(
                device: DeviceAddress(userID: alice, deviceID: DeviceID("phone")!), requestID: RequestID("r")!)
            var call = Call(
                callID: CallID(id)!, mode: .common, media: nil, inviter: alice, createdAt: clock.now, timeout: 60,
                extendedData: nil, joinPolicy: .invited, autoEnd: true, notReceivedAfter: nil, origin: key)
            call.revision = revision
            call.members = [alice, bob].map { Member(userID: $0, state: .inviting, updatedAt: clock.now) }
            return call
        }

        var count: OutboxCount { store.count(app) }
    }

    private let rig = Rig()

    /// The endpoint was not asked: with `retryFor` at 0 any attempt would be the last attempt.
    @Test func whatNeverHadItsTurnIsNoAttempt() {
        let rig = Rig(retryFor: 0)
        rig.owe("a", 1...1)
        rig.endpoints.turnDown()
        rig.turn()
        #expect(rig.count.dead == 0 && rig.count.waiting == 1)
        rig.turn(after: 500)
        #expect(rig.endpoints.ids == ["a_1"])
        rig.endpoints.answer(200)
        rig.turn()
        #expect(rig.count.waiting == 0)
    }

    /// A receiver compares the timestamp with its clock, and refuses a timestamp that is five minutes off
    /// (docs/decisions/0024).
    @Test(arguments: [-28_800_000, -600_000, 600_000, 28_800_000] as [Milliseconds])
    func requestsAreSignedByTheWallClock(_ apart: Milliseconds) throws {
        let rig = Rig()
        rig.clock.apart = apart
        rig.owe("a", 1...1)
        // The clock is put right between two attempts, and the second attempt has the timestamp of its own moment.
        for (expected, put) in [(apart, 0), (0, 0)] as [(Milliseconds, Milliseconds)] {
            let request = try #require(rig.endpoints.open.first)
            let timestamp = request.headers.first { $0.name == "webhook-timestamp" }?.value
            #expect(timestamp == String((rig.clock.now + expected) / 1_000))
            rig.clock.apart = put
            rig.endpoints.answer(500)
            rig.turn()
            rig.turn(after: 1_000)
        }
        #expect(rig.endpoints.open.isEmpty, "it is tried again after one second, then after two, by the store's time")
    }

    @Test func whatIsOwedIsSentSignedAndSettled() {
        rig.owe("a", 1...1)
        #expect(rig.endpoints.ids == ["a_1"])
        let headers = Dictionary(rig.endpoints.open[0].headers.map { ($0.name, $0.value) }) { $1 }
        #expect(headers["webhook-timestamp"] == "1790000000")
        #expect(headers["webhook-signature"]?.hasPrefix("v1,") ?? false)
        #expect(headers["content-type"] == "application/json")
        rig.endpoints.answer(204)
        rig.turn()
        #expect(rig.count == OutboxCount())
        #expect(rig.deliverer.report.counts.endpoints[rig.app]?.attempts == [.taken: 1])
    }

    @Test func revisionsOfOneCallWaitForEachOtherAndCallsDoNot() {
        rig.owe("a", 1...2)
        rig.owe("b", 1...1)
        #expect(rig.endpoints.ids == ["a_1", "b_1"])
        rig.endpoints.answer(200, 1)
        rig.turn()
        #expect(rig.endpoints.ids == ["a_1"])
        rig.endpoints.answer(200)
        rig.turn()
        #expect(rig.endpoints.ids == ["a_2"])
    }

    @Test func whatIsNotTakenIsTriedAgainLaterAndLater() {
        rig.owe("a", 1...1)
        for wait in [1_000, 2_000, 4_000] as [Milliseconds] {
            rig.endpoints.answer(wait == 2_000 ? nil : 503)
            rig.turn()
            rig.turn(after: wait - 1)
            #expect(rig.endpoints.ids.isEmpty)
            rig.turn(after: 600)
            #expect(rig.endpoints.ids == ["a_1"])
        }
        rig.endpoints.answer(503, retryAfter: 20)
        rig.turn()
        rig.turn(after: 19_000)
        #expect(rig.endpoints.ids.isEmpty)
        rig.turn(after: 1_600)
        #expect(rig.endpoints.ids == ["a_1"])
    }

    @Test func whatIsNotTakenInItsTimeIsADeadLetterAndTheNextRevisionGoesOn() {
        let rig = Rig(retryFor: 0)
        rig.owe("a", 1...2)
        rig.endpoints.answer(500)
        rig.turn()
        #expect(rig.endpoints.ids == ["a_2"])
        #expect(rig.count.dead == 1)
        #expect(rig.deliverer.report.counts.endpoints[rig.app]?.attempts == [.dead: 1])
    }

    @Test func eventsThatNobodyAskedForAreNotSent() {
        let rig = Rig(events: ["call.ended"])
        rig.owe("a", 1...3)
        #expect(rig.endpoints.ids.isEmpty)
        #expect(rig.count == OutboxCount())
    }

    @Test func anEndpointThatIsGoneIsSentNothingMore() {
        rig.owe("a", 1...1)
        rig.owe("b", 1...1)
        rig.endpoints.answer(410)
        rig.turn()
        #expect(rig.store.endpoints()[0].isOff)
        rig.endpoints.answer(503)
        rig.turn()
        rig.owe("c", 1...1)
        rig.turn(after: 5_000)
        #expect(rig.endpoints.ids.isEmpty)
        _ = rig.store.bound(rig.app, OutboxBounds())
        #expect(rig.count.dead == 3 && rig.count.waiting == 0)
    }

    /// A reader of the log learns that the endpoint is off, and the outbox entries go out once the endpoint is on
    /// again.
    @Test func anEndpointThatIsGoneIsToldOfAndIsTurnedOnAgain() {
        rig.owe("a", 1...1)
        rig.owe("b", 1...1)
        rig.endpoints.answer(410)
        rig.endpoints.answer(410)
        rig.turn()
        for _ in 0..<5 { rig.turn(after: 1_000) }
        #expect(rig.news == [.off], "once, and nothing of the answer beside it")
        #expect(rig.lastAttempt == "HTTP 410")
        rig.another()
        #expect(rig.news == [.off, .off], "whoever starts says it too")
        rig.turn(after: 60_000)
        #expect(rig.store.turnOn(rig.app))
        for _ in 0..<5 { rig.turn(after: 1_000) }
        #expect(rig.news == [.off, .off, .on])
        #expect(rig.deliverer.report.counts.endpoints[rig.app]?.isOff == false)
        let letters = rig.store.deadLetters(rig.app, since: 0, limit: 10)
        #expect(rig.store.replay(letters, of: rig.app) == 2)
        rig.turn(after: 500)
        #expect(rig.endpoints.ids == ["a_1", "b_1"])
        for _ in 0..<2 { rig.endpoints.answer(200) }
        rig.turn()
        #expect(rig.count == OutboxCount())
        rig.turn(after: 1_000)
        #expect(rig.news.count == 3)
    }

    /// Each kind of refusal as an operator reads it, once and not with each attempt.
    @Test(
        arguments: [
            (308, "", "redirect (HTTP 308), which is not followed"), (401, "", "HTTP 401"), (503, "", "HTTP 503"),
            (nil, "the certificate is not to be trusted: unknown authority", nil), (nil, "10.0.0.1 is private", nil),
            (nil, "no whole answer within 10000 ms", nil),
        ] as [(Int?, String, String?)])
    func whyAnEndpointTakesNothingIsToldOnce(_ status: Int?, _ reason: String, _ text: String?) {
        let text = text ?? reason
        for _ in 0..<30 { rig.attempt(status, reason: reason) }
        #expect(rig.news == [.refuses(text)])
        rig.turn(after: 1_000)
        #expect(rig.lastAttempt == text)
        rig.turn(after: 600_000)
        rig.attempt(status, reason: reason)
        #expect(rig.news == [.refuses(text)], "nothing has changed")
        #expect(rig.doubtful.notes == 1)
        rig.attempt(204)
        rig.turn(after: 1_000)
        #expect(rig.news == [.refuses(text), .takes])
        #expect(rig.lastAttempt == "HTTP 204")
    }

    @Test func whatIsTakenFromTheFirstOnIsNotToldInTheLog() {
        rig.attempt(200)
        rig.turn(after: 1_000)
        #expect(rig.news.isEmpty)
        #expect(rig.lastAttempt == "HTTP 200")
    }

    /// The endpoint answers otherwise with each attempt: the worker makes a line and a write a minute, and in the end
    /// writes the last answer.
    @Test func anEndpointThatChangesItsMindIsToldOfOnceAMinute() {
        for second in 0..<120 {
            rig.attempt(second.isMultiple(of: 2) ? 503 : 500)
            rig.turn(after: 1_000)
        }
        #expect(rig.news.count <= 3, "\(rig.news)")
        #expect(rig.doubtful.notes <= 3)
        rig.attempt(401)
        for _ in 0..<61 { rig.turn(after: 1_000) }
        #expect(rig.news.last == .refuses("HTTP 401"))
        #expect(rig.lastAttempt == "HTTP 401")
    }

    /// A worker that was started with an older file gets 410 from the former URL, time and again.
    @Test func anEndpointThatHasMovedDoesNotFillTheLog() {
        rig.store.keep([KeptEndpoint(name: rig.app, patterns: "*", url: "https://new.example/hook")])
        for number in 0..<60 {
            rig.owe("m\(number)", 1...1)
            if !rig.endpoints.open.isEmpty { rig.endpoints.answer(410) }
            rig.turn(after: 1_000)
        }
        #expect((1...3).contains(rig.news.count), "\(rig.news)")
    }

    @Test func ofALineThatIsHeldNothingMoreGoesToAnEndpointThatIsGone() {
        rig.owe("a", 1...5)
        rig.endpoints.answer(410)
        rig.turn()
        #expect(rig.endpoints.ids.isEmpty)
        rig.turn(after: 1_000)
        #expect(rig.count.dead == 5)
    }

    @Test func whatTheStoreKnowsOfAnEndpointCounts() {
        let rig = Rig(events: ["call.ended"])
        // Another process was started with a newer file.
        rig.store.keep([KeptEndpoint(name: rig.app, patterns: "call.*", url: "https://app.example/hook")])
        rig.turn(after: 1_100)
        rig.owe("a", 1...1)
        #expect(rig.endpoints.ids == ["a_1"])
    }

    @Test func anotherWorkerGoesOnWithinThreeSecondsAfterOneDied() {
        rig.owe("a", 1...1)
        rig.another()
        #expect(rig.endpoints.ids == ["a_1"])
        for _ in 0..<6 { rig.turn(after: 500) }
        #expect(rig.endpoints.ids == ["a_1", "a_1"], "at least once")
        rig.endpoints.answer(200, 1)
        rig.turn()
        #expect(rig.count == OutboxCount())
    }

    @Test func aWorkerThatWakesLateFindsItsClaimsVoid() {
        rig.owe("a", 1...2)
        let late = rig.deliverer
        rig.another()
        for _ in 0..<6 { rig.turn(after: 500) }
        #expect(rig.endpoints.ids == ["a_1", "a_1"])
        rig.endpoints.answer(200, 0)
        for _ in 0..<3 { late.turn(rig.clock.now - 1_790_000_000_000) }
        #expect(rig.count.waiting == 2, "it settles nothing")
        #expect(rig.endpoints.ids == ["a_1"], "and sends nothing")
    }

    /// The worker stood still for longer than its lease, so that its settlements are void. A new claim would keep the
    /// worker alive, and with the worker the entries that it held before.
    @Test func whatAWorkerHeldWhenItsLeaseWasOverIsFreeOnceItFindsThat() {
        rig.owe("a", 1...1)
        rig.clock.now += 2_500
        rig.endpoints.answer(200)
        rig.doubtful.losesSight = true
        rig.turn()
        rig.owe("b", 1...1)
        rig.doubtful.losesSight = false
        for _ in 0..<8 { rig.turn(after: 500) }
        #expect(rig.endpoints.ids == ["b_1", "a_1"], "at least once")
        for _ in 0..<2 { rig.endpoints.answer(200) }
        rig.turn()
        #expect(rig.count == OutboxCount())
    }

    /// A repeated settlement would settle the entries that the same worker has claimed since.
    @Test func whatMayHaveBeenSettledIsNotSettledAgain() {
        rig.owe("a", 1...1)
        rig.doubtful.answersToLose = 1
        rig.endpoints.answer(200)
        rig.turn()
        #expect(rig.count == OutboxCount())
        rig.owe("a", 2...2)
        for _ in 0..<10 { rig.turn(after: 500) }
        #expect(rig.endpoints.ids == ["a_2"])
    }

    @Test func aWorkerThatLivesIsNotReplaced() {
        rig.owe("a", 1...1)
        let first = rig.deliverer
        rig.another()
        for _ in 0..<20 {
            rig.turn(after: 500)
            for _ in 0..<3 { first.turn(rig.clock.now - 1_790_000_000_000) }
        }
        #expect(rig.endpoints.ids == ["a_1"])
    }

    @Test func whoStopsGivesBackWhatItHasClaimed() {
        rig.owe("a", 1...1)
        rig.deliverer.stop()
        rig.turn()
        #expect(rig.deliverer.hasStopped)
        rig.endpoints.open = []
        rig.another()
        rig.turn(after: 500)
        #expect(rig.endpoints.ids == ["a_1"])
    }

    @Test func noMoreIsClaimedThanIsOnItsWay() {
        for number in 0..<100 { rig.owe("c\(number)", 1...1) }
        #expect(rig.endpoints.open.count == WorkerEndpoint.mostClaimed)
        for _ in 0..<40 { rig.endpoints.answer(200) }
        rig.turn()
        #expect(rig.endpoints.open.count == 60, "the rest is claimed as soon as there is room")
    }

    @Test func whoCannotReachTheStoreWaitsBeforeItTriesAgain() {
        let rig = Rig()
        #expect(rig.deliverer.nextTurn > 0, "nor does it turn without end while there is nothing to do")
        rig.owe("a", 1...1)
        #expect(rig.deliverer.nextTurn > rig.clock.now - 1_790_000_000_000)
    }

    @Test func whoDoesNotDeliverTellsTheStoreOfTheEndpointsAndCounts() {
        let store = MemoryCallStore { 1_790_000_000_000 }
        let endpoint = WebhookEndpoint(
            name: "app", url: try! HTTPSURL("https://app.example/"), secrets: [], events: EventPatterns(["call.*"])!,
            backlog: 7)
        let deliverer = Deliverer(store, [endpoint], sender: Endpoints(), delivers: false, now: 0) { "w" }!
        deliverer.turn(0)
        #expect(store.endpoints().map(\.backlog) == [7])
        #expect(deliverer.report.metrics.contains(#"bellwire_webhook_backlog{endpoint="app"} 0"#))
    }
}
