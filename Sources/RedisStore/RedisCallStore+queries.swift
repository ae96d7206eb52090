import CallCore
import CallStore
import SignalingProtocol

/// The answers to queries. Each query is a single command.
extension RedisCallStore {
    package func read(_ queries: [Query]) async throws(StoreError) -> [QueryAnswer] {
        guard !queries.isEmpty else { return [] }
        var pipeline = try session.pipeline()
        add(queries, to: &pipeline)
        return try answers(to: queries, in: try await session.run(pipeline)[...])
    }

    func add(_ queries: [Query], to pipeline: inout RedisPipeline) {
        for query in queries { add(query, to: &pipeline) }
    }

    /// Returns the answers in the replies to the commands of `add`.
    func answers(to queries: [Query], in replies: ArraySlice<RedisReply>) throws(StoreError) -> [QueryAnswer] {
        var answers: [QueryAnswer] = []
        answers.reserveCapacity(queries.count)
        for (query, reply) in zip(queries, replies) { answers.append(try answer(query, reply)) }
        return answers
    }

    private func add(_ query: Query, to pipeline: inout RedisPipeline) {
        switch query {
        case .record(let id): pipeline.command("HGETALL", 1) { $0.add(key(id)) }
        case .devices(let user): pipeline.command("HGETALL", 1) { $0.add(key(user, "presence")) }
        case .holder(let claim): pipeline.command("GET", 1) { $0.add(key(claim)) }
        case .profile(let user): pipeline.command("HGETALL", 1) { $0.add(key(user, "profile")) }
        case .block(let block): addMembership(of: block, to: &pipeline)
        case .calls(let list): add(list, to: &pipeline)
        case .messages(let list): add(list, to: &pipeline)
        case .outstanding(let count): add(count, to: &pipeline)
        case .storedBytes(let stored): add(stored, to: &pipeline)
        case .registration(let user): addRegistered(user, to: &pipeline)
        }
    }

    private func answer(_ query: Query, _ reply: RedisReply) throws(StoreError) -> QueryAnswer {
        switch query {
        case .record(let id): .record(stored(id, try reply.pairs()))
        case .devices(let user): .devices(sightings.marked(try devices(of: user, reply)))
        case .holder: .holder(try reply.value().flatMap(holder))
        case .profile: .profile(try profile(reply))
        case .block: .block(try reply.number() == 1)
        case .calls(let list): .calls(try calls(list, in: reply))
        case .messages: .messages(try messages(in: reply))
        case .outstanding(let count): .outstanding(try number(of: count, in: reply))
        case .storedBytes: .storedBytes(try storedBytes(in: reply))
        case .registration: .registration(try reply.number() == 1)
        }
    }
}
