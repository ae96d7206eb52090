import CallCore
import Glibc
import SignalingProtocol

/// The embedded store: one SQLite file in WAL mode. A batch is one transaction. Several coordinators on one machine
/// may share the file.
public final class SQLiteCallStore: CallStore {
    /// What a crash of the machine may lose. A crash of the process loses nothing either way.
    public enum Synchronous: String, Sendable, CaseIterable {
        /// A power cut may lose the commits since the last checkpoint of the log; the file stays consistent.
        case normal
        /// Every commit is on disk before it is answered.
        case full
    }

    let database: SQLiteDatabase
    private let path: String
    private let synchronous: Synchronous
    private let historyPerUser: Int
    private let lease: Milliseconds

    /// `ended_at` of a call that lives: it stands behind every moment, so that one index answers "live or ended since".
    static let notEnded = Int64.max
    private static let schemaVersion: Int64 = 3

    public init(
        path: String, synchronous: Synchronous = .normal, historyPerUser: Int = 200,
        lease: Milliseconds = PresencePolicy().lease
    ) throws(StoreError) {
        self.path = path
        self.synchronous = synchronous
        self.historyPerUser = historyPerUser
        self.lease = lease
        database = try SQLiteDatabase(path: path)
        do throws(StoreError) {
            try database.executeWhenFree("PRAGMA journal_mode=WAL")
            try database.execute("PRAGMA synchronous=\(synchronous.rawValue)")
            try createSchema()
        } catch {
            throw StoreError("\(path): \(error)")
        }
    }

    public var summary: String { "sqlite:\(path)" }

    public var roundTrips: Int { database.transactions }

    public var durability: String? {
        switch synchronous {
        case .normal: "synchronous=normal: a power cut may lose the last moments"
        case .full: "synchronous=full: a power cut loses nothing that was answered"
        }
    }

    private func createSchema() throws(StoreError) {
        let version = try database.query("PRAGMA user_version") { $0.integer(0) }.first ?? 0
        guard version <= Self.schemaVersion else {
            throw StoreError("written by a later version of Bellwire (schema \(version))")
        }
        guard version < Self.schemaVersion else { return }
        try database.transaction { () throws(StoreError) in
            try database.execute(Self.schema)
            // Who is online is known, also in a file of version 1.
            try database.execute("INSERT OR IGNORE INTO users(user_id) SELECT DISTINCT user_id FROM presence")
            try database.execute("PRAGMA user_version=\(Self.schemaVersion)")
        }
    }

    /// Versions 2 and 3 added tables to those before and changed none.
    private static let schema = """
        CREATE TABLE IF NOT EXISTS calls(
            call_id BLOB PRIMARY KEY, version INTEGER NOT NULL, record BLOB NOT NULL, deadline INTEGER,
            expires_at INTEGER) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS calls_by_deadline ON calls(deadline) WHERE deadline IS NOT NULL;
        CREATE INDEX IF NOT EXISTS calls_by_expiry ON calls(expires_at) WHERE expires_at IS NOT NULL;
        CREATE TABLE IF NOT EXISTS user_calls(
            user_id BLOB, created_at INTEGER, call_id BLOB, ended_at INTEGER NOT NULL,
            PRIMARY KEY(user_id, created_at, call_id)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS user_calls_by_end ON user_calls(user_id, ended_at);
        CREATE INDEX IF NOT EXISTS user_calls_by_call ON user_calls(call_id);
        CREATE TABLE IF NOT EXISTS acks(
            call_id BLOB, user_id BLOB, device_id BLOB, session BLOB NOT NULL, revision INTEGER NOT NULL,
            PRIMARY KEY(call_id, user_id, device_id)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS heard(
            call_id BLOB, user_id BLOB, at INTEGER NOT NULL, PRIMARY KEY(call_id, user_id)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS claims(claim BLOB PRIMARY KEY, call_id BLOB NOT NULL) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS claims_by_call ON claims(call_id);
        CREATE TABLE IF NOT EXISTS presence(
            user_id BLOB, device_id BLOB, session BLOB NOT NULL, online INTEGER NOT NULL, since INTEGER NOT NULL,
            seen INTEGER NOT NULL, PRIMARY KEY(user_id, device_id)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS presence_by_seen ON presence(seen);
        CREATE TABLE IF NOT EXISTS over_sessions(
            user_id BLOB, device_id BLOB, session BLOB, until INTEGER NOT NULL,
            PRIMARY KEY(user_id, device_id, session)) WITHOUT ROWID;
        CREATE INDEX IF NOT EXISTS over_sessions_by_end ON over_sessions(until);
        CREATE TABLE IF NOT EXISTS user_messages(
            user_id BLOB, created_at INTEGER, call_id BLOB,
            PRIMARY KEY(user_id, created_at, call_id)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS users(
            user_id BLOB PRIMARY KEY, name BLOB, avatar_url BLOB, extended_data BLOB) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS blocks(
            user_id BLOB, blocked_id BLOB, PRIMARY KEY(user_id, blocked_id)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS milestones(
            call_id BLOB, user_id BLOB, device_id BLOB, name BLOB, milliseconds INTEGER NOT NULL,
            PRIMARY KEY(call_id, user_id, device_id, name)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS trace(
            call_id BLOB, number INTEGER, entry BLOB NOT NULL, PRIMARY KEY(call_id, number)) WITHOUT ROWID;
        """

