import CallCore
import CallStore
import SignalingProtocol

/// The push registrations of devices.
extension SQLiteCallStore {
    // MARK: The deployment

    package func pushPolicy() throws(StoreError) -> KeptPushPolicy? {
        try database.query(
            """
            SELECT policy, (SELECT coalesce(max(until),0) FROM push_processes) FROM push_deployment
            WHERE policy IS NOT NULL
            """
        ) { row in PushPolicy(row.text(0)).map { KeptPushPolicy($0, until: row.integer(1)) } }.first
    }

    package func keep(_ policy: PushPolicy) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            _ = try database.run(
                "INSERT INTO push_deployment VALUES(1,?1,?2) ON CONFLICT(one) DO UPDATE SET policy=?1",
                .text(policy.text), .blob(PushSecret.make()))
        }
    }

    package func pushes(_ process: WorkerID, for life: Milliseconds) throws(StoreError) {
        try database.transaction { () throws(StoreError) in
            let now = now()
            try database.run(
                "INSERT OR REPLACE INTO push_processes VALUES(?,?)", .text(process.string), .integer(now + life))
            try database.run(
                "DELETE FROM push_processes WHERE until<=?", .integer(now - PushLimits.missedLife))
        }
    }

    package func pushSecret() throws(StoreError) -> [UInt8] {
        if let known = try storedSecret() { return known }
        return try database.transaction { () throws(StoreError) in
            try database.run("INSERT OR IGNORE INTO push_deployment VALUES(1,NULL,?)", .blob(PushSecret.make()))
            guard let made = try storedSecret() else { throw StoreError(.failed, "the secret of pushes is not kept") }
            return made
        }
    }

    private func storedSecret() throws(StoreError) -> [UInt8]? {
        try database.query("SELECT secret FROM push_deployment") { $0.bytes(0) }.first
    }

    // MARK: Registrations

    package func register(_ registration: PushRegistration) throws(StoreError) -> [PushRegistration] {
        let (key, now) = (registration.key, now())
        let (user, device) = (SQLiteValue.id(key.device.userID), SQLiteValue.id(key.device.deviceID))
        return try database.transaction { () throws(StoreError) in
            // The target may belong to another device, of any user, until now.
            try database.run(
                "DELETE FROM registrations WHERE digest=? AND NOT (user_id=? AND device_id=?)",
                .text(registration.digest), user, device)
            try database.run(
                "DELETE FROM registrations WHERE user_id=? AND since<=?", user,
                .integer(now - PushLimits.registrationLife))
            try database.run(
                "INSERT OR REPLACE INTO registrations VALUES(?,?,?,?,?,?,?)", user, device, .id(key.app),
                .text(key.platform.rawValue), .text(registration.target.text), .text(registration.digest),
                .integer(now))
            try database.run(
                """
                DELETE FROM registrations WHERE user_id=?1 AND device_id=?2 AND app IN
                (SELECT app FROM registrations WHERE user_id=?1 AND device_id=?2 AND app<>?3
                 GROUP BY app ORDER BY max(since) DESC, app DESC LIMIT -1 OFFSET ?4)
                """, user, device, .id(key.app), .integer(Int64(PushLimits.appsPerDevice - 1)))
            try database.run(
                """
                DELETE FROM registrations WHERE user_id=?1 AND device_id IN
                (SELECT device_id FROM registrations WHERE user_id=?1 AND device_id<>?2
                 GROUP BY device_id ORDER BY max(since) DESC, device_id DESC LIMIT -1 OFFSET ?3)
                """, user, device, .integer(Int64(PushLimits.devicesPerUser - 1)))
            return try registrations(of: key.device)
        }
    }

    package func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform?, _ app: AppName?
    ) throws(StoreError) -> [PushRegistration] {
        try database.transaction { () throws(StoreError) in
            try database.run(
                """
                DELETE FROM registrations WHERE user_id=?1 AND device_id=?2 AND (?3 IS NULL OR platform=?3)
                AND (?4 IS NULL OR app=?4)
                """, .id(device.userID), .id(device.deviceID), .optionalText(platform?.rawValue),
                .optionalText(app?.string))
            return try registrations(of: device)
        }
    }

    package func end(_ registration: PushRegistration) throws(StoreError) {
        let key = registration.key
        try database.transaction { () throws(StoreError) in
            _ = try database.run(
                """
                DELETE FROM registrations WHERE user_id=? AND device_id=? AND app=? AND platform=? AND digest=?
                AND since=?
                """, .id(key.device.userID), .id(key.device.deviceID), .id(key.app), .text(key.platform.rawValue),
                .text(registration.digest), .integer(registration.since))
        }
    }

    package func registrations(of users: [UserID]) throws(StoreError) -> [[PushRegistration]] {
        var found: [[PushRegistration]] = []
        for user in users { found.append(try registrations(of: user)) }
        return found
    }

    private func registrations(of device: DeviceAddress) throws(StoreError) -> [PushRegistration] {
        try registrations(of: device.userID).filter { $0.device == device }
    }

    private func registrations(of user: UserID) throws(StoreError) -> [PushRegistration] {
        try database.query(
            """
            SELECT user_id, device_id, app, platform, target, digest, since FROM registrations
            WHERE user_id=? AND since>? ORDER BY device_id, app, platform
            """, .id(user), .integer(now() - PushLimits.registrationLife)
        ) { row in
            guard let key = row.registrationKey(0), let target = PushTarget(row.text(4)) else { return nil }
            return PushRegistration(key, target: target, digest: row.text(5), since: row.integer(6))
        }
    }

    func isRegistered(_ user: UserID) throws(StoreError) -> Bool {
        try !database.query(
            "SELECT 1 FROM registrations WHERE user_id=? AND since>? LIMIT 1", .id(user),
            .integer(now() - PushLimits.registrationLife)
        ) { _ in true }.isEmpty
    }
}

extension SQLiteRow {
    /// Reads a key from four columns: user, device, app, platform.
    func registrationKey(_ column: Int32) -> PushRegistration.Key? {
        guard let device = device(column), let app = AppName(text(column + 2)),
            let platform = PushPlatform(rawValue: text(column + 3))
        else { return nil }
        return PushRegistration.Key(device, app, platform)
    }
}
