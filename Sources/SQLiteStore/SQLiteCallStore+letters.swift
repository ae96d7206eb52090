import CallCore
import CallStore
import SignalingProtocol

/// The bounds of the outbox, and its dead letters.
extension SQLiteCallStore {
    /// The number of rows that a transaction handles at most, because other processes wait for its end.
    private static let step: Int64 = 256

    package func count(_ endpoint: EndpointName) throws(StoreError) -> OutboxCount {
        var count =
            try database.query("SELECT waiting, dead, bytes FROM outbox_endpoints WHERE name=?", .id(endpoint)) { row in
                var count = OutboxCount()
                count.waiting = Int(row.integer(0))
                count.dead = Int(row.integer(1))
                count.bytes = Int(row.integer(2))
                return count
            }.first ?? OutboxCount()
        count.oldest =
            try database.query(
                "SELECT time FROM outbox_lines WHERE endpoint=? ORDER BY time LIMIT 1", .id(endpoint)
            ) { $0.integer(0) }.first
        return count
    }

    package func bound(_ endpoint: EndpointName, _ bounds: OutboxBounds) throws(StoreError) -> OutboxLoss {
        guard try isBeyond(endpoint, bounds) else { return OutboxLoss() }
        return try database.transaction { () throws(StoreError) in
            var loss = OutboxLoss()
            let isOff =
                try database.query("SELECT off FROM outbox_endpoints WHERE name=?", .id(endpoint)) { $0.integer(0) }
                .first == 1
            let excess = Int64(try count(endpoint).waiting - (isOff ? 0 : bounds.backlog))
            for item in try oldest(endpoint, limit: min(excess, Self.step)) {
                try bury(item, now())
                try shorten(item.id, endpoint)
                loss.becameDead += 1
            }
            loss.deleted = try boundLetters(endpoint, bounds) + boundBytes(endpoint, bounds)
            return loss
        }
    }

    private func isBeyond(_ endpoint: EndpointName, _ bounds: OutboxBounds) throws(StoreError) -> Bool {
        let found = try database.query(
            """
            SELECT 1 FROM outbox_endpoints WHERE name=?1 AND (waiting>?2 OR dead>?3 OR bytes>?4 OR off AND waiting>0)
            UNION ALL SELECT 1 FROM outbox_dead WHERE endpoint=?1 AND since<=?5 LIMIT 1
            """, .id(endpoint), .integer(Int64(bounds.backlog)), .integer(Int64(bounds.deadLetters)),
            .integer(Int64(bounds.bytes)), .integer(now() - bounds.deadLetterLife)
        ) { $0.integer(0) }
        return !found.isEmpty
    }

    /// Returns the first entry of each line that no worker has claimed, the earliest lines first.
    private func oldest(_ endpoint: EndpointName, limit: Int64) throws(StoreError) -> [OutboxItem] {
        guard limit > 0 else { return [] }
        let ids = try database.query(
            "SELECT id FROM outbox_lines WHERE endpoint=? AND holder IS NULL ORDER BY time, id LIMIT ?",
            .id(endpoint), .integer(limit)
        ) { RecordID($0.text(0)) }
        var items: [OutboxItem] = []
        for id in ids { if let item = try first(of: id, endpoint) { items.append(item) } }
        return items
    }

    private func boundLetters(_ endpoint: EndpointName, _ bounds: OutboxBounds) throws(StoreError) -> Int {
        let excess = max(0, try count(endpoint).dead - bounds.deadLetters)
        let letters = try database.query(
            """
            SELECT id, number, length(record), since, owner FROM outbox_dead WHERE endpoint=?
            ORDER BY since, id, number LIMIT ?
            """, .id(endpoint), .integer(Self.step)
        ) { row in (row.text(0), row.integer(1), Int(row.integer(2)), row.integer(3), row.text(4)) }
        let expired = now() - bounds.deadLetterLife
        var count = 0
        for (place, letter) in letters.enumerated() where place < excess || letter.3 <= expired {
            try delete(endpoint, letter.0, letter.1, bytes: letter.2, of: letter.4)
            count += 1
        }
        return count
    }

    private func delete(
        _ endpoint: EndpointName, _ id: String, _ number: Int64, bytes: Int, of owner: String
    ) throws(StoreError) {
        try database.run(
            "DELETE FROM outbox_dead WHERE endpoint=? AND id=? AND number=?", .id(endpoint), .text(id),
            .integer(number))
        try add(dead: -1, bytes: -bytes, to: endpoint)
        try add(bytes: -bytes, toOwner: owner, endpoint)
    }

