@testable import CallCore
import FoundationEssentials
import FuzzEntries
import SignalingProtocol
import Testing

@testable import CallStore
@testable import RedisStore

/// Users' lists of calls in Redis, which are written before the commits to which they belong (docs/decisions/0006).
@Suite struct ListTests {
    private let server: RedisServer
    private let prefix = "test-\(UUID().uuidString)"
    private let redis: RedisCallStore
    private let store: BlockingStore

    init() throws {
        server = try RedisServer.shared.get()
        redis = RedisCallStore(address: server.address, prefix: prefix)
        store = BlockingStore(redis)
    }

    private func live(_ user: UserID) throws -> [CallID] { try store.calls(.live(of: user, limit: 1_000)) }

    private func commit(_ call: Call, over expected: Int64 = 0) -> Commit {
        var commit = Commit(
            .call(call.callID), record: .call(call), expected: expected, deadline: nil, expiresAt: nil)
        commit.newMembers = expected == 0 ? call.participants : []
        commit.hasJustEnded = !call.isLive
        return commit
    }

    @Test func aLostCommitTakesBackWhatItEntered() throws {
        #expect(try store.commit([commit(call("a", [alice, bob]))]) == [.committed(version: 1)])
        // Another user is invited under the same id, again and again.
        for number in 0..<50 {
            let other = call("a", [alice, carol], createdAt: 2_000 + Milliseconds(number))
            #expect(try store.commit([commit(other)]) == [.conflict])
        }
        #expect(try live(carol).isEmpty)
        #expect(try live(alice) == [CallID("a")!])
        #expect(try live(bob) == [CallID("a")!])
    }

    /// Redis goes away while the entry of a lost commit is taken back: the other commit of the same write stands.
    @Test func whatCannotBeTakenBackDoesNotUndoWhatWasCommitted() throws {
        let lost = commit(call("a", [alice, bob]))
        let won = Commit(.call(CallID("b")!), record: .void, expected: 0, deadline: nil, expiresAt: nil)
        let replies =
            String(repeating: ":1\r\n", count: lost.newMembers.count)
            + "*3\r\n:0\r\n:5\r\n:1790000000000\r\n*3\r\n:1\r\n:1\r\n:1790000000000\r\n"
        let outcomes = try ScriptedRedis.answering(Array(replies.utf8)) { try $0.commit([lost, won]) }
        #expect(outcomes == [.conflict, .committed(version: 1)])
    }

    @Test func anEntryThatTheWinnerSharesStays() throws {
        #expect(try store.commit([commit(call("a", [alice, bob]))]) == [.committed(version: 1)])
        #expect(try store.commit([commit(call("a", [alice, bob]))]) == [.conflict])
        #expect(try live(bob) == [CallID("a")!])
    }

    /// The coordinator of the entry died between the entry and the commit, or between the commit and the entry of the
    /// end.
    @Test func whatADeadCoordinatorLeftIsPutRight() throws {
        let long = try store.now() - 60_000
        for number in 0..<300 { try enter("gone-\(number)", of: bob, at: long) }
        var ended = call("ended", [alice, bob])
        #expect(try store.commit([commit(ended)]) == [.committed(version: 1)])
        ended.state = .ended
        ended.endedAt = try store.now()
        #expect(try store.commit([commit(ended, over: 1)]) == [.committed(version: 2)])
        try enter("ended", of: bob, at: long, createdAt: ended.createdAt)
        #expect(try store.commit([commit(call("lives", [alice, bob]))]) == [.committed(version: 1)])

        var mended = 0
        while true {
            let count = try store.tidyCalls(of: bob)
            guard count > 0 else { break }
            mended += count
        }
        #expect(mended == 301)
        #expect(try live(bob) == [CallID("lives")!])
        let history = try store.history(of: bob, after: nil, limit: 10).map(\.callID.string)
        #expect(Set(history) == ["lives", "ended"])
    }

    /// The commit to which the entry belongs may be on its way.
    @Test func aYoungEntryIsLeftAlone() throws {
        try enter("soon", of: bob, at: try store.now())
        #expect(try store.tidyCalls(of: bob) == 0)
        #expect(try live(bob) == [CallID("soon")!])
    }

    @Test(arguments: [0, 1, 1_790_000_000_000, 4_398_046_511_102] as [Milliseconds])
    func aScoreTellsWhenItWasWritten(moment: Milliseconds) throws {
        let text = LiveScore.written(at: moment)
        let score = try #require(Double(text))
        #expect(LiveScore.writtenAt(score) == moment)
        #expect(UInt64(exactly: score).map { String($0) } == text, "exactly as it was written")
        #expect(score > Double(Int64.max - 1))
    }

    private func enter(
        _ id: String, of user: UserID, at moment: Milliseconds, createdAt: Milliseconds = 1_000
    ) throws {
        try enter(id, of: user, score: LiveScore.written(at: moment), createdAt: createdAt)
    }

    private func enter(_ id: String, of user: UserID, score: String, createdAt: Milliseconds = 1_000) throws {
        var pipeline = RedisPipeline()
        pipeline.command("ZADD", 3) {
            $0.add(redis.key(user, "calls"))
            $0.add(score)
            $0.add("\(createdAt)-\(id)")
        }
        _ = try RedisConnection(server.address, timeout: 1_000).run(pipeline)
    }
}
