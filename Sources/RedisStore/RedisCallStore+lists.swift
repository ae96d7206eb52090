import CallCore
import CallStore
import SignalingProtocol

/// Users' lists of calls, and what is done about entries whose commit never came (docs/decisions/0006).
extension RedisCallStore {
    private struct Entry {
        let user: UserID
        let place: HistoryPlace
        let score: String
    }

    /// A user's calls: each with its creation and id, by its end; one that lives stands behind every moment.
    /// `mustBeThere`: it is only given another score.
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

    /// Takes back what commits have entered that then lost: of those users who are not in the call that won.
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

    /// Removes entries, or gives them the end of their call, unless the call lives and the user is in it; and unless somebody has
    /// entered them anew since they were seen. Returns how many.
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

    /// The score that an entry should have, "" for none; nil when it is right, or when nobody can tell.
    private func score(due entry: Entry, _ record: Record?) -> String? {
        switch record {
        case .unreadable: return nil
        case .call(let call) where call.createdAt == entry.place.createdAt && call.participants.contains(entry.user):
            return call.endedAt.map { String($0) }
        case .call, .message, .alias, .cancelled, .void, nil: return ""
        }
    }
}
