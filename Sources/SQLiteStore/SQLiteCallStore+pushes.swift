import CallCore
import CallStore
import SignalingProtocol

/// The queue of pushes, with a row for each call, and the data of pushes beside the calls.
extension SQLiteCallStore: PushStore {
    /// The number of rows that a transaction removes at most, because other processes wait for its end.
    private static let step = 4_096

    /// Enters a call into the queue within the transaction of the commit.
    func enter(_ callID: CallID) throws(StoreError) {
        try database.run(
            """
            INSERT INTO push_queue VALUES(?1,?2,NULL,0) ON CONFLICT(call_id)
            DO UPDATE SET marked=holder IS NOT NULL, due=CASE WHEN holder IS NULL THEN ?2 END
            """, .id(callID), .integer(now()))
    }

    package func takePushes(by worker: WorkerID, limit: Int, near: [CallID]?) throws(StoreError) -> [CallID] {
        let now = now()
        // A claim without due calls, by far the most frequent case, writes nothing.
        guard limit > 0, try !duePushes(now, limit: 1).isEmpty else { return [] }
        return try database.transaction { () throws(StoreError) in
            let due = try duePushes(now, limit: limit)
            try database.run(
                "INSERT OR REPLACE INTO push_workers VALUES(?,?)", .text(worker.string),
                .integer(now + WorkerLease.life))
            for callID in due {
                try database.run(
                    "UPDATE push_queue SET due=NULL, holder=? WHERE call_id=?", .text(worker.string), .id(callID))
            }
            return due
        }
    }

    private func duePushes(_ now: Milliseconds, limit: Int) throws(StoreError) -> [CallID] {
        try database.query(
            "SELECT call_id FROM push_queue WHERE due<=? ORDER BY due, call_id LIMIT ?", .integer(now),
            .integer(Int64(limit))
        ) { CallID($0.text(0)) }
    }

    package func settlePushes(
        _ settlements: [PushSettlement], by worker: WorkerID
    ) throws(StoreError) -> [PushSettled] {
        guard !settlements.isEmpty else { return [] }
        return try database.transaction { () throws(StoreError) in
            let now = now()
            let lives = try database.query(
                "SELECT 1 FROM push_workers WHERE worker=? AND until>?", .text(worker.string), .integer(now)
            ) { _ in true }
            guard !lives.isEmpty else { return settlements.map { _ in .void } }
            var settled: [PushSettled] = []
            for settlement in settlements { settled.append(try settle(settlement, worker, now)) }
            return settled
        }
    }

    private func settle(
        _ settlement: PushSettlement, _ worker: WorkerID, _ now: Milliseconds
    ) throws(StoreError) -> PushSettled {
        let id = SQLiteValue.id(settlement.callID)
        let marks = try database.query(
            "SELECT marked FROM push_queue WHERE call_id=? AND holder=?", id, .text(worker.string)
        ) { $0.integer(0) != 0 }
        guard let isMarked = marks.first else { return .void }
        if isMarked {
            try database.run("UPDATE push_queue SET marked=0 WHERE call_id=?", id)
            return .again
        }
        if let delay = settlement.again {
            try database.run("UPDATE push_queue SET holder=NULL, due=?2 WHERE call_id=?1", id, .integer(now + delay))
        } else {
            try database.run("DELETE FROM push_queue WHERE call_id=?", id)
        }
        return .done
    }

    package func recoverPushes() throws(StoreError) -> Int {
        let now = now()
        let gone = try database.query("SELECT 1 FROM push_workers WHERE until<=? LIMIT 1", .integer(now)) { _ in true }
        guard !gone.isEmpty else { return 0 }
        return try database.transaction { () throws(StoreError) in
            let count = try database.run(
                """
                UPDATE push_queue SET due=?1, holder=NULL, marked=0 WHERE holder IN
                (SELECT worker FROM push_workers WHERE until<=?1)
                """, .integer(now))
            try database.run("DELETE FROM push_workers WHERE until<=?", .integer(now))
            return count
        }
    }

    package func countPushes() throws(StoreError) -> (calls: Int, oldest: Milliseconds?) {
        let oldest = try database.query(
            "SELECT due FROM push_queue WHERE due<=? ORDER BY due LIMIT 1", .integer(now())
        ) { $0.integer(0) }
        return (try queued(), oldest.first)
    }

    private func queued() throws(StoreError) -> Int {
        try database.query("SELECT count(*) FROM push_queue") { Int($0.integer(0)) }.first ?? 0
    }

    package func boundPushes(most: Int) throws(StoreError) -> Int {
        let missed = now() - PushLimits.missedLife
        let late = try database.query("SELECT 1 FROM push_queue WHERE due<=? LIMIT 1", .integer(missed)) { _ in true }
        let isTooMany = try queued() > most
        guard !late.isEmpty || isTooMany else { return 0 }
        return try database.transaction { () throws(StoreError) in
            let count = try database.run(
                """
                DELETE FROM push_queue WHERE call_id IN
                (SELECT call_id FROM push_queue WHERE due<=? ORDER BY due LIMIT ?)
                """, .integer(missed), .integer(Int64(Self.step)))
            let excess = min(try queued() - most, Self.step)
            guard excess > 0 else { return count }
            return try count
                + database.run(
                    """
                    DELETE FROM push_queue WHERE call_id IN
                    (SELECT call_id FROM push_queue WHERE due IS NOT NULL ORDER BY due, call_id LIMIT ?)
                    """, .integer(Int64(excess)))
        }
    }

