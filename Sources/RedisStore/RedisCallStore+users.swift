import CallCore
import CallStore
import SignalingProtocol

/// The data of users: their history, their waiting messages, their profiles and blocks; also the timelines of calls.
extension RedisCallStore {
    package func history(
        of user: UserID, after place: HistoryPlace?, limit: Int
    ) async throws(StoreError) -> [HistoryPlace] {
        var pipeline = try session.pipeline()
        pipeline.command("ZRANGE", 4) {
            $0.add(key(user, "calls"))
            $0.add(0)
            $0.add(-1)
            $0.add("WITHSCORES")
        }
        var places: [(place: HistoryPlace, isLive: Bool)] = []
        for (name, score) in try await session.run(pipeline)[0].pairs() {
            guard let place = name.text.flatMap(HistoryPlace.init) else { continue }
            places.append((place, LiveScore.isLive(score.text.flatMap { Double($0) } ?? 0)))
        }
        places.sort { $0.place > $1.place }
        // The list may hold some more ended calls than are kept.
        var ended = 0
        let kept = places.filter { entry in
            if !entry.isLive { ended += 1 }
            return entry.isLive || ended <= historyPerUser
        }
        return Array(kept.map(\.place).filter { candidate in place.map { candidate < $0 } ?? true }.prefix(limit))
    }

    func add(_ list: CallList, to pipeline: inout RedisPipeline) {
        pipeline.command("ZRANGEBYSCORE", 3) {
            $0.add(key(list.user, "calls"))
            $0.add("(\(list.endedAfter)")
            $0.add("+inf")
        }
    }

    func calls(_ list: CallList, in reply: RedisReply) throws(StoreError) -> [CallID] {
        let places = try reply.values().compactMap { $0.text.flatMap(HistoryPlace.init) }
        return places.sorted(by: >).prefix(list.limit).map(\.callID)
    }

    func add(_ list: MessageList, to pipeline: inout RedisPipeline) {
        pipeline.command("ZRANGE", 3) {
            $0.add(key(list.user, "messages"))
            $0.add(0)
            $0.add(Int64(list.limit - 1))
        }
    }

    func messages(in reply: RedisReply) throws(StoreError) -> [RecordID] {
        try reply.values().compactMap { $0.text.flatMap { RecordID($0) } }
    }

    package func update(_ user: UserID, _ update: Request.UserUpdate) async throws(StoreError) -> UserProfile {
        let now = try await now()
        let key = key(user, "profile")
        var pipeline = try session.pipeline()
        pipeline.command("HSETNX", 3) {
            $0.add(key)
            $0.add("since")
            $0.add(now)
        }
        for (field, value) in [("n", update.name), ("a", update.avatarURL), ("x", update.extendedData)] {
            guard let value else { continue }
            pipeline.command(value.isEmpty ? "HDEL" : "HSET", value.isEmpty ? 2 : 3) {
                $0.add(key)
                $0.add(field)
                if !value.isEmpty { $0.add(value) }
            }
        }
        pipeline.command("HGETALL", 1) { $0.add(key) }
        let replies = try await session.run(pipeline, isWrite: true)
        return try profile(replies[replies.count - 1]) ?? UserProfile()
    }

    /// Reads a profile. The hash's fields are "since", "n" (name), "a" (the avatar's URL), "x" (extended data).
    func profile(_ reply: RedisReply) throws(StoreError) -> UserProfile? {
        let fields = try reply.pairs()
        guard !fields.isEmpty else { return nil }
        var profile = UserProfile()
        for (name, value) in fields {
            switch name.first {
            case UInt8(ascii: "n"): profile.name = value.text
            case UInt8(ascii: "a"): profile.avatarURL = value.text
            case UInt8(ascii: "x"): profile.extendedData = value.text
            default: continue
            }
        }
        return profile
    }

    /// Adds the query whether a block exists. A user's blocks are a set.
    func addMembership(of block: Block, to pipeline: inout RedisPipeline) {
        pipeline.command("SISMEMBER", 2) {
            $0.add(key(block.user, "blocked"))
            $0.add(block.blocked.string)
        }
    }

    package func set(_ block: Block, _ isBlocked: Bool) async throws(StoreError) -> Bool {
        var look = try session.pipeline()
        addMembership(of: block, to: &look)
        look.command("SCARD", 1) { $0.add(key(block.user, "blocked")) }
        let replies = try await session.run(look)
        let isNew = try (replies[0].number() == 1) != isBlocked
        // The earlier write may have reached no replica, so it is repeated where writes wait for replicas.
        guard isNew || waitsForReplicas else { return true }
        // Two blocks that are added at the same instant may exceed the bound by 1, without harm.
        if isNew, isBlocked, try replies[1].number() >= Limits.blockedUsers { return false }
        var pipeline = try session.pipeline()
        // The reverse entry exists for as long as the block, even when a coordinator dies in between.
        let lists = [(key(block.blocked, "blockedBy"), block.user), (key(block.user, "blocked"), block.blocked)]
        for (list, name) in isBlocked ? lists : lists.reversed() {
            pipeline.beginStage()
            pipeline.command(isBlocked ? "SADD" : "SREM", 2) {
                $0.add(list)
                $0.add(name.string)
            }
        }
        _ = try await session.run(pipeline, isWrite: true)
        return true
    }

