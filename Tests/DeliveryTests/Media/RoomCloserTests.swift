import HTTPSending
import SignalingProtocol
import Support
import Testing
import Tokens

@testable import CallCore
@testable import CallStore
@testable import Delivery

/// How rooms are closed at a LiveKit server (docs/decisions/0031), in virtual time.
@Suite struct RoomCloserTests {
    /// A server that answers when a test tells it to, and as the test says.
    private final class Server: RequestSender {
        var open: [HTTPRequest] = []
        private var answers: [HTTPAnswer] = []
        let descriptor: Int32 = -1

        func send(_ request: HTTPRequest) { open.append(request) }

        func take() -> [HTTPAnswer] {
            defer { answers = [] }
            return answers
        }

        func answer(_ status: Int?, _ body: String = "{}") {
            guard !open.isEmpty else {
                Issue.record("no request is open")
                return
            }
            let outcome: HTTPAnswer.Outcome =
                status.map { .answered(.init(status: $0, retryAfter: nil, body: Array(body.utf8))) }
                ?? .failed(reason: "no answer", wasHandedOver: true)
            answers.append(HTTPAnswer(id: open.removeFirst().id, outcome: outcome, took: 1))
        }

        func turnDown() {
            guard !open.isEmpty else {
                Issue.record("no request is open")
                return
            }
            answers.append(HTTPAnswer(id: open.removeFirst().id, outcome: .notTried(reason: "full"), took: 1))
        }

        /// The methods and bodies of the open requests.
        var lines: [String] {
            open.map { "\($0.url.split(separator: ".").last ?? "") \(String(decoding: $0.body, as: UTF8.self))" }
        }
    }

    private final class Clock {
        var now: Milliseconds = 1_790_000_000_000
    }

    private final class Rig {
        let clock = Clock()
        let store: MemoryCallStore
        let server = Server()
        let files: MediaFiles
        var closer: RoomCloser
        private(set) var news: [String?] = []
        /// How far the wall clock is from the store's time.
        static let apart: Milliseconds = 5_000
        let rooms = EndpointName.rooms(of: "sfu")!
        let settings: MediaSettings
        private var workers = 0

