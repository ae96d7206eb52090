import CallCore
import CallStore
import SignalingProtocol

/// The outbox: a table of revisions, a table with a row for each line, and the counts in the endpoint's row. A line
/// holds the entries of one record for one endpoint.
extension SQLiteCallStore: OutboxStore {
    package func endpoints() throws(StoreError) -> [KeptEndpoint] {
        try database.query(
            """
            SELECT name, patterns, url, backlog, most_bytes, off, last FROM outbox_endpoints
            LEFT JOIN outbox_attempts ON endpoint=name ORDER BY name
            """
        ) { row in
            EndpointName(row.text(0)).map {
                KeptEndpoint(
                    name: $0, patterns: row.text(1), url: row.text(2), backlog: Int(row.integer(3)),
                    bytes: Int(row.integer(4)), isOff: row.integer(5) != 0,
                    lastAttempt: row.isNull(6) ? nil : row.text(6))
            }
        }
    }

    package func keep(_ endpoints: [KeptEndpoint]) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            for endpoint in endpoints {
                try countOwners(of: endpoint.name)
                // The last attempt was made at the old URL.
                try database.run(
                    """
                    DELETE FROM outbox_attempts WHERE endpoint=?1
                    AND NOT EXISTS (SELECT 1 FROM outbox_endpoints WHERE name=?1 AND url=?2)
                    """, .id(endpoint.name), .text(endpoint.url))
                try database.run(
                    """
                    INSERT INTO outbox_endpoints VALUES(?1,?2,?3,?4,?5,0,
                      (SELECT count(*) FROM outbox WHERE endpoint=?1),
                      (SELECT count(*) FROM outbox_dead WHERE endpoint=?1),
                      (SELECT coalesce(sum(length(record)),0) FROM outbox WHERE endpoint=?1)
                      + (SELECT coalesce(sum(length(record)),0) FROM outbox_dead WHERE endpoint=?1))
                    ON CONFLICT(name) DO UPDATE SET off=off AND url=?3, patterns=?2, url=?3, backlog=?4, most_bytes=?5
                    """, .id(endpoint.name), .text(endpoint.patterns), .text(endpoint.url),
                    .integer(Int64(endpoint.backlog)), .integer(Int64(endpoint.bytes)))
            }
        }
    }

    /// Counts the bytes of each user that are still stored for an endpoint that was removed and now comes back.
    private func countOwners(of endpoint: EndpointName) throws(StoreError) {
        let known = try database.query("SELECT 1 FROM outbox_endpoints WHERE name=?", .id(endpoint)) { $0.integer(0) }
        guard known.isEmpty else { return }
        try database.run("DELETE FROM outbox_owners WHERE endpoint=?", .id(endpoint))
        try database.run(
            """
            INSERT INTO outbox_owners SELECT ?1, owner, sum(bytes) FROM (
                SELECT owner, length(record) AS bytes FROM outbox JOIN outbox_lines USING(endpoint, id) WHERE endpoint=?1
                UNION ALL SELECT owner, length(record) FROM outbox_dead WHERE endpoint=?1) GROUP BY owner
            """, .id(endpoint))
    }

    package func turnOff(_ endpoint: EndpointName, at url: String) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            _ = try database.run("UPDATE outbox_endpoints SET off=1 WHERE name=? AND url=?", .id(endpoint), .text(url))
        }
    }

    package func turnOn(_ endpoint: EndpointName) throws(StoreError) -> Bool {
        try database.transaction { () throws(StoreError) in
            try database.run("UPDATE outbox_endpoints SET off=0 WHERE name=?", .id(endpoint)) > 0
        }
    }

    package func note(_ attempt: String, of endpoint: EndpointName, at url: String) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            _ = try database.run(
                """
                INSERT OR REPLACE INTO outbox_attempts
                SELECT name, ?3 FROM outbox_endpoints WHERE name=?1 AND url=?2
                """, .id(endpoint), .text(url), .text(attempt))
        }
    }

    /// Does nothing: a file loses no endpoint while a process has opened the file.
    package func keepLost(_ endpoints: [KeptEndpoint]) {}

    package func forget(_ endpoint: EndpointName) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            try database.run("DELETE FROM outbox_attempts WHERE endpoint=?", .id(endpoint))
            _ = try database.run("DELETE FROM outbox_endpoints WHERE name=?", .id(endpoint))
        }
    }

    package func clear(_ endpoint: EndpointName) throws(StoreError) -> Bool {
        try database.transaction { () throws(StoreError) in
            let revisions = try database.run(
                """
                DELETE FROM outbox WHERE (endpoint, id, number) IN
                (SELECT endpoint, id, number FROM outbox WHERE endpoint=? LIMIT 16)
                """, .id(endpoint))
            let lines = try database.run(
                """
                DELETE FROM outbox_lines WHERE (endpoint, id) IN
                (SELECT endpoint, id FROM outbox_lines WHERE endpoint=? LIMIT 16)
                """, .id(endpoint))
            let letters = try database.run(
                """
                DELETE FROM outbox_dead WHERE (endpoint, id, number) IN
                (SELECT endpoint, id, number FROM outbox_dead WHERE endpoint=? LIMIT 16)
                """, .id(endpoint))
            try database.run("DELETE FROM outbox_owners WHERE endpoint=?", .id(endpoint))
            return revisions + lines + letters > 0
        }
    }

    // MARK: Lines

    /// Adds entries within the transaction of the commit.
    func append(_ entries: OutboxEntries, _ id: RecordID) throws(StoreError) {
        for name in entries.to {
            for revision in entries.revisions {
                try insert(
                    OutboxItem(
                        endpoint: name, id: id, number: revision.number, time: revision.time,
                        record: RecordCodec.encode(revision.record), attempts: 0, firstAttempt: nil),
                    owner: revision.record.owner?.string ?? "")
            }
        }
    }

    /// Inserts an entry. All bytes of a line count for the first owner of the line.
    func insert(_ item: OutboxItem, owner: String) throws(StoreError) {
        let isNew =
            try database.run(
                "INSERT OR IGNORE INTO outbox VALUES(?,?,?,?,?)", .id(item.endpoint), .id(item.id),
                .integer(item.number), .integer(item.time), .blob(item.record)) > 0
        guard isNew else { return }
        try database.run(
            """
            INSERT INTO outbox_lines VALUES(?1,?2,?3,NULL,0,NULL,?4,?5)
            ON CONFLICT(endpoint, id) DO UPDATE SET time=min(time, ?4)
            """, .id(item.endpoint), .id(item.id), .integer(now()), .integer(item.time), .text(owner))
        try add(waiting: 1, bytes: item.record.count, to: item.endpoint)
        try database.run(
            """
            INSERT INTO outbox_owners SELECT endpoint, owner, ?3 FROM outbox_lines WHERE endpoint=?1 AND id=?2
            ON CONFLICT(endpoint, owner) DO UPDATE SET bytes=bytes+?3
            """, .id(item.endpoint), .id(item.id), .integer(Int64(item.record.count)))
    }

    /// Adds bytes to the count of a user who has an entry in the outbox, or had an entry before.
    func add(bytes: Int, toOwner owner: String, _ endpoint: EndpointName) throws(StoreError) {
        try database.run(
            "UPDATE outbox_owners SET bytes=bytes+?3 WHERE endpoint=?1 AND owner=?2", .id(endpoint), .text(owner),
            .integer(Int64(bytes)))
        if bytes < 0 {
            try database.run(
                "DELETE FROM outbox_owners WHERE endpoint=? AND owner=? AND bytes<=0", .id(endpoint), .text(owner))
        }
    }

    private func owner(of id: RecordID, _ endpoint: EndpointName) throws(StoreError) -> String {
        try database.query("SELECT owner FROM outbox_lines WHERE endpoint=? AND id=?", .id(endpoint), .id(id)) {
            $0.text(0)
        }.first ?? ""
    }

    func add(
        waiting: Int = 0, dead: Int = 0, bytes: Int = 0, to endpoint: EndpointName
    ) throws(StoreError) {
        try database.run(
            "UPDATE outbox_endpoints SET waiting=waiting+?2, dead=dead+?3, bytes=bytes+?4 WHERE name=?1",
            .id(endpoint), .integer(Int64(waiting)), .integer(Int64(dead)), .integer(Int64(bytes)))
    }

    package func claim(
        _ endpoint: EndpointName, by worker: WorkerID, limit: Int, near: [RecordID]?
    ) throws(StoreError) -> [OutboxItem] {
        let now = now()
        // A claim without due lines, by far the most frequent case, writes nothing.
        guard try !due(endpoint, now, limit: 1).isEmpty else { return [] }
        return try database.transaction { () throws(StoreError) in
            let due = try due(endpoint, now, limit: limit)
            try database.run(
                "INSERT OR REPLACE INTO outbox_workers VALUES(?,?)", .text(worker.string),
                .integer(now + WorkerLease.life))
            var items: [OutboxItem] = []
            for id in due {
                try database.run(
                    "UPDATE outbox_lines SET due=NULL, holder=? WHERE endpoint=? AND id=?", .text(worker.string),
                    .id(endpoint), .id(id))
                if let item = try first(of: id, endpoint) { items.append(item) }
            }
            return items
        }
    }

    private func due(
        _ endpoint: EndpointName, _ now: Milliseconds, limit: Int
    ) throws(StoreError) -> [RecordID] {
        try database.query(
            "SELECT id FROM outbox_lines WHERE endpoint=? AND due<=? ORDER BY due, id LIMIT ?", .id(endpoint),
            .integer(now), .integer(Int64(limit))
        ) { RecordID($0.text(0)) }
    }

    func first(of id: RecordID, _ endpoint: EndpointName) throws(StoreError) -> OutboxItem? {
        try database.query(
            """
            SELECT number, outbox.time, record, attempts, first_attempt FROM outbox
            JOIN outbox_lines USING(endpoint, id) WHERE endpoint=? AND id=? ORDER BY number LIMIT 1
            """, .id(endpoint), .id(id)
        ) { row in
            OutboxItem(
                endpoint: endpoint, id: id, number: row.integer(0), time: row.integer(1), record: row.bytes(2),
                attempts: Int(row.integer(3)), firstAttempt: row.isNull(4) ? nil : row.integer(4))
        }.first
    }

    package func settle(_ settlements: [Settlement], by worker: WorkerID) throws(StoreError) -> [Settled] {
        guard !settlements.isEmpty else { return [] }
        return try database.transaction { () throws(StoreError) in
            let now = now()
            guard try lives(worker, now) else { return settlements.map { _ in .void } }
            var settled: [Settled] = []
            for settlement in settlements { settled.append(try settle(settlement, worker, now)) }
            return settled
        }
    }

    private func lives(_ worker: WorkerID, _ now: Milliseconds) throws(StoreError) -> Bool {
        try !database.query(
            "SELECT 1 FROM outbox_workers WHERE worker=? AND until>?", .text(worker.string), .integer(now)
        ) { $0.integer(0) }.isEmpty
    }

    private func settle(
        _ settlement: Settlement, _ worker: WorkerID, _ now: Milliseconds
    ) throws(StoreError) -> Settled {
        let item = settlement.item
        let holds = try database.query(
            "SELECT 1 FROM outbox_lines WHERE endpoint=? AND id=? AND holder=?", .id(item.endpoint), .id(item.id),
            .text(worker.string)
        ) { $0.integer(0) }
        guard !holds.isEmpty else { return .void }
        switch settlement.outcome {
        case .again(let delay):
            try database.run(
                """
                UPDATE outbox_lines SET holder=NULL, due=?3, attempts=?4, first_attempt=?5
                WHERE endpoint=?1 AND id=?2
                """, .id(item.endpoint), .id(item.id), .integer(now + delay), .integer(Int64(item.attempts + 1)),
                .integer(item.firstAttempt ?? now))
            return .done
        case .released:
            try database.run(
                "UPDATE outbox_lines SET holder=NULL, due=?3 WHERE endpoint=?1 AND id=?2", .id(item.endpoint),
                .id(item.id), .integer(now))
            return .done
        case .taken: try remove(item)
        case .givenUp: try bury(item, now)
        }
        try shorten(item.id, item.endpoint)
        return try first(of: item.id, item.endpoint).map { .next($0) } ?? .done
    }

    /// Removes an entry. Returns false when the entry is gone already, because the bounds removed the oldest entries of
    /// a line.
    @discardableResult
    func remove(_ item: OutboxItem) throws(StoreError) -> Bool {
        let isThere =
            try database.run(
                "DELETE FROM outbox WHERE endpoint=? AND id=? AND number=?", .id(item.endpoint), .id(item.id),
                .integer(item.number)) > 0
        guard isThere else { return false }
        try add(waiting: -1, bytes: -item.record.count, to: item.endpoint)
        try add(bytes: -item.record.count, toOwner: try owner(of: item.id, item.endpoint), item.endpoint)
        return true
    }

    func bury(_ item: OutboxItem, _ now: Milliseconds) throws(StoreError) {
        guard try remove(item) else { return }
        // The new dead letter replaces a dead letter of an earlier call with the same id.
        let former = try database.query(
            "SELECT length(record), owner FROM outbox_dead WHERE endpoint=? AND id=? AND number=?", .id(item.endpoint),
            .id(item.id), .integer(item.number)
        ) { (Int($0.integer(0)), $0.text(1)) }
        if let (bytes, owner) = former.first {
            try add(dead: -1, bytes: -bytes, to: item.endpoint)
            try add(bytes: -bytes, toOwner: owner, item.endpoint)
        }
        let owner = try owner(of: item.id, item.endpoint)
        try database.run(
            "INSERT OR REPLACE INTO outbox_dead VALUES(?,?,?,?,?,?,?)", .id(item.endpoint), .id(item.id),
            .integer(item.number), .integer(item.time), .blob(item.record), .integer(now), .text(owner))
        try add(dead: 1, bytes: item.record.count, to: item.endpoint)
        try database.run(
            """
            INSERT INTO outbox_owners VALUES(?1,?2,?3) ON CONFLICT(endpoint, owner) DO UPDATE SET bytes=bytes+?3
            """, .id(item.endpoint), .text(owner), .integer(Int64(item.record.count)))
    }

    /// Continues a line after its first entry has gone: the line starts with its next entry, without attempts, or is
    /// deleted.
    func shorten(_ id: RecordID, _ endpoint: EndpointName) throws(StoreError) {
        try database.run(
            """
            UPDATE outbox_lines SET attempts=0, first_attempt=NULL, time=coalesce(
              (SELECT time FROM outbox WHERE endpoint=?1 AND id=?2 ORDER BY number LIMIT 1), -1)
            WHERE endpoint=?1 AND id=?2
            """, .id(endpoint), .id(id))
        try database.run("DELETE FROM outbox_lines WHERE endpoint=? AND id=? AND time<0", .id(endpoint), .id(id))
    }

    // MARK: Workers

    /// Renews the worker's lease on the outbox and on the queue of pushes.
    package func renew(_ worker: WorkerID) throws(StoreError) -> Bool {
        let worker = SQLiteValue.text(worker.string)
        let known = try database.query(
            "SELECT 1 FROM outbox_workers WHERE worker=?1 UNION ALL SELECT 1 FROM push_workers WHERE worker=?1", worker
        ) { $0.integer(0) }
        guard !known.isEmpty else { return true }
        return try database.transaction { () throws(StoreError) in
            let now = now()
            let (over, end) = (SQLiteValue.integer(now), SQLiteValue.integer(now + WorkerLease.life))
            var renewed = try database.run(
                "UPDATE outbox_workers SET until=? WHERE worker=? AND until>?", end, worker, over)
            renewed += try database.run(
                "UPDATE push_workers SET until=? WHERE worker=? AND until>?", end, worker, over)
            return renewed == known.count
        }
    }

    package func recover() throws(StoreError) -> Int {
        let now = now()
        let gone = try database.query("SELECT 1 FROM outbox_workers WHERE until<=? LIMIT 1", .integer(now)) {
            $0.integer(0)
        }
        guard !gone.isEmpty else { return 0 }
        return try database.transaction { () throws(StoreError) in
            let count = try database.run(
                """
                UPDATE outbox_lines SET due=?1, holder=NULL WHERE holder IN
                (SELECT worker FROM outbox_workers WHERE until<=?1)
                """, .integer(now))
            try database.run("DELETE FROM outbox_workers WHERE until<=?", .integer(now))
            return count
        }
    }
}
