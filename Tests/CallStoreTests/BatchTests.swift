import CallCore
import FuzzEntries
import SignalingProtocol
import Testing

@testable import CallStore
@testable import RedisStore

/// Reading and writing in batches, and in two steps.
struct BatchTests {
    @Test(arguments: StoreKind.allCases)
    func oneLookFindsEverythingInItsOrder(kind: StoreKind) throws {
        let test = try kind.open()
        _ = try test.online(alicePhone, "s1")
        var commit = Commit(
            .call(CallID("a")!), record: .call(call("a")), expected: 0, deadline: nil, expiresAt: nil)
        commit.claims = [.activeCall(of: alice)]
        _ = try test.store.commit([commit])
        let found = try test.store.read([
            .record(.call(CallID("x")!)), .devices(bob), .record(.call(CallID("a")!)), .devices(alice),
            .holder(.activeCall(of: bob)), .holder(.activeCall(of: alice)), .profile(alice), .profile(bob),
        ])
        #expect([found[0], found[2]].map { $0.record?.version } == [nil, 1])
        #expect([found[1], found[3]].map { $0.devices.map(\.session) } == [[], ["s1"]])
        #expect(found[4...5].map { $0.holder?.callID } == [nil, CallID("a")])
        #expect(found[6...].map(\.profile) == [UserProfile(), nil])
    }

    @Test(arguments: StoreKind.allCases)
    func whatIsReadWithAWriteIsReadAfterIt(kind: StoreKind) throws {
        let test = try kind.open()
        let id = RecordID.call(CallID("a")!)
        let commit = Commit(id, record: .call(call("a")), expected: 0, deadline: nil, expiresAt: nil)
        let ack = DeviceAck(device: alicePhone, session: "s", revision: 1)
        let written = try test.store.write(
            [commit, commit], [.ack(CallID("a")!, ack)], thenRead: [.record(id)])
        #expect(written.outcomes == [.committed(version: 1), .conflict])
        #expect(written.answers?[0].record?.version == 1)
        #expect(written.answers?[0].record?.acks == [ack])
    }

    @Test(arguments: StoreKind.allCases)
    func whatIsBegunIsDoneInItsOrder(kind: StoreKind) throws {
        let test = try kind.open()
        let id = RecordID.call(CallID("a")!)
        let first = Commit(id, record: .call(call("a")), expected: 0, deadline: nil, expiresAt: nil)
        let second = Commit(id, record: .void, expected: 1, deadline: nil, expiresAt: nil)
        var versions: [Int64?] = []
        var outcomes: [[CommitOutcome]?] = []
        test.store.together([
            { versions.append(try? await $0.load([id])[0]?.version) },
            { outcomes.append(try? await $0.commit([first])) },
            { versions.append(try? await $0.load([id])[0]?.version) },
            { outcomes.append(try? await $0.commit([second])) },
            { versions.append(try? await $0.load([id])[0]?.version) },
        ])
        #expect(versions == [nil, 1, 2])
        #expect(outcomes == [[.committed(version: 1)], [.committed(version: 2)]])
    }

    @Test func nothingIsAskedOfRedisForNothing() throws {
        let test = try StoreKind.redis.open()
        _ = try test.store.now()
        let before = test.store.roundTrips
        _ = try test.store.read([])
        _ = try test.store.write([], [], thenRead: [])
        #expect(test.store.roundTrips == before)
        _ = try test.store.read([.devices(alice), .devices(bob), .profile(alice)])
        #expect(test.store.roundTrips == before + 1)
    }

    /// Two exchanges are on their way when Redis closes the connection: both fail, and neither takes the other's
    /// replies.
    @Test func whatIsOnItsWayWhenTheConnectionBreaksFails() {
        ScriptedRedis.answering(Array("*0\r\n".utf8)) { store in
            var answers: [[StoredRecord?]?] = []
            store.together([
                { answers.append(try? await $0.load([CallID("a")!])) },
                { answers.append(try? await $0.load([CallID("b")!])) },
            ])
            #expect(answers == [[nil], nil], "the first reply had come")
        }
    }

    @Test func aPipelineIsWhatRedisReads() {
        var pipeline = RedisPipeline(hashes: [.note: Array("ab".utf8)])
        pipeline.command("PING")
        pipeline.script(.note, keys: 1, arguments: 2) {
            $0.add(Array("k".utf8))
            $0.add(-12)
            $0.add("é", "b", "/", "")
        }
        let text =
            "*1\r\n$4\r\nPING\r\n*6\r\n$7\r\nEVALSHA\r\n$2\r\nab\r\n$1\r\n1\r\n$1\r\nk\r\n$3\r\n-12\r\n$4\r\néb/\r\n"
        #expect(String(decoding: pipeline.bytes, as: UTF8.self) == text)
        #expect(pipeline.commands.map(\.isScript) == [false, true])
        let second = RedisPipeline(pipeline, [1])
        #expect(second.bytes == Array(text.utf8.dropFirst("*1\r\n$4\r\nPING\r\n".utf8.count)))
    }

    @Test(arguments: [0, 1, 9, 10, 99, 100, 12_345, UInt64(Int64.max), UInt64.max])
    func numbersAreWrittenInDigits(_ number: UInt64) {
        var bytes = ByteBuffer()
        bytes.append(digitsOf: number)
        #expect(number.decimalLength == bytes.count)
        #expect(String(decoding: bytes.bytes, as: UTF8.self) == String(number))
    }
}
