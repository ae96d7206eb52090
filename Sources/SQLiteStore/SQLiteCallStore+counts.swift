import CallCore
import CallStore
import SignalingProtocol

/// The counts of what is live: a table of the live calls, which other builds of the same format ignore, and an index of
/// the devices that are online.
extension SQLiteCallStore {
    /// Makes the table and the index where a file has none, and forgets calls that another build has ended.
    static func prepareCounts(_ database: SQLiteDatabase) throws(StoreError) {
        try database.execute(
            """
            CREATE TABLE IF NOT EXISTS live_calls(call_id BLOB PRIMARY KEY, ringing INTEGER NOT NULL) WITHOUT ROWID;
            CREATE INDEX IF NOT EXISTS presence_online ON presence(seen) WHERE online>0;
            """)
        try forgetOver(database)
    }

    private static func forgetOver(_ database: SQLiteDatabase) throws(StoreError) {
        try database.execute(
            """
            DELETE FROM live_calls WHERE NOT EXISTS (
                SELECT 1 FROM calls WHERE calls.call_id=live_calls.call_id AND expires_at IS NULL)
            """)
    }

    package func tidyLiveCounts() throws(StoreError) {
        try database.transaction { () throws(StoreError) in try Self.forgetOver(database) }
    }

    func write(_ change: LiveChange, _ id: RecordID) throws(StoreError) {
        switch change {
        case .live(let ringing):
            try database.run("INSERT OR REPLACE INTO live_calls VALUES(?,?)", .id(id), .integer(Int64(ringing)))
        case .over: try database.run("DELETE FROM live_calls WHERE call_id=?", .id(id))
        }
    }

    package func liveCounts() throws(StoreError) -> LiveCounts {
        var counts = LiveCounts()
        _ = try database.query("SELECT count(*), coalesce(sum(ringing), 0) FROM live_calls") { row in
            (counts.calls, counts.ringing) = (Int(row.integer(0)), Int(row.integer(1)))
            return true
        }
        counts.devices = Int(
            try database.query("SELECT count(*) FROM presence WHERE online>0 AND seen>?", .integer(now() - lease)) {
                $0.integer(0)
            }.first ?? 0)
        return counts
    }
}
