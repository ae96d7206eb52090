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
        let entries = try session.run(command).array ?? []
        // Redis gives equal scores by falling member, as `HistoryPlace` orders them; all of a user's list is little.
        let places = stride(from: 0, to: entries.count - 1, by: 2).compactMap { index -> HistoryPlace? in
            guard let callID = entries[index].text.flatMap(CallID.init),
                let createdAt = entries[index + 1].text.flatMap(Double.init)
            else { return nil }
            return HistoryPlace(createdAt: Milliseconds(createdAt), callID: callID)
        }
        return Array(places.filter { candidate in place.map { candidate < $0 } ?? true }.prefix(limit))
    }

    public func messages(for user: UserID, limit: Int) throws(StoreError) -> [RecordID] {
        var command = RedisCommand("ZRANGE")
        command.append(key(user, "messages"))
        for word in ["0", String(limit - 1)] { command.append(word) }
        return (try session.run(command).array ?? []).compactMap { $0.text.flatMap { RecordID($0) } }
    }

    public func profiles(of users: [UserID]) throws(StoreError) -> [UserProfile?] {
        try session.run(users.map { .command(readProfile($0)) }).map(profile)
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
        steps.append(.command(readProfile(user)))
        let replies = try session.run(steps, isWrite: true)
        return profile(replies[replies.count - 1]) ?? UserProfile()
    }

    private func readProfile(_ user: UserID) -> RedisCommand {
        var command = RedisCommand("HGETALL")
        command.append(key(user, "profile"))
        return command
    }

    /// The hash's fields are "since", "n" (name), "a" (avatar's URL), "x" (extended data).
    private func profile(_ reply: RedisReply) -> UserProfile? {
        let fields = reply.array ?? []
        guard !fields.isEmpty else { return nil }
        var profile = UserProfile()
        for index in stride(from: 0, to: fields.count - 1, by: 2) {
            switch fields[index].text {
            case "n": profile.name = fields[index + 1].text
            case "a": profile.avatarURL = fields[index + 1].text
            case "x": profile.extendedData = fields[index + 1].text
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
            entries: (replies[0].array ?? []).compactMap { $0.bytes.flatMap { TraceEntry($0) } },
            omitted: replies[1].text.flatMap(Int.init) ?? 0)
    }
}
