import CallCore
import CallStore
import SignalingProtocol

/// The audit log and the disabled users: tables that a file has from the first entry on. Other builds of the same
/// format ignore the tables.
extension SQLiteCallStore: AdminStore {
    private func hasTable(_ name: String) throws(StoreError) -> Bool {
        try database.query("SELECT count(*) FROM sqlite_master WHERE name=CAST(? AS TEXT)", .text(name)) {
            $0.integer(0)
        }.first == 1
    }

    package func adminSettings() throws(StoreError) -> AdminSettings {
        var settings = AdminSettings()
        settings.disabledUsers = try disabledUsers()
        if try hasTable("log_level") {
            settings.logLevel = try database.query("SELECT level FROM log_level") { LogLevelOrder($0.text(0)) }.first
        }
        return settings
    }

    package func online(after place: String?, limit: Int) throws(StoreError) -> DevicePage {
        let last = place?.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false).map(String.init) ?? []
        let found = try database.query(
            """
            SELECT user_id, device_id, session, online, since, seen FROM presence
            WHERE online>0 AND (user_id, device_id)>(?,?) ORDER BY user_id, device_id LIMIT ?
            """, .text(last.count == 2 ? last[1] : ""), .text(last.first ?? ""), .integer(Int64(limit)), read: presence)
        let now = now()
        return DevicePage(
            sightings.marked(found).filter { $0.isReachable(at: now, lease: lease) },
            next: found.count < limit ? nil : found.last.map { "\($0.device.deviceID)/\($0.device.userID)" })
    }

    package func callsWithDeadline(after place: String?, limit: Int) throws(StoreError) -> CallIDPage {
        // The index has the calls with a deadline alone; the table has ended calls for days.
        let found = try database.query(
            """
            SELECT call, call_id FROM calls INDEXED BY calls_by_deadline WHERE deadline IS NOT NULL AND call>?
            ORDER BY call LIMIT ?
            """, .integer(place.flatMap { Int64($0) } ?? 0), .integer(Int64(limit))
        ) { row in (number: row.integer(0), id: RecordID(row.text(1))) }
        return CallIDPage(
            found.compactMap { $0.id?.callID }, next: found.count < limit ? nil : found.last.map { "\($0.number)" })
    }

    package func set(_ logLevel: LogLevelOrder) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            try database.execute("CREATE TABLE IF NOT EXISTS log_level(one INTEGER PRIMARY KEY, level BLOB NOT NULL)")
            try database.run("INSERT OR REPLACE INTO log_level VALUES(1,?)", .text(logLevel.text))
        }
    }

    private func disabledUsers() throws(StoreError) -> Set<UserID> {
        guard try hasTable("disabled_users") else { return [] }
        return Set(try database.query("SELECT user_id FROM disabled_users") { UserID($0.text(0)) })
    }

    package func set(_ user: UserID, isDisabled: Bool) throws(StoreError) -> Bool {
        try database.transaction { () throws(StoreError) in
            try database.execute("CREATE TABLE IF NOT EXISTS disabled_users(user_id BLOB PRIMARY KEY) WITHOUT ROWID")
            guard isDisabled else {
                try database.run("DELETE FROM disabled_users WHERE user_id=?", .id(user))
                return true
            }
            guard DisabledUsers(try disabledUsers()).adding(user) != nil else { return false }
            try database.run("INSERT OR IGNORE INTO disabled_users VALUES(?)", .id(user))
            return true
        }
    }

    package func add(_ entry: AuditEntry, keeping most: Int) throws(StoreError) {
        let oldest = now() - AuditBounds.life
        try database.transaction { () throws(StoreError) in
            try database.execute(
                """
                CREATE TABLE IF NOT EXISTS audit(number INTEGER PRIMARY KEY, time INTEGER NOT NULL, entry BLOB NOT NULL)
                """)
            try database.run("INSERT INTO audit(time, entry) VALUES(?,?)", .integer(entry.time), .blob(entry.encoded()))
            let newest = database.lastNumber
            try database.run("DELETE FROM audit WHERE number<=?", .integer(newest - Int64(most)))
            // The lowest numbers have the oldest entries, unless a clock was set.
            try database.run(
                "DELETE FROM audit WHERE time<? AND number IN (SELECT number FROM audit ORDER BY number LIMIT 256)",
                .integer(oldest))
        }
    }

    package func audit(after place: String?, limit: Int) throws(StoreError) -> AuditPage {
        guard try hasTable("audit") else { return AuditPage([], next: nil) }
        let end = place.flatMap { Int64($0) } ?? .max
        let found = try database.query(
            "SELECT number, entry FROM audit WHERE number<? ORDER BY number DESC LIMIT ?", .integer(end),
            .integer(Int64(limit + 1))
        ) { row in (number: row.integer(0), entry: AuditEntry(row.bytes(1))) }
        let page = found.prefix(limit)
        return AuditPage(
            page.compactMap(\.entry), next: found.count > limit ? page.last.map { "\($0.number)" } : nil)
    }
}
