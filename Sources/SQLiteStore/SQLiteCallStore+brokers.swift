import CallCore
import CallStore
import SignalingProtocol

/// The sightings of brokers: a text in a table that only deployments with several brokers have. Other builds of the
/// same format ignore the table.
extension SQLiteCallStore {
    package func report(_ report: BrokerReport) throws(StoreError) -> BrokerSightings {
        let now = now()
        return try database.transaction { () throws(StoreError) in
            try database.execute("CREATE TABLE IF NOT EXISTS brokers(one INTEGER PRIMARY KEY, sightings BLOB NOT NULL)")
            var found = try storedSightings()
            found.take(report, now: now)
            try database.run("INSERT OR REPLACE INTO brokers VALUES(1,?)", .text(found.text))
            sightings = found
            return found
        }
    }

    package func readSightings() throws(StoreError) {
        let tables = try database.query("SELECT count(*) FROM sqlite_master WHERE name='brokers'") { $0.integer(0) }
        if tables.first == 1 { sightings = try storedSightings() }
    }

    /// Sightings that cannot be read are forgotten, because the next reports make new sightings.
    private func storedSightings() throws(StoreError) -> BrokerSightings {
        try database.query("SELECT sightings FROM brokers") { BrokerSightings($0.text(0)) }.first ?? BrokerSightings()
    }

    package func devices(at broker: BrokerName, after place: String?, limit: Int) throws(StoreError) -> DevicePage {
        let last = place.map { $0.split(separator: "/", maxSplits: 1, omittingEmptySubsequences: false) } ?? ["", ""]
        let found = try database.query(
            """
            SELECT user_id, device_id, session, online, since, seen FROM presence
            WHERE online=2 AND (user_id, device_id)>(?,?) ORDER BY user_id, device_id LIMIT ?
            """, .text(String(last[1])), .text(String(last[0])), .integer(Int64(limit)), read: presence)
        return DevicePage(
            sightings.marked(found.filter { $0.broker == broker }),
            next: found.count < limit ? nil : found.last.map { "\($0.device.deviceID)/\($0.device.userID)" })
    }
}
