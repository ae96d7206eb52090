import CallCore
import CallStore

/// The audit log: a table that a file has from the first entry on. Other builds of the same format ignore the table.
extension SQLiteCallStore: AuditStore {
    package func add(_ entry: AuditEntry) throws(StoreError) {
        let oldest = now() - AuditBounds.life
        try database.transaction { () throws(StoreError) in
            try database.execute(
                """
                CREATE TABLE IF NOT EXISTS audit(number INTEGER PRIMARY KEY, time INTEGER NOT NULL, entry BLOB NOT NULL)
                """)
            try database.run("INSERT INTO audit(time, entry) VALUES(?,?)", .integer(entry.time), .blob(entry.encoded()))
            let newest = database.lastNumber
            try database.run("DELETE FROM audit WHERE number<=?", .integer(newest - Int64(AuditBounds.entries)))
            // Entries are written in the order of their times, but for a clock that was set.
            try database.run(
                "DELETE FROM audit WHERE time<? AND number IN (SELECT number FROM audit ORDER BY number LIMIT 256)",
                .integer(oldest))
        }
    }

    package func audit(after place: String?, limit: Int) throws(StoreError) -> AuditPage {
        let tables = try database.query("SELECT count(*) FROM sqlite_master WHERE name='audit'") { $0.integer(0) }
        guard tables.first == 1 else { return AuditPage([], next: nil) }
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
