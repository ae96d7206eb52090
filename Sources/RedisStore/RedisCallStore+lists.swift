import CallCore
import CallStore
import SignalingProtocol

/// Users' lists of calls, and the repair of entries whose commit never came (docs/decisions/0006).
extension RedisCallStore {
    private struct Entry {
        let user: UserID
        let place: HistoryPlace
        let score: String
    }

    /// Adds a call to a user's list. The entry holds the call's creation and id, and its score is the call's end; a
    /// live call has a score above every time. With `mustBeThere`, only the score of an existing entry changes.
    func addEntry(
        _ call: Call, of user: UserID, score: String, mustBeThere: Bool = false, to pipeline: inout RedisPipeline
    ) {
        pipeline.command("ZADD", mustBeThere ? 4 : 3) {
            $0.add(key(user, "calls"))
            if mustBeThere { $0.add("XX") }
            $0.add(score)
            $0.add(HistoryPlace(createdAt: call.createdAt, callID: call.callID).text)
        }
    }

    /// Takes back the list entries of commits that lost, except for users in the call that won.
    func takeBack(_ lost: [(commit: Commit, score: String)]) async throws(StoreError) {
        let entries = lost.flatMap { commit, score in
            guard case .call(let call) = commit.record else { return [Entry]() }
            let place = HistoryPlace(createdAt: call.createdAt, callID: call.callID)
            return commit.newMembers.map { Entry(user: $0, place: place, score: score) }
        }
        _ = try await mend(entries)
    }

    package func tidyCalls(of user: UserID) async throws(StoreError) -> Int {
        var look = try session.pipeline()
        look.command("ZRANGEBYSCORE", 7) {
            $0.add(key(user, "calls"))
            $0.add(LiveScore.base)
            $0.add("+inf")
            $0.add("WITHSCORES")
            $0.add("LIMIT")
            $0.add(0)
            $0.add(Int64(Bounds.entriesPerTidying))
        }
        let now = try await now()
        let pairs = try await session.run(look)[0].pairs()
        let settled = pairs.compactMap { name, score -> Entry? in
            guard let place = name.text.flatMap(HistoryPlace.init), let text = score.text, let number = Double(text),
                (LiveScore.writtenAt(number) ?? 0) + LiveScore.settledAfter < now
            else { return nil }
            return Entry(user: user, place: place, score: text)
        }
        return try await mend(settled)
    }

    /// Removes entries, or sets their score to the end of their call, unless the call is live with this user as a
    /// member, or the entry was written again since it was read. Returns the number of changed entries.
    private func mend(_ entries: [Entry]) async throws(StoreError) -> Int {
        guard !entries.isEmpty else { return 0 }
        let records = try await load(entries.map(\.place.callID))
        var pipeline = try session.pipeline()
        for (entry, stored) in zip(entries, records) {
            guard let score = score(due: entry, stored?.record) else { continue }
            pipeline.script(.mend, keys: 1, arguments: 3) {
                $0.add(key(entry.user, "calls"))
                $0.add(entry.place.text)
                $0.add(entry.score)
                $0.add(score)
            }
        }
        var mended = 0
        for reply in try await session.run(pipeline) { mended += Int(try reply.number()) }
        return mended
    }

    /// Returns the score that an entry should have, "" when the entry should go, or nil when the entry is right or its
    /// record is unreadable.
    private func score(due entry: Entry, _ record: Record?) -> String? {
        switch record {
        case .unreadable: return nil
        case .call(let call) where call.createdAt == entry.place.createdAt && call.participants.contains(entry.user):
            return call.endedAt.map { String($0) }
        case .call, .message, .alias, .cancelled, .void, nil: return ""
        }
    }
}