    /// Deletes entries until the bound of bytes holds. Each deletion takes from the user with the most bytes: first the
    /// oldest dead letters, then the oldest queued entries. Returns the number of deleted entries.
    private func boundBytes(_ endpoint: EndpointName, _ bounds: OutboxBounds) throws(StoreError) -> Int {
        var excess = try count(endpoint).bytes - bounds.bytes
        guard excess > 0 else { return 0 }
        let owners = try database.query("SELECT count(*) FROM outbox_owners WHERE endpoint=?", .id(endpoint)) {
            Int($0.integer(0))
        }
        let share = OutboxShares.share(of: bounds.bytes, among: owners.first ?? 0)
        var count = 0
        while excess > 0, count < Self.step, let bytes = try deleteFirstOfLargest(endpoint, share: share) {
            excess -= bytes
            count += 1
        }
        return count
    }

    /// Deletes an entry of the user with the most bytes, or, while workers have claimed all entries of that user, of
    /// another user with more than a share. Returns the bytes of the deleted entry; nil when no entry can be deleted.
    private func deleteFirstOfLargest(_ endpoint: EndpointName, share: Int) throws(StoreError) -> Int? {
        let owners = try database.query(
            "SELECT owner FROM outbox_owners WHERE endpoint=? AND bytes>? ORDER BY bytes DESC, owner LIMIT 8",
            .id(endpoint), .integer(Int64(share))
        ) { $0.text(0) }
        for owner in owners { if let bytes = try deleteFirst(of: owner, endpoint) { return bytes } }
        return nil
    }

    private func deleteFirst(of owner: String, _ endpoint: EndpointName) throws(StoreError) -> Int? {
        let letter = try database.query(
            """
            SELECT id, number, length(record) FROM outbox_dead WHERE endpoint=? AND owner=?
            ORDER BY since, id, number LIMIT 1
            """, .id(endpoint), .text(owner)
        ) { row in (row.text(0), row.integer(1), Int(row.integer(2))) }.first
        if let letter {
            try delete(endpoint, letter.0, letter.1, bytes: letter.2, of: owner)
            return letter.2
        }
        let line = try database.query(
            """
            SELECT id FROM outbox_lines WHERE endpoint=? AND owner=? AND holder IS NULL ORDER BY time, id LIMIT 1
            """, .id(endpoint), .text(owner)
        ) { RecordID($0.text(0)) }.first
        guard let line, let item = try first(of: line, endpoint) else { return nil }
        try remove(item)
        try shorten(item.id, endpoint)
        return item.record.count
    }

    // MARK: Dead letters

    package func deadLetters(
        _ endpoint: EndpointName, since: Milliseconds, limit: Int
    ) throws(StoreError) -> [DeadLetter] {
        try database.query(
            """
            SELECT id, number, time, record FROM outbox_dead WHERE endpoint=? AND time>=?
            ORDER BY time, id, number LIMIT ?
            """, .id(endpoint), .integer(since), .integer(Int64(limit))
        ) { row in
            RecordID(row.text(0)).map {
                DeadLetter(id: $0, number: row.integer(1), time: row.integer(2), record: row.bytes(3))
            }
        }
    }

    package func replay(_ letters: [DeadLetter], of endpoint: EndpointName) throws(StoreError) -> Int {
        var count = 0
        for letter in letters {
            count += try database.transaction { () throws(StoreError) in try replay(letter, endpoint) }
        }
        return count
    }

    private func replay(_ letter: DeadLetter, _ endpoint: EndpointName) throws(StoreError) -> Int {
        let record = try database.query(
            "SELECT record, owner FROM outbox_dead WHERE endpoint=? AND id=? AND number=?", .id(endpoint),
            .id(letter.id), .integer(letter.number)
        ) { ($0.bytes(0), $0.text(1)) }.first
        guard let (record, owner) = record else { return 0 }
        try delete(endpoint, letter.id.string, letter.number, bytes: record.count, of: owner)
        // A replayed dead letter that comes before the first entry of its line is the new first entry, without
        // attempts.
        try database.run(
            """
            UPDATE outbox_lines SET due=?4, attempts=0, first_attempt=NULL
            WHERE endpoint=?1 AND id=?2 AND holder IS NULL
            AND ?3 < (SELECT min(number) FROM outbox WHERE endpoint=?1 AND id=?2)
            """, .id(endpoint), .id(letter.id), .integer(letter.number), .integer(now()))
        try insert(
            OutboxItem(
                endpoint: endpoint, id: letter.id, number: letter.number, time: letter.time, record: record,
                attempts: 0, firstAttempt: nil), owner: owner)
        return 1
    }
}