    /// Removes expired data of pushes, within a transaction. Workers free the calls of workers whose lease has expired.
    /// This function removes calls that no worker has freed in time, as when no worker runs any more.
    func cleanPushes(_ now: Milliseconds) throws(StoreError) {
        try database.run("DELETE FROM registrations WHERE since<=?", .integer(now - PushLimits.registrationLife))
        try database.run("DELETE FROM push_reservations WHERE at<=?", .integer(now - PushLimits.window))
        let gone = SQLiteValue.integer(now - 2 * PushLimits.missedLife)
        try database.run(
            "DELETE FROM push_queue WHERE holder IN (SELECT worker FROM push_workers WHERE until<=?)", gone)
        try database.run("DELETE FROM push_workers WHERE until<=?", gone)
    }

    // MARK: Reservations

    package func reserve(_ pushes: [PushReservation]) throws(StoreError) -> [Bool] {
        guard !pushes.isEmpty else { return [] }
        return try database.transaction { () throws(StoreError) in
            let now = now()
            var reserved: [Bool] = []
            for push in pushes { reserved.append(try reserve(push, now)) }
            return reserved
        }
    }

    private func reserve(_ push: PushReservation, _ now: Milliseconds) throws(StoreError) -> Bool {
        let (user, device) = (SQLiteValue.id(push.device.userID), SQLiteValue.id(push.device.deviceID))
        try database.run(
            "DELETE FROM push_reservations WHERE user_id=? AND device_id=? AND at<=?", user, device,
            .integer(now - PushLimits.window))
        let (isKnown, all, ofInviter) =
            try database.query(
                """
                SELECT total(id=?3), count(*), total(inviter=?4) FROM push_reservations
                WHERE user_id=?1 AND device_id=?2
                """, user, device, .text(push.id), .id(push.inviter)
            ) { ($0.integer(0) > 0, $0.integer(1), $0.integer(2)) }.first ?? (false, 0, 0)
        if isKnown { return true }
        guard all < PushLimits.perDevice, ofInviter < PushLimits.perInviter else { return false }
        try database.run(
            "INSERT INTO push_reservations VALUES(?,?,?,?,?)", user, device, .text(push.id), .id(push.inviter),
            .integer(now))
        return true
    }

    // MARK: Beside a call

    /// Whether the worker has claimed the call and its lease has not expired.
    func holds(_ callID: CallID, _ worker: WorkerID) throws(StoreError) -> Bool {
        try !database.query(
            """
            SELECT 1 FROM push_queue JOIN push_workers ON worker=holder WHERE call_id=? AND worker=? AND until>?
            """, .id(callID), .text(worker.string), .integer(now())
        ) { _ in true }.isEmpty
    }

    func write(_ push: PushState, _ number: Int64) throws(StoreError) {
        let key = push.key
        try database.run(
            """
            INSERT INTO pushes VALUES(?1,?2,?3,?4,?5,?6,?7,?8,?9)
            ON CONFLICT(call, user_id, device_id, app, platform) DO UPDATE SET invitation=?6, ring=?7, stop=?8, missed=?9
            WHERE invitation<=?6
            """, .integer(number), .id(key.device.userID), .id(key.device.deviceID), .id(key.app),
            .text(key.platform.rawValue), .integer(Int64(push.invitation)), .optionalText(push.ringText),
            .optionalText(push.stop?.rawValue), .optionalText(push.missed?.rawValue))
    }

    func write(_ check: RingCheck, _ number: Int64) throws(StoreError) {
        try database.run(
            """
            INSERT INTO ring_checks VALUES(?1,?2,?3,?4)
            ON CONFLICT(call, user_id, device_id) DO UPDATE SET invitation=?4 WHERE invitation<?4
            """, .integer(number), .id(check.device.userID), .id(check.device.deviceID),
            .integer(Int64(check.invitation)))
    }

    func pushes(ofCall number: Int64) throws(StoreError) -> [PushState] {
        try database.query(
            """
            SELECT user_id, device_id, app, platform, invitation, ring, stop, missed FROM pushes WHERE call=?
            ORDER BY user_id, device_id, app, platform
            """, .integer(number)
        ) { row in
            row.registrationKey(0).map {
                PushState(
                    $0, invitation: Int(row.integer(4)), ringText: row.optionalText(5) ?? "", stop: row.phase(6),
                    missed: row.phase(7))
            }
        }
    }

    func checks(ofCall number: Int64) throws(StoreError) -> [RingCheck] {
        try database.query(
            "SELECT user_id, device_id, invitation FROM ring_checks WHERE call=? ORDER BY user_id, device_id",
            .integer(number)
        ) { row in row.device(0).map { RingCheck(device: $0, invitation: Int(row.integer(2))) } }
    }
}

extension SQLiteRow {
    fileprivate func phase(_ column: Int32) -> PushState.Phase? {
        optionalText(column).flatMap(PushState.Phase.init(rawValue:))
    }
}
