@testable import CallCore
import FuzzEntries
import FoundationEssentials
import Glibc
import SignalingProtocol
import Testing

@testable import CallStore

/// What the embedded store promises beyond every store: its file.
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
        // Longer than anything may take that is done with the file here.
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
        // What is written between two checkpoints, and a write more.
        #expect(size() < 8 << 20)
    }

    @Test func aReopenedFileHasEverything() throws {
        try fill(open())
        try expectComplete(open())
    }

    /// The files as a killed process leaves them: its log is not merged into the database yet.
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

    @Test func aFileOfALaterSchemaIsRefusedByNameAndLeftAlone() throws {
        try fill(open())
        try SQLiteDatabase(path: file.path).execute("PRAGMA user_version=99")
        #expect {
            try open()
        } throws: { error in
            guard let text = (error as? StoreError)?.description else { return false }
            return text.contains(file.path) && text.contains("later version") && text.contains("99")
        }
        let version = try SQLiteDatabase(path: file.path).query("PRAGMA user_version") { $0.integer(0) }
        #expect(version == [99])
    }

    /// Version 1 had calls, their users' lists, acks, claims and presence; 2 and 3 added tables; 4 numbers calls.
    @Test(arguments: [1, 2, 3])
    func aFileOfAnEarlierSchemaKeepsEverything(version: Int) throws {
        let timeline = [5, 6].map { TraceEntry(time: $0, coordinator: "c1", step: .deadline(late: 0)) }
        let request = Request.Message(to: bob, data: try #require(JSONText("{}")), seq: 5, stream: "s")
        let message = PeerMessage(
            request, messageID: MessageID("m")!,
            origin: RequestKey(device: alicePhone, requestID: RequestID("r")!), ttl: 30_000, isWithheld: false, now: 400
        )
        let messageID = RecordID.message(message.messageID, to: bob)
        do {
            let test = try open()
            try test.write(call("other", [alice, carol]))
            try fill(test)
            _ = try test.store.commit([
                Commit(messageID, record: .message(message), expected: 0, deadline: nil, expiresAt: nil)
            ])
            try test.store.note([.milestone(CallID("a")!, alicePhone, Milestone(name: "shown", milliseconds: 7))])
            try test.store.trace([CallTrace(CallID("a")!, timeline)], life: 1000)
        }
        let database = try SQLiteDatabase(path: file.path)
        try database.execute(Self.backToVersion3)
        let later = version < 3 ? ["milestones", "trace"] : []
        for table in later + (version < 2 ? ["users", "user_messages", "blocks"] : []) {
            try database.execute("DROP TABLE \(table)")
        }
        try database.execute("PRAGMA user_version=\(version)")
        let test = try open()
        #expect(try test.store.load([messageID])[0]?.record == .message(message))
        if version > 1 { #expect(try test.store.messages(MessageList(for: bob, limit: 9)) == [messageID]) }
        if version == 3 {
            #expect(try test.store.timeline(of: CallID("a")!) == Timeline(entries: timeline, omitted: 0))
            #expect(try test.load("a")?.reports.map(\.milestones) == [[Milestone(name: "shown", milliseconds: 7)]])
            try database.execute("DELETE FROM milestones")
        }
        try expectComplete(test)
        #expect(try test.store.profiles(of: [alice, carol]).map { $0 != nil } == [true, false])
        // Nothing of what was before is left over, and the file goes on as a new one does.
        let tables = try database.query("SELECT count(*) FROM sqlite_master WHERE name LIKE 'old%'") { $0.integer(0) }
        #expect(tables == [0])
        #expect(try test.write(call("a", media: "voice"), over: 2) == .committed(version: 3))
        #expect(try test.write(call("b")) == .committed(version: 1))
        #expect(try test.calls(bob) == ["b", "a"])
        #expect(try test.store.update(alice, .init(name: "Alice")).name == "Alice")
    }

    /// The file keeps its version, so that an earlier one opens it as well.
    @Test func aFileFromBeforeLastAttemptsKeepsItsEndpointsAndTakesThem() throws {
        let app = EndpointName("app")!
        let before = try open()
        try before.outbox.keep([KeptEndpoint(name: app, patterns: "*", url: "https://x/app")])
        try before.outbox.turnOff(app, at: "https://x/app")
        try SQLiteDatabase(path: file.path).execute("DROP TABLE outbox_attempts")
        let test = try open()
        try test.outbox.note("HTTP 410", of: app, at: "https://x/app")
        var expected = KeptEndpoint(name: app, patterns: "*", url: "https://x/app", isOff: true)
        expected.lastAttempt = "HTTP 410"
        #expect(try test.outbox.endpoints() == [expected])
    }

    /// Version 7 added what pushes need.
    @Test func aFileFromBeforePushesKeepsEverythingAndPushes() throws {
        try fill(open())
        let database = try SQLiteDatabase(path: file.path)
        let new = [
            "registrations", "push_deployment", "push_queue", "push_workers", "push_reservations", "pushes",
            "ring_checks",
        ]
        for table in new { try database.execute("DROP TABLE \(table)") }
        try database.execute("PRAGMA user_version=6")
        let test = try open()
        try expectComplete(test)
        #expect(try test.write(call("a", media: "video"), over: 2) { $0.pushes = true } == .committed(version: 3))
        #expect(try test.pushes.take(by: WorkerID("w")) == [CallID("a")!])
        let key = PushRegistration.Key(bobPhone, .standard, .fcm)
        try test.pushes.register(PushRegistration(key, target: .token("t"), digest: "d", since: 0))
        #expect(try open().pushes.registrations(of: [bob])[0].map(\.key) == [key])
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

    @Test func severalCoordinatorsMayOpenAFileOfAnEarlierSchemaAtOnce() async throws {
        for _ in 0..<10 {
            let file = TemporaryFile()
            let path = file.path
            try fill(open(path))
            let database = try SQLiteDatabase(path: path)
            try database.execute(Self.backToVersion3)
            try database.execute("PRAGMA user_version=3")
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        let store = BlockingStore(try SQLiteCallStore(path: path))
                        #expect(try store.load([CallID("a")!])[0] != nil)
                    }
                }
                try await group.waitForAll()
            }
            try expectComplete(open(path))
            withExtendedLifetime(file) {}
        }
    }

    private static let backToVersion3 = """
        CREATE TABLE calls_3(
            call_id BLOB PRIMARY KEY, version INTEGER NOT NULL, record BLOB NOT NULL, deadline INTEGER,
            expires_at INTEGER) WITHOUT ROWID;
        INSERT INTO calls_3 SELECT call_id, version, record, deadline, expires_at FROM calls;
        CREATE TABLE user_calls_3(
            user_id BLOB, created_at INTEGER, call_id BLOB, ended_at INTEGER NOT NULL,
            PRIMARY KEY(user_id, created_at, call_id)) WITHOUT ROWID;
        INSERT INTO user_calls_3 SELECT user_id, created_at, call_id, ended_at FROM user_calls;
        CREATE TABLE acks_3(
            call_id BLOB, user_id BLOB, device_id BLOB, session BLOB NOT NULL, revision INTEGER NOT NULL,
            PRIMARY KEY(call_id, user_id, device_id)) WITHOUT ROWID;
        INSERT INTO acks_3 SELECT call_id, user_id, device_id, session, revision FROM acks JOIN calls USING(call);
        CREATE TABLE heard_3(
            call_id BLOB, user_id BLOB, at INTEGER NOT NULL, PRIMARY KEY(call_id, user_id)) WITHOUT ROWID;
        INSERT INTO heard_3 SELECT call_id, user_id, at FROM heard JOIN calls USING(call);
        CREATE TABLE milestones_3(
            call_id BLOB, user_id BLOB, device_id BLOB, name BLOB, milliseconds INTEGER NOT NULL,
            PRIMARY KEY(call_id, user_id, device_id, name)) WITHOUT ROWID;
        INSERT INTO milestones_3
            SELECT call_id, user_id, device_id, name, milliseconds FROM milestones JOIN calls USING(call);
        CREATE TABLE trace_3(
            call_id BLOB, number INTEGER, entry BLOB NOT NULL, PRIMARY KEY(call_id, number)) WITHOUT ROWID;
        INSERT INTO trace_3 SELECT call_id, number, entry FROM trace JOIN calls USING(call);
        CREATE TABLE claims_3(claim BLOB PRIMARY KEY, call_id BLOB NOT NULL) WITHOUT ROWID;
        INSERT INTO claims_3 SELECT claim, call_id FROM claims JOIN calls USING(call);
        DROP TABLE calls; ALTER TABLE calls_3 RENAME TO calls;
        DROP TABLE user_calls; ALTER TABLE user_calls_3 RENAME TO user_calls;
        DROP TABLE acks; ALTER TABLE acks_3 RENAME TO acks;
        DROP TABLE heard; ALTER TABLE heard_3 RENAME TO heard;
        DROP TABLE milestones; ALTER TABLE milestones_3 RENAME TO milestones;
        DROP TABLE trace; ALTER TABLE trace_3 RENAME TO trace;
        DROP TABLE claims; ALTER TABLE claims_3 RENAME TO claims;
        CREATE INDEX calls_by_deadline ON calls(deadline) WHERE deadline IS NOT NULL;
        CREATE INDEX calls_by_expiry ON calls(expires_at) WHERE expires_at IS NOT NULL;
        CREATE INDEX user_calls_by_end ON user_calls(user_id, ended_at);
        CREATE INDEX user_calls_by_call ON user_calls(call_id);
        CREATE INDEX claims_by_call ON claims(call_id);
        """

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