    public func now() -> Milliseconds {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Milliseconds(time.tv_sec) * 1000 + Milliseconds(time.tv_nsec) / 1_000_000
    }

    // MARK: Records

    public func read(_ lookup: Lookup) throws(StoreError) -> Findings {
        try database.reading { () throws(StoreError) in try found(lookup) }
    }

    private func found(_ lookup: Lookup) throws(StoreError) -> Findings {
        var findings = Findings()
        for id in lookup.records { findings.records.append(try load(id)) }
        for user in lookup.presence { findings.presence.append(try devices(of: user)) }
        for claim in lookup.claims { findings.holders.append(try holder(of: claim)) }
        for user in lookup.profiles { findings.profiles.append(try profile(of: user)) }
        for block in lookup.blocks { findings.isBlocked.append(try stands(block)) }
        for list in lookup.calls { findings.calls.append(try calls(list)) }
        for list in lookup.messages { findings.messages.append(try messages(list)) }
        return findings
    }

    public func write(_ commits: [Commit], _ notes: [Note], thenRead lookup: Lookup) throws(StoreError) -> Written {
        guard !commits.isEmpty || !notes.isEmpty else { return Written(outcomes: [], findings: try read(lookup)) }
        return try database.transaction { () throws(StoreError) in
            var outcomes: [CommitOutcome] = []
            for commit in commits { outcomes.append(try self.commit(commit)) }
            try write(notes)
            return Written(outcomes: outcomes, findings: try found(lookup))
        }
    }

    private func load(_ id: RecordID) throws(StoreError) -> StoredRecord? {
        let row = try database.query(
            "SELECT version, record FROM calls WHERE call_id=?", .id(id),
            read: { (row) throws(StoreError) -> (Int64, Record)? in
                (row.integer(0), RecordCodec.decode(row.bytes(1), id))
            }
        ).first
        guard let (version, record) = row else { return nil }
        guard let callID = id.callID else { return StoredRecord(id, version: version, record: record) }
        let acks = try database.query(
            "SELECT user_id, device_id, session, revision FROM acks WHERE call_id=?", .id(callID)
        ) { row in
            row.device(0).map { DeviceAck(device: $0, session: row.text(2), revision: Int(row.integer(3))) }
        }
        let heard = try database.query("SELECT user_id, at FROM heard WHERE call_id=?", .id(callID)) { row in
            UserID(row.text(0)).map { UserHeard(userID: $0, at: row.integer(1)) }
        }
        var milestones: [DeviceAddress: [String: Int64]] = [:]
        _ = try database.query(
            "SELECT user_id, device_id, name, milliseconds FROM milestones WHERE call_id=?", .id(callID)
        ) { row in
            if let device = row.device(0) { milestones[device, default: [:]][row.text(2)] = row.integer(3) }
            return true
        }
        return StoredRecord(
            id, version: version, record: record, acks: acks, heard: heard, reports: DeviceReport.sorted(milestones))
    }

    private func commit(_ commit: Commit) throws(StoreError) -> CommitOutcome {
        guard now() <= commit.validUntil else { return .stale }
        let version =
            try database.query("SELECT version FROM calls WHERE call_id=?", .id(commit.id)) {
                $0.integer(0)
            }.first ?? 0
        guard version == commit.expected else { return .conflict }
        for (claim, expected) in commit.expectedHolders {
            let holder = try holder(of: claim)
            guard holder == expected || holder?.callID == commit.id.callID else { return .claimHeld }
        }
        for claim in commit.releases {
            try database.run("DELETE FROM claims WHERE claim=? AND call_id=?", .claim(claim), .id(commit.id))
        }
        for claim in commit.claims {
            try database.run("INSERT OR REPLACE INTO claims VALUES(?,?)", .claim(claim), .id(commit.id))
        }
        try database.run(
            "INSERT OR REPLACE INTO calls VALUES(?,?,?,?,?)", .id(commit.id), .integer(version + 1),
            .blob(RecordCodec.encode(commit.record)), .integer(commit.deadline), .integer(commit.expiresAt))
        switch commit.record {
        case .call(let call):
            try writeIndex(call)
            for user in commit.formerMembers {
                try database.run(
                    "DELETE FROM user_calls WHERE user_id=? AND created_at=? AND call_id=?", .id(user),
                    .integer(call.createdAt), .id(call.callID))
            }
        case .message(let message): try writeIndex(message, commit.id)
        case .alias, .cancelled, .void, .unreadable: break
        }
        try write(commit.notes)
        return .committed(version: version + 1)
    }

