import CSQLite
import CallCore
import CallStore
import Glibc
import SignalingProtocol

/// The embedded store: an SQLite file in WAL mode. Each batch is a transaction. Several coordinators on the same
/// machine may share the file.
package final class SQLiteCallStore: CallStore {
    /// The data that a crash of the machine may lose. A crash of the process loses no data in either mode.
    package enum Synchronous: String, Sendable, CaseIterable {
        /// A power cut may lose the commits since the last checkpoint of the log; the file stays consistent.
        case normal
        /// Every commit is on disk before the device gets its response.
        case full
    }

    /// The bounds of this store.
    private enum Bounds {
        /// The size of the page cache in memory, in KiB. SQLite's default of two MiB is too small for the calls of some
        /// seconds.
        static let cache = 16 * 1024
        /// The size, in bytes, to which the log is cut when the log starts anew: about the size of SQLite's writes
        /// between two checkpoints. The log grows beyond this size only while a reader holds the log.
        static let log = 4 * 1024 * 1024
        /// A user's list is trimmed when the list has, on average, `historyPerUser / historySlack` ended calls too
        /// many: a tenth of `historyPerUser`. A trim at each call end would cost too much.
        static let historySlack = 10
    }

    let database: SQLiteDatabase
    private var clock: SQLiteClock
    private var records = RecordCache()
    private let path: String
    private let synchronous: Synchronous
    let historyPerUser: Int
    let lease: Milliseconds
    /// The sightings that this process has read last.
    var sightings = BrokerSightings()

    /// The value of `ended_at` for a live call. The value is later than every moment, so that a single index finds the
    /// calls that are live or ended after a moment.
    static let notEnded = Int64.max

    /// Opens the file. `stamp` is the deployment to which the file must belong; nil accepts each file.
    package convenience init(
        path: String, stamp: DeploymentStamp? = nil, synchronous: Synchronous = .normal,
        historyPerUser: Int = Retention.historyPerUser,
        lease: Milliseconds = PresencePolicy().lease, isVisited: Bool = false
    ) throws(StoreError) {
        try self.init(
            path: path, stamp: stamp, synchronous: synchronous, historyPerUser: historyPerUser, lease: lease,
            isVisited: isVisited, machine: .system)
    }

    /// Opens the file with the clocks of a test.
    package init(
        path: String, stamp: DeploymentStamp? = nil, synchronous: Synchronous = .normal,
        historyPerUser: Int = Retention.historyPerUser,
        lease: Milliseconds = PresencePolicy().lease, isVisited: Bool = false, machine: MachineClock
    ) throws(StoreError) {
        self.path = path
        self.synchronous = synchronous
        self.historyPerUser = historyPerUser
        self.lease = lease
        database = try SQLiteDatabase(path: path, patience: isVisited ? .visitor : .coordinator)
        let summary = Self.summary(path)
        do throws(StoreError) {
            clock = try database.opening { [database] () throws(StoreError) in
                // The check of the format comes before the first write, so that a file of another format stays
                // unchanged.
                let isComplete = try database.reading { () throws(StoreError) in
                    try SQLiteSchema.isComplete(database, summary)
                }
                try database.executeWhenFree("PRAGMA journal_mode=WAL")
                try database.execute("PRAGMA synchronous=\(synchronous.rawValue)")
                try database.execute("PRAGMA cache_size=-\(Bounds.cache)")
                try database.execute("PRAGMA journal_size_limit=\(Bounds.log)")
                if !isComplete { try SQLiteSchema.complete(database, summary) }
                if let stamp { try SQLiteSchema.check(stamp, summary, database) }
                return try database.transaction { () throws(StoreError) in
                    try Self.prepareCounts(database)
                    return try SQLiteClock(database, machine)
                }
            }
        } catch {
            throw error.code == .foreign ? error : StoreError(.failed, "\(path): \(error)")
        }
    }

    package var summary: String { Self.summary(path) }

    package var version: String? { "SQLite \(String(cString: sqlite3_libversion()))" }

    package var fill: StoreFill? {
        var bytes: Int64 = 0
        for name in [path, path + "-wal"] {
            var status = stat()
            if stat(name, &status) == 0 { bytes += Int64(status.st_size) }
        }
        var disk = statvfs()
        guard bytes > 0, statvfs(path, &disk) == 0 else { return nil }
        return StoreFill(bytes: bytes, limit: bytes + Int64(clamping: disk.f_bavail) * Int64(disk.f_frsize))
    }

    private static func summary(_ path: String) -> String { "sqlite:\(path)" }

    package var roundTrips: Int { database.transactions }

    package var durability: String? {
        switch synchronous {
        case .normal: "synchronous=normal: a power cut may lose the last moments"
        case .full: "synchronous=full: a power cut loses nothing that was answered"
        }
    }

    package func now() -> Milliseconds { clock.now }

    package var time: Milliseconds? { clock.now }

    package var clockSkew: Milliseconds { clock.skew }

    package var clockSteps: (count: Int, last: Milliseconds) { (Int(clock.shared.steps), clock.shared.lastStep) }

    // MARK: Records

    package func read(_ queries: [Query]) throws(StoreError) -> [QueryAnswer] {
        try database.reading { () throws(StoreError) in try answers(to: queries) }
    }

    private func answers(to queries: [Query]) throws(StoreError) -> [QueryAnswer] {
        var answers: [QueryAnswer] = []
        answers.reserveCapacity(queries.count)
        for query in queries { answers.append(try answer(query)) }
        return answers
    }

    private func answer(_ query: Query) throws(StoreError) -> QueryAnswer {
        switch query {
        case .record(let id): .record(try load(id))
        case .devices(let user): .devices(sightings.marked(try devices(of: user)))
        case .holder(let claim): .holder(try holder(of: claim))
        case .profile(let user): .profile(try profile(of: user))
        case .block(let block): .block(try stands(block))
        case .calls(let list): .calls(try calls(list))
        case .messages(let list): .messages(try messages(list))
        case .outstanding(let count): .outstanding(try number(of: count))
        case .storedBytes(let stored): .storedBytes(try bytes(of: stored))
        case .registration(let user): .registration(try isRegistered(user))
        }
    }

    package func write(_ commits: [Commit], _ notes: [Note], thenRead queries: [Query]) throws(StoreError) -> Written {
        guard !commits.isEmpty || !notes.isEmpty else { return Written(outcomes: [], answers: try read(queries)) }
        return try database.transaction { () throws(StoreError) in
            var outcomes: [CommitOutcome] = []
            for commit in commits { outcomes.append(try self.commit(commit)) }
            for note in notes {
                guard let number = try number(of: .call(note.callID)) else { continue }
                try write(note, number)
            }
            return Written(outcomes: outcomes, answers: try answers(to: queries))
        }
    }

    private func load(_ id: RecordID) throws(StoreError) -> StoredRecord? {
        let row = try database.query(
            "SELECT call, version, record FROM calls WHERE call_id=?", .id(id),
            read: { (row) throws(StoreError) -> (Int64, Int64, Record)? in
                (row.integer(0), row.integer(1), row.read(2) { records.record(id, $0) })
            }
        ).first
        guard let (number, version, record) = row else { return nil }
        guard id.callID != nil else { return StoredRecord(id, version: version, record: record) }
        let acks = try database.query(
            "SELECT user_id, device_id, session, revision FROM acks WHERE call=?", .integer(number)
        ) { row in
            row.device(0).map { DeviceAck(device: $0, session: row.text(2), revision: Int(row.integer(3))) }
        }
        let heard = try database.query("SELECT user_id, at FROM heard WHERE call=?", .integer(number)) { row in
            UserID(row.text(0)).map { UserHeard(userID: $0, at: row.integer(1)) }
        }
        var milestones: [DeviceAddress: [String: Int64]] = [:]
        _ = try database.query(
            "SELECT user_id, device_id, name, milliseconds FROM milestones WHERE call=?", .integer(number)
        ) { row in
            if let device = row.device(0) { milestones[device, default: [:]][row.text(2)] = row.integer(3) }
            return true
        }
        return StoredRecord(
            id, version: version, record: record, acks: acks, heard: heard, reports: DeviceReport.sorted(milestones),
            pushes: try pushes(ofCall: number), checks: try checks(ofCall: number))
    }

    private func commit(_ commit: Commit) throws(StoreError) -> CommitOutcome {
        guard commit.validity?.contains(now()) ?? true else { return .stale }
        let known = try database.query(
            "SELECT call, version FROM calls WHERE call_id=?", .id(commit.id),
            read: { (row) throws(StoreError) -> (Int64, Int64)? in (row.integer(0), row.integer(1)) }
        ).first
        guard known?.1 ?? 0 == commit.expected else { return .conflict }
        for (claim, expected) in commit.expectedHolders {
            let holder = try holder(of: claim)
            guard holder == expected || holder?.callID == commit.id.callID else { return .claimHeld }
        }
        let number = try write(commit, over: known?.0)
        for claim in commit.releases {
            try database.run("DELETE FROM claims WHERE claim=? AND call=?", .claim(claim), .integer(number))
        }
        for claim in commit.claims {
            try database.run("INSERT OR REPLACE INTO claims VALUES(?,?)", .claim(claim), .integer(number))
        }
        switch commit.record {
        case .call(let call): try writeIndex(call, number, commit)
        case .message(let message): try writeIndex(message, commit.id)
        case .alias, .cancelled, .void, .unreadable: break
        }
        for note in commit.notes { try write(note, number) }
        try writeOutstanding(of: commit)
        if let change = commit.liveChange { try write(change, commit.id) }
        if let entries = commit.outboxEntries { try append(entries, commit.id) }
        if commit.pushes, let callID = commit.id.callID { try enter(callID) }
        return .committed(version: commit.expected + 1)
    }

    /// Writes the record and returns its number.
    private func write(_ commit: Commit, over number: Int64?) throws(StoreError) -> Int64 {
        let record = SQLiteValue.blob(records.encode(commit.record, commit.id))
        if let number {
            try database.run(
                "UPDATE calls SET version=?, record=?, deadline=?, expires_at=? WHERE call=?",
                .integer(commit.expected + 1), record, .integer(commit.deadline), .integer(commit.expiresAt),
                .integer(number))
            return number
        }
        try database.run(
            "INSERT INTO calls(call_id, version, record, deadline, expires_at) VALUES(?,?,?,?,?)", .id(commit.id),
            .integer(commit.expected + 1), record, .integer(commit.deadline), .integer(commit.expiresAt))
        return database.lastNumber
    }

    /// Updates the lists of calls where they change. An entry is written when a user becomes a member and when the call
    /// ends.
    private func writeIndex(_ call: Call, _ number: Int64, _ commit: Commit) throws(StoreError) {
        for user in commit.formerMembers {
            try database.run(
                "DELETE FROM user_calls WHERE user_id=? AND created_at=? AND call_id=?", .id(user),
                .integer(call.createdAt), .id(call.callID))
        }
        for user in commit.newMembers {
            try database.run(
                """
                INSERT INTO user_calls VALUES(?1,?2,?3,?4,?5)
                ON CONFLICT(user_id, created_at, call_id) DO UPDATE SET ended_at=?4
                """, .id(user), .integer(call.createdAt), .id(call.callID), .integer(call.endedAt ?? Self.notEnded),
                .integer(number))
        }
        guard commit.hasJustEnded, let endedAt = call.endedAt else { return }
        // The update leaves out users who were deleted meanwhile, because they have no row.
        try database.run("UPDATE user_calls SET ended_at=? WHERE call=?", .integer(endedAt), .integer(number))
        // Trimming a list costs more than the rest of the commit, so a list is trimmed only once in many commits.
        // Chance decides, and not a counter, so that no order of calls can keep a list untrimmed.
        for user in call.participants where Int.random(in: 0...historyPerUser / Bounds.historySlack) == 0 {
            try database.run(
                """
                DELETE FROM user_calls WHERE user_id=?1 AND ended_at<?2 AND (created_at, call_id)<
                (SELECT created_at, call_id FROM user_calls WHERE user_id=?1 AND ended_at<?2
                 ORDER BY created_at DESC, call_id DESC LIMIT 1 OFFSET ?3)
                """, .id(user), .integer(Self.notEnded), .integer(Int64(historyPerUser - 1)))
        }
    }

    private func writeIndex(_ message: PeerMessage, _ id: RecordID) throws(StoreError) {
        if message.isListed {
            try database.run(
                "INSERT OR IGNORE INTO user_messages VALUES(?,?,?)", .id(message.to), .integer(message.createdAt),
                .id(id))
        } else {
            try database.run(
                "DELETE FROM user_messages WHERE user_id=? AND created_at=? AND call_id=?", .id(message.to),
                .integer(message.createdAt), .id(id))
        }
    }

    /// Returns the number of a record; nil when the record does not exist.
    func number(of id: RecordID) throws(StoreError) -> Int64? {
        try database.query("SELECT call FROM calls WHERE call_id=?", .id(id)) { $0.integer(0) }.first
    }

    /// Merges a note into the data beside the record of this number.
    private func write(_ note: Note, _ number: Int64) throws(StoreError) {
        switch note {
        case .ack(_, let ack):
            try database.run(
                """
                INSERT INTO acks VALUES(?1,?2,?3,?4,?5)
                ON CONFLICT(call, user_id, device_id) DO UPDATE SET session=?4, revision=?5
                WHERE session<>?4 OR revision<?5
                """, .integer(number), .id(ack.device.userID), .id(ack.device.deviceID), .text(ack.session),
                .integer(Int64(ack.revision)))
        case .heard(_, let heard):
            try database.run(
                """
                INSERT INTO heard VALUES(?1,?2,?3)
                ON CONFLICT(call, user_id) DO UPDATE SET at=?3 WHERE at<?3
                """, .integer(number), .id(heard.userID), .integer(heard.at))
        case .milestone(_, let device, let milestone):
            try database.run(
                "INSERT OR REPLACE INTO milestones VALUES(?,?,?,?,?)", .integer(number), .id(device.userID),
                .id(device.deviceID), .text(milestone.name), .integer(milestone.milliseconds))
        case .push(let callID, let push, let worker):
            if let worker, try !holds(callID, worker) { return }
            try write(push, number)
        case .ringCheck(_, let check): try write(check, number)
        }
    }

    package func due(
        before moment: Milliseconds, limit: Int, besides: Set<RecordID>
    ) throws(StoreError) -> [RecordID] {
        let due = try database.query(
            "SELECT call_id FROM calls WHERE deadline<=? ORDER BY deadline LIMIT ?", .integer(moment),
            .integer(Int64(limit + besides.count))
        ) { row in RecordID(row.text(0)).flatMap { besides.contains($0) ? nil : $0 } }
        return Array(due.prefix(limit))
    }

    package func due(_ ids: [RecordID], before moment: Milliseconds) throws(StoreError) -> [RecordID] {
        var due: [RecordID] = []
        for id in ids {
            due += try database.query(
                "SELECT 1 FROM calls WHERE call_id=? AND deadline<=?", .text(id.string), .integer(moment)
            ) { _ in id }
        }
        return due
    }

    private func holder(of claim: Claim) throws(StoreError) -> ClaimHolder? {
        try database.query("SELECT call_id FROM claims JOIN calls USING(call) WHERE claim=?", .claim(claim)) { row in
            CallID(row.text(0)).map { ClaimHolder($0, version: 0) }
        }.first
    }

    /// The statements that delete a record and all data beside the record.
    static let deletions: [StaticString] = [
        "DELETE FROM calls WHERE call=?", "DELETE FROM user_calls WHERE call=?", "DELETE FROM acks WHERE call=?",
        "DELETE FROM heard WHERE call=?", "DELETE FROM milestones WHERE call=?", "DELETE FROM claims WHERE call=?",
        "DELETE FROM trace WHERE call=?", "DELETE FROM pushes WHERE call=?", "DELETE FROM ring_checks WHERE call=?",
    ]

    package func clean(limit: Int) throws(StoreError) -> Int {
        return try database.transaction { () throws(StoreError) in
            try clock.look(database)
            let now = now()
            let over = try database.query(
                "SELECT call FROM calls WHERE expires_at<=? LIMIT ?", .integer(now), .integer(Int64(limit))
            ) { $0.integer(0) }
            for number in over {
                for deletion in Self.deletions { try database.run(deletion, .integer(number)) }
            }
            try database.run("DELETE FROM over_sessions WHERE until<=?", .integer(now))
            try database.run("DELETE FROM outstanding WHERE until<=?", .integer(now))
            try database.run("DELETE FROM stored WHERE until<=?", .integer(now))
            try database.run("DELETE FROM presence WHERE seen<=?", .integer(now - lease))
            try cleanPushes(now)
            return over.count
        }
    }
}

extension SQLiteValue {
    static func id(_ id: some ByteIdentifier) -> SQLiteValue { .text(id.string) }
    static func id(_ id: RecordID) -> SQLiteValue { .text(id.string) }
    static func optionalText(_ text: String?) -> SQLiteValue { text.map(SQLiteValue.text) ?? .integer(nil) }

    /// Returns the key of a claim. A length stands in front of the first of two user ids, so that no two claims share a
    /// key.
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
