import CallCore
import FuzzEntries
import Glibc
import SignalingProtocol
import Testing

@testable import CallStore
@testable import RedisStore

/// A server that is no Redis, or holds entries that no coordinator wrote: its answers are errors or are passed over,
/// and no answer is taken for a valid entry.
@Suite struct StrangeRedisTests {
    private func ask<Answer>(
        _ replies: String, _ question: (BlockingStore) throws -> Answer
    ) throws -> Answer {
        try ScriptedRedis.answering(utf8(replies), question)
    }

    /// An array of strings.
    private func strings(_ words: String...) -> String {
        "*\(words.count)\r\n" + words.map { "$\($0.utf8.count)\r\n\($0)\r\n" }.joined()
    }

    private func utf8(_ text: String) -> [UInt8] { Array(text.utf8) }

    /// Redis was restarted, or closes idle connections, while no command was on its way: the store does not poll a
    /// socket that stays readable for ever, and asks the next question over another connection.
    @Test func aConnectionThatEndsAtRestIsGivenUpAtOnce() throws {
        let answer = utf8("*0\r\n")
        var servers: [Int32] = []
        defer { for server in servers { close(server) } }
        let store = RedisCallStore(waitReplicas: 0) { () throws(StoreError) -> RedisConnection in
            var ends: [Int32] = [-1, -1]
            precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0, "no socket pair: \(errno)")
            servers.append(ends[1])
            _ = (ScriptedRedis.greeting + answer).withUnsafeBytes { send(ends[1], $0.baseAddress, $0.count, 0) }
            return try RedisConnection(descriptor: ends[0])
        }
        let blocking = BlockingStore(store)
        #expect(try blocking.load([CallID("a")!])[0] == nil)
        #expect(store.socket != nil && store.socket?.deadline == nil)
        shutdown(servers[0], Int32(SHUT_RDWR))
        store.receive()
        #expect(store.socket == nil)
        #expect(try blocking.load([CallID("a")!])[0] == nil)
        #expect(servers.count == 2 && store.socket != nil)
    }

    /// A server that takes no writes may no longer be the master: the next question goes over another connection. After
    /// another error the connection stands.
    @Test(arguments: [
        ("-READONLY You can't write against a read only replica.", true), ("-LOADING Redis is loading", true),
        ("-MASTERDOWN Link with MASTER is down", true), ("-ERR unknown command", false),
    ])
    func aServerThatTakesNoWritesIsLeft(refusal: String, isLeft: Bool) throws {
        try ask(refusal + "\r\n*0\r\n") { store in
            let first = #expect(throws: StoreError.self) { try store.load([CallID("a")!]) }
            #expect(first?.code == .failed && first?.description.contains(refusal.dropFirst().prefix(8)) ?? false)
            if isLeft {
                #expect(throws: StoreError.self) { try store.load([CallID("a")!]) }
            } else {
                let second = try store.load([CallID("a")!])
                #expect(second[0] == nil)
            }
        }
    }

    @Test(arguments: [":1\r\n", "+OK\r\n", "$2\r\nab\r\n", "$-1\r\n", "*1\r\n$1\r\nv\r\n", "*2\r\n$1\r\nv\r\n:1\r\n"])
    func anAnswerOfAnotherKindIsNoEmptyStore(reply: String) {
        #expect(throws: StoreError.self) { try ask(reply) { try $0.load([CallID("a")!]) } }
        #expect(throws: StoreError.self) { try ask(reply) { try $0.devices(of: [alice]) } }
        #expect(throws: StoreError.self) { try ask(reply) { try $0.profiles(of: [alice]) } }
        #expect(throws: StoreError.self) { try ask(reply) { try $0.history(of: alice, after: nil, limit: 1) } }
    }

    @Test(arguments: ["+OK\r\n", "$1\r\n1\r\n", "*0\r\n", "$-1\r\n"])
    func aScriptThatReturnsNoNumberHasNotRun(reply: String) {
        let policy = PresencePolicy()
        #expect(throws: StoreError.self) {
            try ask(reply) { try $0.cameOnline([DeviceSession(alicePhone, id: "s")], policy: policy) }
        }
        #expect(throws: StoreError.self) {
            try ask(reply) { try $0.wentOffline([DeviceSession(alicePhone, id: "s")], policy: policy) }
        }
        #expect(throws: StoreError.self) {
            try ask(reply) { try $0.note([.heard(CallID("a")!, UserHeard(userID: alice, at: 1))]) }
        }
        // The claim is neither taken nor held by another call.
        var commit = Commit(.call(CallID("a")!), record: .void, expected: 0, deadline: nil, expiresAt: nil)
        commit.claims = [.activeCall(of: alice)]
        commit.expectedHolders = [(.activeCall(of: alice), ClaimHolder(CallID("b")!, version: 1))]
        #expect(throws: StoreError.self) { try ask(reply + "*3\r\n:1\r\n:1\r\n:1\r\n") { try $0.commit([commit]) } }
    }

    /// A claim that is expected to be free is taken by `SET NX`, which answers "OK" or nothing.
    @Test(arguments: [":1\r\n", "$1\r\n1\r\n", "*0\r\n", "+QUEUED\r\n"])
    func aClaimIsNotTakenByAnUnexpectedAnswer(reply: String) {
        var commit = Commit(.call(CallID("a")!), record: .void, expected: 0, deadline: nil, expiresAt: nil)
        commit.claims = [.activeCall(of: alice)]
        commit.expectedHolders = [(.activeCall(of: alice), nil)]
        #expect(throws: StoreError.self) { try ask(reply + "*3\r\n:1\r\n:1\r\n:1\r\n") { try $0.commit([commit]) } }
    }

    @Test func aWriteIsNotCountedWhenNobodySaysHowManyReplicasHaveIt() {
        let replies = utf8(":1\r\n-ERR no permission for WAIT\r\n")
        #expect(throws: StoreError.self) {
            try ScriptedRedis.answering(replies, waitReplicas: 1) {
                try $0.note([.heard(CallID("a")!, UserHeard(userID: alice, at: 1))])
            }
        }
    }

    /// The scripts were forgotten, and loaded again: the note that is repeated needs its replica like any other.
    @Test(arguments: [(0, false), (1, true)])
    func aRepeatedWriteIsJudgedByItsOwnReplicas(reached: Int, counts: Bool) throws {
        let loaded = String(repeating: "$2\r\nab\r\n", count: RedisScript.allCases.count)
        let replies = utf8("-NOSCRIPT\r\n:1\r\n" + loaded + ":1\r\n:\(reached)\r\n")
        let result = Result {
            try ScriptedRedis.answering(replies, waitReplicas: 1) {
                try $0.note([.heard(CallID("a")!, UserHeard(userID: alice, at: 1))])
            }
        }
        #expect(((try? result.get()) != nil) == counts)
    }

    /// The first write of the block may have reached no replica.
    @Test(arguments: [(0, false), (1, true)])
    func aRepeatedBlockIsWrittenAgainWhereWritesWaitForReplicas(reached: Int, counts: Bool) throws {
        let isBlocked = ":1\r\n:1\r\n"
        let written = ":0\r\n:0\r\n:\(reached)\r\n"
        let result = Result {
            try ScriptedRedis.answering(utf8(isBlocked + written), waitReplicas: 1) {
                try $0.set(Block(by: bob, of: alice), true)
            }
        }
        #expect(((try? result.get()) != nil) == counts)
    }

    @Test(arguments: ["inf", "-inf", "nan", "1e300", "-5", "7.9", "x"])
    func aScoreThatIsNoTimeHidesNothing(score: String) throws {
        let places = try ask(strings("5-a", score)) { try $0.history(of: alice, after: nil, limit: 1) }
        #expect(places == [HistoryPlace(createdAt: 5, callID: CallID("a")!)])
        let rest = String(repeating: "*0\r\n", count: 63)
        #expect(try ask(strings("a", score) + rest) { try $0.due(before: 1, limit: 1) } == [.call(CallID("a")!)])
        let bulk = "$\(score.utf8.count)\r\n\(score)\r\n"
        let isFar = ["inf", "1e300"].contains(score)
        #expect(try ask(bulk) { try $0.due([.call(CallID("a")!)], before: 10) }.isEmpty == isFar)
    }

    /// A store that took such a hash for no call would answer `callNotFound`, and a new call would take its place.
    @Test(arguments: [["v", "x", "r", "{}"], ["r", "{}"], ["v", "1"]])
    func aHashWithoutItsVersionOrRecordIsUnreadable(fields: [String]) throws {
        let reply = "*\(fields.count)\r\n" + fields.map { "$\($0.utf8.count)\r\n\($0)\r\n" }.joined()
        #expect(try ask(reply) { try $0.load([CallID("a")!]) }[0]?.record == .unreadable)
    }

    @Test func timesThatNoClockShowsArePassedOver() throws {
        let huge = "9223372036854775807"
        let devices = try ask(strings("phone", "1:1:\(huge):s", "web", "1:1:2:s")) { try $0.devices(of: [alice]) }
        #expect(devices[0].map(\.device) == [aliceWeb])
        let record = String(decoding: RecordCodec.encode(.call(call("a"))), as: UTF8.self)
        let stored = try ask(
            strings(
                "v", "1", "r", record, "halice", huge, "hbob", "5", "aphone/alice", "\(huge):s", "aphone/bob", "2:s")
        ) { try $0.load([CallID("a")!]) }[0]
        #expect(stored?.heard == [UserHeard(userID: bob, at: 5)])
        #expect(stored?.acks == [DeviceAck(device: bobPhone, session: "s", revision: 2)])
    }

    @Test func whatIsDamagedOfPushesIsPassedOver() throws {
        let record = String(decoding: RecordCodec.encode(.call(call("a"))), as: UTF8.self)
        let huge = "9223372036854775807"
        let stored = try ask(
            strings(
                "v", "1", "r", record, "pdefault/fcm/phone/alice", "2:sent:later:", "pdefault/fcm/phone/bob",
                "\(huge):sent::", "pdefault/none/phone/bob", "2:::", "p/", ":", "pdefault/apns/phone/bob", "2:sent",
                "cphone/alice", huge, "cphone/bob", "3", "cphone", "4")
        ) { try $0.load([CallID("a")!]) }[0]
        let key = PushRegistration.Key(alicePhone, .standard, .fcm)
        #expect(stored?.pushes == [PushState(key, invitation: 2, ring: .sent)])
        #expect(stored?.checks == [RingCheck(device: bobPhone, invitation: 3)])
    }

    @Test func aQueueOfAnImpossibleLengthIsBounded() throws {
        let counts = String(
            repeating: ":9223372036854775807\r\n:-9223372036854775808\r\n*2\r\n$1\r\na\r\n$3\r\ninf\r\n", count: 64)
        #expect(try ask(counts) { try BlockingPushes($0).count() }.calls == 64 << 24)
        let removed = String(repeating: ":1\r\n", count: 64)
        #expect(try ask(counts + removed) { try BlockingPushes($0).bound() } == 64)
    }

    @Test(arguments: ["9223372036854775807", "-1", "soon"])
    func aServerWithoutATimeIsRefused(seconds: String) {
        let scripts = String(repeating: "$2\r\nab\r\n", count: RedisScript.allCases.count)
        let greeting = utf8("$-1\r\n" + scripts + strings(seconds, "0") + "$-1\r\n")
        #expect(throws: StoreError.self) { try ScriptedRedis.answering([], greeting: greeting) { try $0.now() } }
    }

    @Test func aCommitAtNoTimeIsAnError() {
        let commit = Commit(.call(CallID("a")!), record: .void, expected: 0, deadline: nil, expiresAt: nil)
        #expect(throws: StoreError.self) {
            try ask("*3\r\n:1\r\n:1\r\n:9223372036854775807\r\n") { try $0.commit([commit]) }
        }
    }

    /// A log line is bounded.
    @Test func aLongErrorIsCutShort() {
        let long = String(repeating: "x", count: 100_000)
        for reply in ["-ERR \(long)\r\n", "*1\r\n$100000\r\n\(long)\r\n"] {
            let error = #expect(throws: StoreError.self) { try ask(reply) { try $0.load([CallID("a")!]) } }
            #expect(error.map { $0.description.utf8.count < 1_000 } ?? false)
        }
    }
}
