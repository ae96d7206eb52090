import CallCore
import SignalingProtocol

/// What belongs to users: their history, the messages that wait for them, their profiles; and calls' timelines.
extension RedisCallStore {
    public func history(
        of user: UserID, after place: HistoryPlace?, limit: Int
    ) throws(StoreError) -> [HistoryPlace] {
        var command = RedisCommand("ZREVRANGEBYSCORE")
        command.append(key(user, "calls"))
        for word in [place.map { String($0.createdAt) } ?? "+inf", "-inf", "WITHSCORES"] { command.append(word) }
        // Redis gives equal scores by falling member, as `HistoryPlace` orders them; all of a user's list is little.
        let places = try session.run(command).pairs().compactMap { name, score -> HistoryPlace? in
            guard let callID = CallID(String(decoding: name, as: UTF8.self)) else { return nil }
            return HistoryPlace(createdAt: StoredNumber.time(ofScore: score), callID: callID)
        }
        return Array(places.filter { candidate in place.map { candidate < $0 } ?? true }.prefix(limit))
    }

    public func messages(for user: UserID, limit: Int) throws(StoreError) -> [RecordID] {
        var command = RedisCommand("ZRANGE")
        command.append(key(user, "messages"))
        for word in ["0", String(limit - 1)] { command.append(word) }
        return try session.run(command).values().compactMap { id in
            String(validating: id, as: UTF8.self).flatMap { RecordID($0) }
        }
    }

    public func update(_ user: UserID, _ update: Request.UserUpdate) throws(StoreError) -> UserProfile {
        var known = RedisCommand("HSETNX")
        known.append(key(user, "profile"))
        for word in ["since", String(try now())] { known.append(word) }
        var steps = [RedisSession.Step.command(known)]
        for (field, value) in [("n", update.name), ("a", update.avatarURL), ("x", update.extendedData)] {
            guard let value else { continue }
            var command = RedisCommand(value.isEmpty ? "HDEL" : "HSET")
            command.append(key(user, "profile"))
            command.append(field)
            if !value.isEmpty { command.append(value) }
            steps.append(.command(command))
        }
        steps.append(.command(RedisCommand("HGETALL", key(user, "profile"))))
        let replies = try session.run(steps, isWrite: true)
        return try profile(replies[replies.count - 1]) ?? UserProfile()
    }

    /// The hash's fields are "since", "n" (name), "a" (avatar's URL), "x" (extended data).
    func profile(_ reply: RedisReply) throws(StoreError) -> UserProfile? {
        let fields = try reply.pairs()
        guard !fields.isEmpty else { return nil }
        var profile = UserProfile()
        for (name, value) in fields {
            let text = String(validating: value, as: UTF8.self)
            switch String(decoding: name, as: UTF8.self) {
            case "n": profile.name = text
            case "a": profile.avatarURL = text
            case "x": profile.extendedData = text
            default: continue
            }
        }
        return profile
    }

    // MARK: Timelines

    public func trace(_ traces: [CallTrace], life: Milliseconds) throws(StoreError) {
        _ = try session.run(
            traces.map { trace in
                .script(
                    .init(
                        script: .trace, keys: [traceKey(trace.callID, "trace"), traceKey(trace.callID, "omitted")],
                        arguments: [Array(String(Limits.traceEntries).utf8), Array(String(life).utf8)]
                            + trace.entries.map { $0.encoded() }))
            })
    }

    public func timeline(of callID: CallID) throws(StoreError) -> Timeline {
        var entries = RedisCommand("LRANGE")
        entries.append(traceKey(callID, "trace"))
        for word in ["0", "-1"] { entries.append(word) }
        var omitted = RedisCommand("GET")
        omitted.append(traceKey(callID, "omitted"))
        let replies = try session.run([.command(entries), .command(omitted)])
        return Timeline(
            entries: try replies[0].values().compactMap { TraceEntry($0) },
            omitted: try replies[1].value().flatMap(StoredNumber.time).map(Int.init) ?? 0)
    }
}
