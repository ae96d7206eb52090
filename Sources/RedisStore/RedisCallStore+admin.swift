import CallCore
import CallStore
import SignalingProtocol

/// The disabled users: a set. The level of logs: a text. The audit log: a sorted set of entries by time.
extension RedisCallStore: AdminStore {
    package func adminSettings() async throws(StoreError) -> AdminSettings {
        var pipeline = try session.pipeline()
        pipeline.command("SMEMBERS", 1) { $0.add(disabledKey) }
        pipeline.command("GET", 1) { $0.add(logLevelKey) }
        let replies = try await session.run(pipeline)
        var settings = AdminSettings()
        settings.disabledUsers = Set(try replies[0].values().compactMap { $0.text.flatMap(UserID.init) })
        settings.logLevel = try replies[1].value()?.text.flatMap(LogLevelOrder.init)
        return settings
    }

    /// There is no list of all users: the keys are scanned, a server after the other. A place is the number of the
    /// server, a dot, and Redis's cursor there.
    package func online(after place: String?, limit: Int) async throws(StoreError) -> DevicePage {
        let parts = place?.split(separator: ".").map(String.init) ?? []
        var (server, cursor) = (0, "0")
        if parts.count == 2, let number = Int(parts[0]), UInt64(parts[1]) != nil {
            (server, cursor) = (number, parts[1])
        }
        let now = try await now()
        var found: [DevicePresence] = []
        for _ in 0..<Bounds.scansPerPage where found.count < limit {
            var scan = try session.pipeline()
            scan.command("SCAN", 5) {
                $0.add(cursor)
                $0.add("MATCH")
                $0.add("\(prefix):{u:*}:presence")
                $0.add("COUNT")
                $0.add(Bounds.keysPerScan)
            }
            guard let reply = try await session.run(scan, atServer: server)?.first else { return DevicePage(found) }
            guard let answer = reply.array, answer.count == 2, let next = answer[0].bytes?.text else {
                throw reply.unexpected
            }
            let owners = try answer[1].values().compactMap { [users] key in
                UserID(String(decoding: key.dropFirst(users.count).dropLast("}:presence".utf8.count), as: UTF8.self))
            }
            found += try await devices(of: owners.unique).joined().filter { $0.isReachable(at: now, lease: lease) }
            if next == "0" { server += 1 }
            cursor = next
        }
        return DevicePage(found, next: "\(server).\(cursor)")
    }

    /// The due index is scanned, a partition after the other. A place is the number of the partition, a dot, and
    /// Redis's cursor there.
    package func callsWithDeadline(after place: String?, limit: Int) async throws(StoreError) -> CallIDPage {
        let parts = place?.split(separator: ".").map(String.init) ?? []
        var (partition, cursor) = (0, "0")
        if parts.count == 2, let number = Int(parts[0]), number >= 0, UInt64(parts[1]) != nil {
            (partition, cursor) = (number, parts[1])
        }
        var found: [CallID] = []
        for _ in 0..<Bounds.partitions where partition < Bounds.partitions && found.count < limit {
            var scan = try session.pipeline()
            scan.command("ZSCAN", 4) {
                $0.add(prefix(ofPartition: partition) + "due".utf8)
                $0.add(cursor)
                $0.add("COUNT")
                $0.add(Bounds.keysPerScan)
            }
            let reply = try await session.run(scan)[0]
            guard let answer = reply.array, answer.count == 2, let next = answer[0].bytes?.text else {
                throw reply.unexpected
            }
            found += try answer[1].pairs().compactMap { entry in
                entry.name.text.flatMap { RecordID($0) }?.callID
            }
            if next == "0" { partition += 1 }
            cursor = next
        }
        return CallIDPage(found, next: partition < Bounds.partitions ? "\(partition).\(cursor)" : nil)
    }

    package func set(_ logLevel: LogLevelOrder) async throws(StoreError) {
        var pipeline = try session.pipeline()
        pipeline.command("SET", 2) {
            $0.add(logLevelKey)
            $0.add(logLevel.text)
        }
        _ = try await session.run(pipeline, isWrite: true)
    }

    package func set(_ user: UserID, isDisabled: Bool) async throws(StoreError) -> Bool {
        if isDisabled {
            guard DisabledUsers(try await adminSettings().disabledUsers).adding(user) != nil else { return false }
        }
        var pipeline = try session.pipeline()
        pipeline.command(isDisabled ? "SADD" : "SREM", 2) {
            $0.add(disabledKey)
            $0.add(user.string)
        }
        _ = try await session.run(pipeline, isWrite: true)[0].number()
        return true
    }

    package func add(_ entry: AuditEntry, keeping most: Int) async throws(StoreError) {
        let oldest = try await now() - AuditBounds.life
        var pipeline = try session.pipeline()
        pipeline.command("ZADD", 3) {
            $0.add(auditKey)
            $0.add(entry.time)
            $0.add(entry.encoded())
        }
        pipeline.command("ZREMRANGEBYSCORE", 3) {
            $0.add(auditKey)
            $0.add("-inf")
            $0.add("(\(oldest)")
        }
        pipeline.command("ZREMRANGEBYRANK", 3) {
            $0.add(auditKey)
            $0.add(0)
            $0.add(Int64(-1 - most))
        }
        for reply in try await session.run(pipeline, isWrite: true) { _ = try reply.number() }
    }

    /// A place is the time of the first page's newest entry, a dot, and the number of entries before the place: entries
    /// that are added meanwhile have later times.
    package func audit(after place: String?, limit: Int) async throws(StoreError) -> AuditPage {
        let parts = place?.split(separator: ".", omittingEmptySubsequences: false).map { Int64($0) } ?? []
        let (newest, skipped): (Int64?, Int64) =
            parts.count == 2 && parts.allSatisfy { $0 ?? -1 >= 0 } ? (parts[0], parts[1]!) : (nil, 0)
        var pipeline = try session.pipeline()
        pipeline.command("ZREVRANGEBYSCORE", 7) {
            $0.add(auditKey)
            $0.add(newest.map { "\($0)" } ?? "+inf")
            $0.add("-inf")
            $0.add("WITHSCORES")
            $0.add("LIMIT")
            $0.add(skipped)
            $0.add(Int64(limit + 1))
        }
        let pairs = try await session.run(pipeline)[0].pairs()
        let found = pairs.map { AuditEntry($0.name) }
        let begin = newest ?? pairs.first.map { StoredNumber.time(ofScore: $0.value) }
        return AuditPage(
            found.prefix(limit).compactMap(\.self),
            next: found.count > limit ? begin.map { "\($0).\(skipped + Int64(limit))" } : nil)
    }
}