    package func blockList(of user: UserID) async throws(StoreError) -> [UserID] {
        var pipeline = try session.pipeline()
        pipeline.command("SMEMBERS", 1) { $0.add(key(user, "blocked")) }
        return try await session.run(pipeline)[0].values().compactMap { $0.text.flatMap(UserID.init) }.sorted()
    }

    // MARK: Deleting a user

    /// Erases a user's data. Keys that lead to other keys go last, so that an interrupted deletion can begin again.
    package func erase(_ user: UserID) async throws(StoreError) {
        var reading = try session.pipeline()
        for list in ["calls", "messages"] {
            reading.command("ZRANGE", 3) {
                $0.add(key(user, list))
                $0.add(0)
                $0.add(-1)
            }
        }
        for list in ["blocked", "blockedBy"] { reading.command("SMEMBERS", 1) { $0.add(key(user, list)) } }
        addRegistrations(of: user, to: &reading)
        let replies = try await session.run(reading)
        let calls = try replies[0].values().compactMap { $0.text.flatMap(HistoryPlace.init)?.callID }
        let messages = try replies[1].values().compactMap { $0.text.flatMap { RecordID($0) } }
        try await erase(user, from: calls)
        var pipeline = try session.pipeline()
        for id in messages {
            pipeline.command("UNLINK", 1) { $0.add(key(id)) }
            pipeline.command("ZREM", 2) {
                $0.add(dueKey(id))
                $0.add(id.string)
            }
        }
        try addDisowning(replies[4], of: user, to: &pipeline)
        for (reply, list) in zip(replies[2...3], ["blockedBy", "blocked"]) {
            for other in try reply.values().compactMap({ $0.text.flatMap(UserID.init) }) {
                pipeline.command("SREM", 2) {
                    $0.add(key(other, list))
                    $0.add(user.string)
                }
            }
        }
        if !pipeline.commands.isEmpty { _ = try await session.run(pipeline, isWrite: true) }
        var last = try session.pipeline()
        let lists = [
            "profile", "presence", "invitations", "sent", "active", "calls", "messages", "blocked", "blockedBy",
            "registrations",
        ]
        for list in lists { last.command("UNLINK", 1) { $0.add(key(user, list)) } }
        let period = try await now() / historyRetention
        for number in [period - 1, period] {
            last.command("UNLINK", 1) { $0.add(key(StoredPeriod(of: user, number: number))) }
        }
        _ = try await session.run(last, isWrite: true)
    }

    /// Erases the timelines of calls, and the acks and reports of the user's devices.
    private func erase(_ user: UserID, from calls: [CallID]) async throws(StoreError) {
        guard !calls.isEmpty else { return }
        var reading = try session.pipeline()
        for call in calls { reading.command("HKEYS", 1) { $0.add(key(.call(call))) } }
        var pipeline = try session.pipeline()
        for (call, reply) in zip(calls, try await session.run(reading)) {
            for key in [traceKey(call), omittedKey(call)] { pipeline.command("UNLINK", 1) { $0.add(key) } }
            for field in try reply.values() where isField(field, of: user) {
                pipeline.command("HDEL", 2) {
                    $0.add(key(.call(call)))
                    $0.add(Array(field))
                }
            }
        }
        _ = try await session.run(pipeline, isWrite: true)
    }

    /// Whether a field beside a record belongs to the user. The field is a letter and names, of which the user is the
    /// last: no other name contains a slash.
    private func isField(_ field: RedisBytes, of user: UserID) -> Bool {
        let namesBefore: Int
        switch field.first {
        case UInt8(ascii: "h"): namesBefore = 0
        case UInt8(ascii: "a"), UInt8(ascii: "c"): namesBefore = 1
        case UInt8(ascii: "m"): namesBefore = 2
        case UInt8(ascii: "p"): namesBefore = 3
        default: return false
        }
        var rest = field.rest
        for _ in 0..<namesBefore where rest.part(before: UInt8(ascii: "/")) == nil { return false }
        return rest.elementsEqual(user.string.utf8)
    }

    // MARK: Timelines

    package func trace(_ traces: [CallTrace], life: Milliseconds) async throws(StoreError) {
        var pipeline = try session.pipeline()
        for trace in traces {
            pipeline.script(.trace, keys: 2, arguments: 2 + trace.entries.count) {
                $0.add(traceKey(trace.callID))
                $0.add(omittedKey(trace.callID))
                $0.add(Int64(Limits.traceEntries))
                $0.add(life)
                for entry in trace.entries { $0.add(entry.encoded()) }
            }
        }
        _ = try await session.run(pipeline)
    }

    package func timeline(of callID: CallID) async throws(StoreError) -> Timeline {
        var pipeline = try session.pipeline()
        pipeline.command("LRANGE", 3) {
            $0.add(traceKey(callID))
            $0.add(0)
            $0.add(-1)
        }
        pipeline.command("GET", 1) { $0.add(omittedKey(callID)) }
        let replies = try await session.run(pipeline)
        return Timeline(
            entries: try replies[0].values().compactMap { TraceEntry(Array($0)) }.inOrderOfTime(),
            omitted: try replies[1].value().flatMap(StoredNumber.time).map(Int.init) ?? 0)
    }
}
