import CallCore
import CallStore
import SignalingProtocol

/// Presence: a row for each device, and the sessions that are over. `online` is 0 for an offline device, 1 for an
/// online device, and 2 for an online device whose broker is known. With 2, `session` is "broker session".
extension SQLiteCallStore {
    func devices(of user: UserID) throws(StoreError) -> [DevicePresence] {
        try database.query(
            "SELECT user_id, device_id, session, online, since, seen FROM presence WHERE user_id=?", .id(user),
            read: presence)
    }

    private func presence(of device: DeviceAddress) throws(StoreError) -> DevicePresence? {
        try database.query(
            """
            SELECT user_id, device_id, session, online, since, seen FROM presence WHERE user_id=? AND device_id=?
            """, .id(device.userID), .id(device.deviceID), read: presence
        ).first
    }

    func presence(_ row: SQLiteRow) -> DevicePresence? {
        guard let device = row.device(0) else { return nil }
        let (online, text) = (row.integer(3), row.text(2))
        let space = online == 2 ? text.utf8.firstIndex(of: UInt8(ascii: " ")) : nil
        return DevicePresence(
            device: device, session: space.map { String(text[text.utf8.index(after: $0)...]) } ?? text,
            isOnline: online != 0, since: row.integer(4), seen: row.integer(5),
            broker: space.map { String(text[..<$0]) })
    }

    package func cameOnline(
        _ sessions: [DeviceSession], policy: PresencePolicy
    ) throws(StoreError) -> [OnlineOutcome] {
        guard !sessions.isEmpty else { return [] }
        let now = now()
        return try database.transaction { () throws(StoreError) in
            var outcomes: [OnlineOutcome] = []
            for session in sessions { outcomes.append(try cameOnline(session, policy, now)) }
            return outcomes
        }
    }

    private func cameOnline(
        _ session: DeviceSession, _ policy: PresencePolicy, _ now: Milliseconds
    ) throws(StoreError) -> OnlineOutcome {
        let device = session.device
        let over = try database.query(
            "SELECT 1 FROM over_sessions WHERE user_id=? AND device_id=? AND session=? AND until>?",
            .id(device.userID), .id(device.deviceID), .text(session.id), .integer(now)
        ) { $0.integer(0) }
        guard over.isEmpty else { return .over }
        let known = try presence(of: device)
        if let known, known.makesLate(session) { return .late }
        let continues = known.map { $0.isReachable(at: now, lease: policy.lease) && $0.isSession(session) } ?? false
        try database.run("INSERT OR IGNORE INTO users(user_id) VALUES(?)", .id(device.userID))
        try database.run(
            "DELETE FROM presence WHERE user_id=?1 AND seen+?2<=?3 AND device_id<>?4", .id(device.userID),
            .integer(policy.lease), .integer(now), .id(device.deviceID))
        try database.run(
            """
            INSERT OR REPLACE INTO presence VALUES(?,?,?,?,?,?)
            """, .id(device.userID), .id(device.deviceID),
            .text(session.broker.map { "\($0) \(session.id)" } ?? session.id),
            .integer(session.broker == nil ? 1 : 2), .integer(continues ? known!.since : now), .integer(now))
        try database.run(
            """
            DELETE FROM presence WHERE user_id=?1 AND device_id IN
            (SELECT device_id FROM presence WHERE user_id=?1 AND online AND device_id<>?2
             ORDER BY seen DESC LIMIT -1 OFFSET ?3)
            """, .id(device.userID), .id(device.deviceID), .integer(Int64(policy.maxDevices - 1)))
        try database.run(
            """
            DELETE FROM presence WHERE user_id=?1 AND device_id IN
            (SELECT device_id FROM presence WHERE user_id=?1 ORDER BY online DESC, seen DESC LIMIT -1 OFFSET ?2)
            """, .id(device.userID),
            .integer(Int64(policy.devicesKnown)))
        return .current(takenOver: known?.session(takenOverBy: session, at: now, lease: policy.lease))
    }

    package func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) throws(StoreError) -> [Bool] {
        guard !sessions.isEmpty else { return [] }
        let now = now()
        return try database.transaction { () throws(StoreError) in
            var ended: [Bool] = []
            for session in sessions {
                let device = session.device
                if !session.id.isEmpty { try rememberOver(device, session.id, now, policy) }
                guard let known = try presence(of: device), known.isOnline, known.isSession(session) else {
                    ended.append(false)
                    continue
                }
                try database.run(
                    "UPDATE presence SET online=0, session=?, seen=? WHERE user_id=? AND device_id=?",
                    .text(session.id), .integer(now), .id(device.userID), .id(device.deviceID))
                ended.append(true)
            }
            return ended
        }
    }

    private func rememberOver(
        _ device: DeviceAddress, _ session: String, _ now: Milliseconds, _ policy: PresencePolicy
    ) throws(StoreError) {
        try database.run(
            "INSERT OR REPLACE INTO over_sessions VALUES(?,?,?,?)", .id(device.userID), .id(device.deviceID),
            .text(session), .integer(now + policy.sessionMemory))
        try database.run(
            """
            DELETE FROM over_sessions WHERE user_id=?1 AND (device_id, session) IN
            (SELECT device_id, session FROM over_sessions WHERE user_id=?1 ORDER BY until DESC LIMIT -1 OFFSET ?2)
            """, .id(device.userID), .integer(Int64(policy.sessionsRemembered)))
    }

    package func renew(_ devices: [DeviceAddress]) throws(StoreError) {
        guard !devices.isEmpty else { return }
        let now = now()
        try database.transaction { () throws(StoreError) in
            for device in devices {
                try database.run(
                    "UPDATE presence SET seen=?1 WHERE user_id=?2 AND device_id=?3 AND online AND seen+?4>?1",
                    .integer(now), .id(device.userID), .id(device.deviceID), .integer(lease))
            }
        }
    }
}
