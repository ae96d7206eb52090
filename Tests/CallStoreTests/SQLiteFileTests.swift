@testable import CallCore
import FoundationEssentials
import FuzzEntries
import Glibc
import SignalingProtocol
import Testing

@testable import CallStore
@testable import SQLiteStore

/// The promises of the embedded store about its file, beyond the promises of every store.
@Suite struct SQLiteFileTests {
    private let file = TemporaryFile()

    private func open(_ path: String? = nil) throws -> StoreUnderTest {
        let file = file
        return StoreUnderTest(try SQLiteCallStore(path: path ?? file.path)) { try file.shiftTimes(by: $0) }
    }

    private func expectComplete(_ test: StoreUnderTest) throws {
        let id = CallID("a")!
        #expect(
            try test.load("a")
                == StoredRecord(
                    .call(id), version: 2, record: .call(call("a", media: "video")),
                    acks: [DeviceAck(device: alicePhone, session: "s1", revision: 3)],
                    heard: [UserHeard(userID: bob, at: 500)]))
        #expect(try test.holder(.activeCall(of: alice)) == "a")
        #expect(try test.due(before: 1234) == ["a"])
        #expect(try test.calls(bob) == ["a"])
        #expect(try test.presence(alicePhone)?.session == "s1")
        #expect(try test.online(bobPhone, "gone") == .over)
    }

    private func fill(_ test: StoreUnderTest) throws {
        try test.write(call("a"))
        try test.write(call("a", media: "video"), over: 1, deadline: 1234) { $0.claims = [.activeCall(of: alice)] }
        try test.store.note([
            .ack(CallID("a")!, DeviceAck(device: alicePhone, session: "s1", revision: 3)),
            .heard(CallID("a")!, UserHeard(userID: bob, at: 500)),
        ])
        _ = try test.online(alicePhone, "s1")
        // This time is longer than any work with the file in these tests.
        var policy = PresencePolicy()
        policy.sessionMemory = 3_600_000
        try test.offline(bobPhone, "gone", policy)
    }

    private func status(_ path: String) -> stat {
        var found = stat()
        #expect(stat(path, &found) == 0, "\(path)")
        return found
    }

    private func modes(_ path: String) -> [UInt32] {
        ["", "-wal", "-shm"].map { status(path + $0).st_mode & 0o777 }
    }

    @Test func theFilesAreTheirOwnersAlone() throws {
        let store = try open()
        try fill(store)
        #expect(modes(file.path) == [0o600, 0o600, 0o600])
        for suffix in ["", "-wal", "-shm"] {
            #expect(chmod(file.path + suffix, 0o644) == 0)
        }
        let again = try open()
        #expect(modes(file.path) == [0o600, 0o600, 0o600])
        withExtendedLifetime((store, again)) {}
    }

    @Test func theLogShrinksWhenAReaderLetsGo() throws {
        let store = try SQLiteCallStore(path: file.path)
        let reader = try SQLiteDatabase(path: file.path)
        func size() -> Int { Int(status(file.path + "-wal").st_size) }
        func write() throws(StoreError) {
            try store.database.run("INSERT OR REPLACE INTO stored VALUES(zeroblob(1000000),1,1,1)")
        }
        try reader.reading { () throws(StoreError) in
            _ = try reader.query("SELECT count(*) FROM calls") { $0.integer(0) }
            for _ in 0..<16 { try write() }
        }
        #expect(size() > 12 << 20)
        for _ in 0..<4 { try write() }
        // The log holds the writes between two checkpoints, and a write more.
        #expect(size() < 8 << 20)
    }

    @Test func aReopenedFileHasEverything() throws {
        try fill(open())
        try expectComplete(open())
    }

    /// A killed process leaves the files like this: its log is not merged into the database yet.
    @Test func theFilesOfAKilledProcessHaveEverything() throws {
        let store = try open()
        try fill(store)
        let copy = TemporaryFile()
        for suffix in ["", "-wal"] {
            try FileManager.default.copyItem(atPath: file.path + suffix, toPath: copy.path + suffix)
        }
        try expectComplete(open(copy.path))
        withExtendedLifetime(store) {}
    }

    @Test func twoHandlesSeeEachOther() throws {
        let (one, other) = (try open(), try open())
        try fill(one)
        try expectComplete(other)
    }

    @Test func twoHandlesCompareAndSetAgainstEachOther() throws {
        let (one, other) = (try open(), try open())
        #expect(try one.write(call("a")) == .committed(version: 1))
        #expect(try other.write(call("a", media: "voice")) == .conflict)
        #expect(try other.write(call("a", media: "voice"), over: 1) == .committed(version: 2))
        #expect(try one.write(call("a", media: "video"), over: 1) == .conflict)
        #expect(try one.load("a")?.record == .call(call("a", media: "voice")))
        let claim = Claim.activeCall(of: alice)
        try one.write(call("b")) { $0.claims = [claim] }
        #expect(try other.write(call("c")) { $0.expectedHolders = [(claim, nil)] } == .claimHeld)
    }

    @Test func writersThatRaceLoseNoUpdate() async throws {
        let path = file.path
        try open().write(call("counter"))
        let (writers, updates) = (3, 40)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<writers {
                group.addTask {
                    let store = BlockingStore(try SQLiteCallStore(path: path))
                    var left = updates
                    while left > 0 {
                        let stored = try store.load([CallID("counter")!])[0]!
                        guard case .call(var call) = stored.record else { throw StoreError(.unreachable, "no call") }
                        call.revision += 1
                        let commit = Commit(
                            .call(call.callID), record: .call(call), expected: stored.version, deadline: nil,
                            expiresAt: nil)
                        if try store.commit([commit]) != [.conflict] { left -= 1 }
                    }
                }
            }
            try await group.waitForAll()
        }
        let stored = try #require(try open().load("counter"))
        guard case .call(let call) = stored.record else { throw StoreError(.unreachable, "no call") }
        #expect(call.revision == 1 + writers * updates)
        #expect(stored.version == Int64(1 + writers * updates))
    }

    @Test func severalCoordinatorsMayOpenANewFileAtOnce() async throws {
        for _ in 0..<20 {
            let file = TemporaryFile()
            let path = file.path
            try await withThrowingTaskGroup(of: Void.self) { group in
                for number in 0..<4 {
                    group.addTask {
                        let store = BlockingStore(try SQLiteCallStore(path: path))
                        let call = call("c\(number)")
                        let commit = Commit(
                            .call(call.callID), record: .call(call), expected: 0, deadline: nil, expiresAt: nil)
                        #expect(try store.commit([commit]) == [.committed(version: 1)])
                    }
                }
                try await group.waitForAll()
            }
            withExtendedLifetime(file) {}
        }
    }

    @Test func aBatchIsOneTransaction() throws {
        let test = try open()
        try test.write(call("b"))
        try SQLiteDatabase(path: file.path).execute(
            "CREATE TRIGGER no_more BEFORE INSERT ON calls WHEN NEW.call_id=x'63' BEGIN SELECT RAISE(ABORT,'no'); END")
        let commits = [("a", 0), ("b", 1), ("c", 0)].map { id, expected in
            var commit = Commit(
                .call(CallID(id)!), record: .call(call(id, media: "video")), expected: Int64(expected), deadline: nil,
                expiresAt: nil)
            commit.newMembers = expected == 0 ? [alice, bob] : []
            return commit
        }
        #expect(throws: StoreError.self) { try test.store.commit(commits) }
        #expect(try test.load("a") == nil)
        #expect(try test.load("b")?.version == 1)
        #expect(try test.calls(alice) == ["b"])
        #expect(try test.store.commit(Array(commits.prefix(2))) == [.committed(version: 1), .committed(version: 2)])
    }

    /// The formats are from before the first version, and of a version that is still to come.
    @Test(arguments: [1, 9, 11, 99])
    func aFileInAnotherFormatIsRefusedByNameAndLeftAlone(number: Int64) throws {
        try fill(open())
        try SQLiteDatabase(path: file.path).execute("PRAGMA user_version=\(number)")
        let before = try Data(contentsOf: URL(filePath: file.path))
        let stamp = DeploymentStamp(topicRoot: "root", takesOver: true)
        let refusal = #expect(throws: StoreError.self) { try SQLiteCallStore(path: file.path, stamp: stamp) }
        #expect(refusal?.code == .foreign)
        let whose = number > 10 ? "a later version" : "an earlier build"
        for part in ["sqlite:\(file.path)", "format \(number)", whose, "format 10", "--store sqlite:PATH"] {
            #expect(refusal?.description.contains(part) == true, "\(part)")
        }
        #expect(try Data(contentsOf: URL(filePath: file.path)) == before)
    }

    /// The file belongs to another program, or to a very first build.
    @Test func aFileWithTablesAndWithoutAFormatIsRefusedByNameAndLeftAlone() throws {
        do {
            let database = try SQLiteDatabase(path: file.path)
            try database.execute("CREATE TABLE calls(call_id BLOB); INSERT INTO calls VALUES('a')")
        }
        let before = try Data(contentsOf: URL(filePath: file.path))
        let refusal = #expect(throws: StoreError.self) { try open() }
        #expect(refusal?.code == .foreign)
        #expect(refusal?.description.contains("\(file.path) cannot be used: it names no format") == true)
        #expect(try Data(contentsOf: URL(filePath: file.path)) == before)
    }

    @Test func cleaningLeavesNothingOfPushesBehind() throws {
        let test = try open()
        let key = PushRegistration.Key(bobPhone, .standard, .fcm)
        try test.pushes.register(PushRegistration(key, target: .token("t"), digest: "d", since: 0))
        _ = try test.pushes.reserve([PushReservation(device: bobPhone, inviter: alice, id: "x")])
        try test.write(call("a", endedAt: 1), expiresAt: 1) {
            $0.notes = [
                .push(CallID("a")!, PushState(key, invitation: 1, ring: .sent)),
                .ringCheck(CallID("a")!, RingCheck(device: bobPhone, invitation: 1)),
            ]
            $0.pushes = true
        }
        #expect(try test.pushes.take(by: WorkerID("w")).count == 1)
        try test.pass(PushLimits.registrationLife)
        _ = try test.store.clean(limit: 10)
        let rows = try SQLiteDatabase(path: file.path).query(
            """
            SELECT 1 FROM registrations UNION ALL SELECT 2 FROM push_reservations UNION ALL SELECT 3 FROM pushes
            UNION ALL SELECT 4 FROM ring_checks UNION ALL SELECT 5 FROM push_queue UNION ALL SELECT 6 FROM push_workers
            """
        ) { $0.integer(0) }
        #expect(rows.isEmpty)
    }

    @Test func aFileThatIsNoDatabaseIsAnErrorThatNamesIt() throws {
        try String(repeating: "This is a letter. ", count: 100).write(
            toFile: file.path, atomically: true, encoding: .utf8)
        #expect {
            try open()
        } throws: { error in
            (error as? StoreError)?.description.contains("\(file.path)") ?? false
        }
    }

    @Test func aFileThatCannotBeOpenedIsAnErrorThatNamesIt() {
        let path = "/nonexistent/bellwire.db"
        #expect {
            try open(path)
        } throws: { error in
            (error as? StoreError)?.description.contains(path) ?? false
        }
    }

    @Test func aRecordThatCannotBeReadIsAnErrorThatNamesTheCall() throws {
        let test = try open()
        try test.write(call("damaged"))
        try test.write(call("sound"))
        try SQLiteDatabase(path: file.path).execute("UPDATE calls SET record=x'7b' WHERE call_id=x'64616d61676564'")
        #expect(try test.load("damaged")?.record == .unreadable)
        #expect(try test.load("sound")?.record == .call(call("sound")))
    }

    @Test func theClockIsTheSystemsInMilliseconds() throws {
        let store = try SQLiteCallStore(path: file.path)
        let before = Milliseconds(Date().timeIntervalSince1970 * 1000)
        let now = store.now()
        let after = Milliseconds(Date().timeIntervalSince1970 * 1000)
        #expect((before - 1...after + 1).contains(now))
    }

    @Test(arguments: SQLiteCallStore.Synchronous.allCases)
    func everyKindOfDurabilityKeepsWhatWasCommitted(synchronous: SQLiteCallStore.Synchronous) throws {
        let store = BlockingStore(try SQLiteCallStore(path: file.path, synchronous: synchronous))
        #expect(store.summary == "sqlite:\(file.path)")
        let commit = Commit(.call(CallID("a")!), record: .call(call("a")), expected: 0, deadline: nil, expiresAt: nil)
        #expect(try store.commit([commit]) == [.committed(version: 1)])
        #expect(try open().load("a") != nil)
    }
}
