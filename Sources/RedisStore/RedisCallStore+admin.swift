import CallCore
import CallStore
import SignalingProtocol

/// The disabled users: a set. The audit log: a sorted set of entries by time.
extension RedisCallStore: AdminStore {
    package func disabledUsers() async throws(StoreError) -> Set<UserID> {
        var pipeline = try session.pipeline()
        pipeline.command("SMEMBERS", 1) { $0.add(disabledKey) }
        return Set(try await session.run(pipeline)[0].values().compactMap { $0.text.flatMap(UserID.init) })
    }

    package func set(_ user: UserID, isDisabled: Bool) async throws(StoreError) -> Bool {
        if isDisabled {
            let known = try await disabledUsers()
            guard known.count < DisabledUsers.most || known.contains(user) else { return false }
        }
        var pipeline = try session.pipeline()
        pipeline.command(isDisabled ? "SADD" : "SREM", 2) {
            $0.add(disabledKey)
            $0.add(user.string)
        }
        _ = try await session.run(pipeline, isWrite: true)[0].number()
        return true
    }

    package func add(_ entry: AuditEntry) async throws(StoreError) {
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
            $0.add(Int64(-1 - AuditBounds.entries))
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
        pipeline.command("ZREVRANGEBYSCORE", 6) {
            $0.add(auditKey)
            $0.add(newest.map { "\($0)" } ?? "+inf")
            $0.add("-inf")
            $0.add("LIMIT")
            $0.add(skipped)
            $0.add(Int64(limit + 1))
        }
        let found = try await session.run(pipeline)[0].values().map { AuditEntry($0) }
        let begin = newest ?? found.first.flatMap { $0?.time }
        return AuditPage(
            found.prefix(limit).compactMap(\.self),
            next: found.count > limit ? begin.map { "\($0).\(skipped + Int64(limit))" } : nil)
    }
}