    private func writeIndex(_ call: Call) throws(StoreError) {
        for user in call.participants {
            try database.run(
                "INSERT OR REPLACE INTO user_calls VALUES(?,?,?,?)", .id(user), .integer(call.createdAt),
                .id(call.callID), .integer(call.endedAt ?? Self.notEnded))
            guard call.endedAt != nil else { continue }
            try database.run(
                """
                DELETE FROM user_calls WHERE user_id=?1 AND ended_at<?2 AND created_at<
                (SELECT created_at FROM user_calls WHERE user_id=?1 AND ended_at<?2
                 ORDER BY created_at DESC LIMIT 1 OFFSET ?3)
                """, .id(user), .integer(Self.notEnded), .integer(Int64(historyPerUser - 1)))
        }
    }

    private func writeIndex(_ message: PeerMessage, _ id: RecordID) throws(StoreError) {
        let statement =
            message.isListed
            ? "INSERT OR IGNORE INTO user_messages VALUES(?,?,?)"
            : "DELETE FROM user_messages WHERE user_id=? AND created_at=? AND call_id=?"
        try database.run(statement, .id(message.to), .integer(message.createdAt), .id(id))
    }

    private func write(_ notes: [Note]) throws(StoreError) {
        for note in notes {
            switch note {
            case .ack(let callID, let ack):
                try database.run(
                    """
                    INSERT INTO acks SELECT ?1,?2,?3,?4,?5 WHERE EXISTS(SELECT 1 FROM calls WHERE call_id=?1)
                    ON CONFLICT(call_id, user_id, device_id) DO UPDATE SET session=?4, revision=?5
                    WHERE session<>?4 OR revision<?5
                    """, .id(callID), .id(ack.device.userID), .id(ack.device.deviceID), .text(ack.session),
                    .integer(Int64(ack.revision)))
            case .heard(let callID, let heard):
                try database.run(
                    """
                    INSERT INTO heard SELECT ?1,?2,?3 WHERE EXISTS(SELECT 1 FROM calls WHERE call_id=?1)
                    ON CONFLICT(call_id, user_id) DO UPDATE SET at=?3 WHERE at<?3
                    """, .id(callID), .id(heard.userID), .integer(heard.at))
            case .milestone(let callID, let device, let milestone):
                try database.run(
                    """
                    INSERT OR REPLACE INTO milestones
                    SELECT ?1,?2,?3,?4,?5 WHERE EXISTS(SELECT 1 FROM calls WHERE call_id=?1)
                    """, .id(callID), .id(device.userID), .id(device.deviceID), .text(milestone.name),
                    .integer(milestone.milliseconds))
            }
        }
    }

    public func due(before moment: Milliseconds, limit: Int) throws(StoreError) -> [RecordID] {
        try database.query(
            "SELECT call_id FROM calls WHERE deadline<=? ORDER BY deadline LIMIT ?", .integer(moment),
            .integer(Int64(limit))
        ) { RecordID($0.text(0)) }
    }

    public func due(_ ids: [RecordID], before moment: Milliseconds) throws(StoreError) -> [RecordID] {
        var due: [RecordID] = []
        for id in ids {
            due += try database.query(
                "SELECT 1 FROM calls WHERE call_id=? AND deadline<=?", .text(id.string), .integer(moment)
            ) { _ in id }
        }
        return due
    }

    private func holder(of claim: Claim) throws(StoreError) -> ClaimHolder? {
        try database.query("SELECT call_id FROM claims WHERE claim=?", .claim(claim)) { row in
            CallID(row.text(0)).map { ClaimHolder($0, version: 0) }
        }.first
    }

    public func clean(limit: Int) throws(StoreError) -> Int {
        let now = now()
        return try database.transaction { () throws(StoreError) in
            let over = try database.query(
                "SELECT call_id FROM calls WHERE expires_at<=? LIMIT ?", .integer(now), .integer(Int64(limit))
            ) { RecordID($0.text(0)) }
            for id in over {
                for table in ["calls", "user_calls", "acks", "heard", "milestones", "claims", "trace"] {
                    try database.run("DELETE FROM \(table) WHERE call_id=?", .id(id))
                }
            }
            try database.run("DELETE FROM over_sessions WHERE until<=?", .integer(now))
            try database.run("DELETE FROM presence WHERE seen<=?", .integer(now - lease))
            return over.count
        }
    }
}

extension SQLiteValue {
    static func id(_ id: some ByteIdentifier) -> SQLiteValue { .text(id.string) }
    static func id(_ id: RecordID) -> SQLiteValue { .text(id.string) }
    static func optionalText(_ text: String?) -> SQLiteValue { text.map(SQLiteValue.text) ?? .integer(nil) }

    /// A claim's key. Lengths stand in front of user ids, so that no two claims share a key.
    static func claim(_ claim: Claim) -> SQLiteValue {
        switch claim {
        case .activeCall(let user): .text("active:\(user)")
        case .ringing(let from, let to): .text("ringing:\(from.string.utf8.count):\(from):\(to)")
        }
    }
}

extension SQLiteRow {
    func device(_ column: Int32) -> DeviceAddress? {
        guard let user = UserID(text(column)), let device = DeviceID(text(column + 1)) else { return nil }
        return DeviceAddress(userID: user, deviceID: device)
    }
}