        init() throws {
            let clock = clock
            store = MemoryCallStore { clock.now }
            files = try MediaFiles()
            settings = try files.read(
                #"""
                {"servers":{"sfu":{"type":"livekit","url":"wss://sfu","apiURL":"http://10.0.0.1:7880/","keyFile":"livekit.key","room":"r-{callID}"}},
                 "use":{"*":"sfu"}}
                """#)
            closer = RoomCloser(
                store, settings, sender: server, now: 0,
                wall: { WallTime(milliseconds: clock.now + Self.apart) }, newName: Self.names("m0"))
            closer.onNews = { [weak self] _, reason in self?.news.append(reason) }
            turn()
        }

        func another() {
            workers += 1
            let clock = clock
            closer = RoomCloser(
                store, settings, sender: server, now: 0,
                wall: { WallTime(milliseconds: clock.now + Self.apart) }, newName: Self.names("m\(workers)"))
            turn()
        }

        private static func names(_ worker: String) -> () -> String {
            var lives = 0
            return {
                lives += 1
                return "\(worker).\(lives)"
            }
        }

        func turn(after duration: Milliseconds = 0) {
            clock.now += duration
            for _ in 0..<4 { closer.turn(clock.now - 1_790_000_000_000) }
        }

        /// Commits the call at a revision. The members have these states; a change of a member has this revision.
        func commit(_ revision: Int, isLive: Bool = true, _ states: [String: MemberState]) {
            let key = RequestKey(
                device: DeviceAddress(userID: UserID("alice")!, deviceID: DeviceID("phone")!),
                requestID: RequestID("r")!)
            let id = "c"
            let stored = store.load([.call(CallID(id)!)])[0]
            var call: Call
            if case .call(let known)? = stored?.record {
                call = known
            } else {
                call = Call(
                    callID: CallID(id)!, mode: .advanced, media: nil, inviter: UserID("alice")!, createdAt: clock.now,
                    timeout: 60, extendedData: nil, joinPolicy: .invited, autoEnd: true, notReceivedAfter: nil,
                    origin: key)
            }
            call.revision = revision
            call.updatedAt = clock.now
            if !isLive { (call.state, call.endReason, call.endedAt) = (.ended, .hangup, clock.now) }
            var states = states
            // A call has two members at least.
            if stored == nil { states["zoe"] = states["zoe"] ?? .rejected }
            for (user, state) in states.sorted(by: { $0.key < $1.key }) {
                var member = Member(userID: UserID(user)!, state: state, updatedAt: clock.now)
                member.changedRevision = revision
                call.members.removeAll { $0.userID == member.userID }
                call.members.append(member)
            }
            var commit = Commit(
                .call(CallID(id)!), record: .call(call), expected: stored?.version ?? 0, deadline: nil, expiresAt: nil)
            commit.outboxEntries = OutboxEntries(
                to: [rooms], revisions: [.init(number: Int64(revision), time: clock.now, record: .call(call))])
            #expect(store.commit([commit]) == [.committed(version: (stored?.version ?? 0) + 1)])
            closer.committed([.call(CallID(id)!)])
            turn()
        }

        func count(_ outcome: RoomCounts.Outcome) -> Int { closer.report.counts.servers["sfu"]?[outcome] ?? 0 }
        var waiting: Int { store.count(rooms).waiting }
    }

    private let rig: Rig

    init() throws { rig = try Rig() }

    @Test func whoLeavesIsRemovedAndTheEndDeletesTheRoom() throws {
        rig.commit(1, ["alice": .accepted, "bob": .accepted, "carol": .accepted])
        #expect(rig.server.open.isEmpty && rig.waiting == 0, "nobody has left")
        rig.commit(2, ["bob": .quit])
        #expect(
            rig.server.lines == [
                #"RoomService/RemoveParticipant {"room":"r-c","identity":"bob","revoke_token_ts":1789999995}"#
            ])
        let request = try #require(rig.server.open.first)
        #expect(request.url == "http://10.0.0.1:7880/twirp/livekit.RoomService/RemoveParticipant")
        #expect(request.isToProvider && request.allowsPlainHTTP && request.timeout == 10_000)
        #expect(request.headers.contains { $0 == ("content-type", "application/json") })
        rig.commit(3, isLive: false, [:])
        #expect(rig.server.open.count == 1, "in order per call")
        rig.server.answer(200)
        rig.turn()
        #expect(rig.server.lines == [#"RoomService/DeleteRoom {"room":"r-c"}"#])
        rig.server.answer(200)
        rig.turn()
        #expect(rig.server.open.isEmpty && rig.waiting == 0)
        #expect(rig.count(.done) == 2)
        #expect(rig.closer.report.metrics.contains(#"bellwire_media_rooms_total{server="sfu",outcome="done"} 2"#))
    }

    @Test func oneRevisionThatDoesBothDeletesTheRoom() {
        rig.commit(1, ["alice": .accepted, "bob": .accepted])
        rig.commit(2, isLive: false, ["bob": .quit])
        #expect(rig.server.lines == [#"RoomService/DeleteRoom {"room":"r-c"}"#])
    }

    @Test func twoWhoLeaveAtOnceAreRemovedOneAfterTheOther() {
        rig.commit(1, ["alice": .accepted, "bob": .accepted, "carol": .accepted, "dave": .accepted])
        rig.commit(2, ["bob": .quit, "carol": .quit])
        #expect(rig.server.lines.count == 1 && rig.server.lines[0].contains("bob"))
        rig.server.answer(404, #"{"code":"not_found","msg":"participant does not exist"}"#)
        rig.turn()
        #expect(rig.server.lines.count == 1 && rig.server.lines[0].contains("carol"))
        rig.server.answer(200)
        rig.turn()
        #expect(rig.waiting == 0 && rig.count(.gone) == 1 && rig.count(.done) == 1)
    }

    @Test func whoJoinsAgainWhileAnotherIsRemovedStays() {
        rig.commit(1, ["alice": .accepted, "bob": .accepted, "carol": .accepted, "dave": .accepted])
        rig.commit(2, ["bob": .quit, "carol": .quit])
        rig.commit(3, ["carol": .accepted])
        #expect(rig.server.lines.count == 1 && rig.server.lines[0].contains("bob"))
        rig.server.answer(200)
        for _ in 0..<8 { rig.turn(after: 250) }
        #expect(rig.server.open.isEmpty && rig.waiting == 0 && rig.count(.done) == 1 && rig.count(.skipped) == 1)
    }

    @Test(
        arguments: [
            (500, "{}"), (404, "<html>"), (404, #"{"code":"bad_route"}"#), (302, ""), (401, "{}"), (nil, ""),
        ] as [(Int?, String)])
    func everythingElseIsTriedAgain(_ status: Int?, _ body: String) {
        rig.commit(1, isLive: false, ["alice": .accepted])
        rig.server.answer(status, body)
        rig.turn()
        #expect(rig.count(.failed) == 1 && rig.waiting == 1 && rig.server.open.isEmpty)
        rig.turn(after: 999)
        #expect(rig.server.open.isEmpty)
        for _ in 0..<6 where rig.server.open.isEmpty { rig.turn(after: 100) }
        #expect(rig.server.open.count == 1, "after a second")
        rig.server.answer(200)
        rig.turn()
        #expect(rig.waiting == 0 && rig.news.first != .some(nil))
    }

    @Test func anEntryIsGivenUpAfterTenMinutes() {
        rig.commit(1, ["alice": .accepted, "bob": .accepted])
        rig.commit(2, ["bob": .quit])
        let start = rig.clock.now
        var last = start
        while rig.waiting > 0, rig.clock.now < start + 1_000_000 {
            if !rig.server.open.isEmpty {
                last = rig.clock.now
                rig.server.answer(503)
            }
            rig.turn(after: 250)
        }
        #expect((600_000...600_500).contains(last - start), "\(last - start)")
        #expect(rig.count(.givenUp) == 1 && rig.count(.done) == 0)
        // 1, 2, 4 … 256 s, and the end of the ten minutes.
        #expect(rig.count(.failed) == 11)
        #expect(rig.store.count(rig.rooms).dead == 0)
    }

    @Test func aMemberWhoJoinedAgainIsNotRemoved() {
        rig.commit(1, ["alice": .accepted, "bob": .accepted, "carol": .accepted])
        rig.commit(2, ["bob": .quit])
        rig.server.answer(nil)
        rig.turn()
        rig.commit(3, ["bob": .accepted])
        for _ in 0..<8 { rig.turn(after: 250) }
        #expect(rig.server.open.isEmpty && rig.waiting == 0)
        #expect(rig.count(.skipped) == 1 && rig.count(.done) == 0)
    }

    @Test func aRoomOfACallThatLivesIsNotDeleted() {
        // The store has lost the end of the call.
        rig.commit(1, isLive: false, ["alice": .accepted])
        rig.server.answer(nil)
        rig.turn()
        guard case .call(var call)? = rig.store.load([.call(CallID("c")!)])[0]?.record else { return }
        (call.state, call.endedAt, call.endReason) = (.active, nil, nil)
        let commit = Commit(
            .call(CallID("c")!), record: .call(call), expected: 1, deadline: nil, expiresAt: nil)
        #expect(rig.store.commit([commit]) == [.committed(version: 2)])
        for _ in 0..<8 { rig.turn(after: 250) }
        #expect(rig.server.open.isEmpty && rig.waiting == 0 && rig.count(.skipped) == 1)
    }

    @Test func whatNeverHadItsTurnIsNoAttempt() {
        rig.commit(1, isLive: false, ["alice": .accepted])
        rig.server.turnDown()
        rig.turn()
        for _ in 0..<4 where rig.server.open.isEmpty { rig.turn(after: 250) }
        #expect(rig.server.open.count == 1 && rig.count(.failed) == 0)
    }

    @Test func anotherWorkerGoesOnAfterTheDeathOfOne() {
        rig.commit(1, isLive: false, ["alice": .accepted])
        #expect(rig.server.open.count == 1)
        rig.server.open = []
        rig.another()
        for _ in 0..<16 where rig.server.open.isEmpty { rig.turn(after: 250) }
        #expect(rig.server.lines == [#"RoomService/DeleteRoom {"room":"r-c"}"#])
        rig.server.answer(200)
        rig.turn()
        #expect(rig.waiting == 0)
    }

    @Test func aWorkerThatDoesNotDeliverSendsNothing() {
        let clock = rig.clock
        rig.closer.stop()
        rig.turn()
        rig.closer = RoomCloser(
            rig.store, rig.settings, sender: rig.server, delivers: false, now: 0,
            wall: { WallTime(milliseconds: clock.now) }, newName: { "idle" })
        rig.turn()
        rig.commit(1, isLive: false, ["alice": .accepted])
        for _ in 0..<8 { rig.turn(after: 250) }
        #expect(rig.server.open.isEmpty && rig.waiting == 1)
        #expect(rig.closer.nextTurn > clock.now - 1_790_000_000_000, "it does not turn without end")
    }

    @Test func theServersRefusalsAreTold() {
        rig.commit(1, isLive: false, ["alice": .accepted])
        rig.server.answer(401)
        rig.turn()
        #expect(rig.news == ["HTTP 401"])
    }

    @Test func theResultOfTheLastRequestIsStoredAtMostOnceAMinute() {
        func stored() -> String? { rig.store.endpoints().first { $0.name == rig.rooms }?.lastAttempt }
        rig.commit(1, isLive: false, ["alice": .accepted])
        #expect(stored() == nil)
        rig.server.answer(401)
        rig.turn(after: 1_000)
        rig.turn(after: 1_000)
        #expect(stored() == "HTTP 401")
        for _ in 0..<40 where rig.server.open.isEmpty { rig.turn(after: 500) }
        rig.server.answer(404, #"{"code":"not_found"}"#)
        rig.turn(after: 1_000)
        rig.turn(after: 1_000)
        #expect(stored() == "HTTP 401")
        rig.turn(after: 60_000)
        rig.turn(after: 1_000)
        #expect(stored() == "HTTP 404, no such room")
    }

    /// As after a failover of Redis, which may lose the newest writes.
    @Test func anOutboxThatTheStoreHasLostIsKeptAgain() {
        #expect(rig.store.endpoints().map(\.name) == [rig.rooms])
        rig.store.contents.outbox = Outbox()
        for _ in 0..<8 { rig.turn(after: 500) }
        #expect(rig.store.endpoints() == rig.settings.outboxes)
        rig.store.forget(rig.rooms)
        for _ in 0..<8 { rig.turn(after: 500) }
        #expect(rig.store.endpoints().isEmpty, "an operator has removed the outbox")
    }

    /// The API admits the worker for a minute, to this room alone.
    @Test func theRequestHasATokenOfLiveKit() throws {
        rig.commit(1, isLive: false, ["alice": .accepted])
        let header = try #require(rig.server.open.first?.headers.first { $0.name == "authorization" }?.value)
        let parts = header.dropFirst("Bearer ".count).split(separator: ".")
        let claims = String(decoding: try #require(Base64URL.decode(Array(parts[1].utf8))), as: UTF8.self)
        #expect(
            claims == #"{"iss":"APIkey7","nbf":1789999995,"exp":1790000065,"#
                + #""video":{"room":"r-c","roomAdmin":true,"roomCreate":true}}"#)
    }
}
