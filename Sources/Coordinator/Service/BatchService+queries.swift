import CallCore
import CallStore
import SignalingProtocol

/// The result of deciding.
enum DecidingOutcome<Value: ~Copyable>: ~Copyable {
    case decided(Value)
    /// The decision needs more queries than the batch allows.
    case postponed
    /// The decision had more queries than allowed (`ServiceBounds.queriesPerDecision`). The store works, and other
    /// requests are served.
    case unsettled
}

/// Decides, and answers the queries of a decision that the gathered facts do not answer. The decision then starts again
/// with the additional facts.
extension BatchService {
    /// Decides, and answers queries until the decision has no more. `works` are the other calls of the batch;
    /// `queriesLeft` is the number of queries that are still allowed, since the other calls of the batch wait for these
    /// queries.
    func decide<Value: ~Copyable>(
        _ deciding: inout Deciding, besides works: [CallWork], _ queriesLeft: inout Int,
        _ decide: (Deciding) throws(Undecided) -> Value
    ) async throws(StoreError) -> DecidingOutcome<Value> {
        for _ in 0..<ServiceBounds.queriesPerDecision {
            let undecided: Undecided
            do throws(Undecided) {
                return .decided(try decide(deciding))
            } catch {
                undecided = error
            }
            guard queriesLeft > 0 else { return .postponed }
            queriesLeft -= 1
            context.counters.add(.lookups)
            do throws(StoreError) {
                try await answer(undecided, besides: works, &deciding.facts)
            } catch  where error.code == .unsettled {
                context.failed(error)
                return .unsettled
            }
        }
        context.failed(StoreError(.unsettled, "a decision had more queries than allowed"))
        return .unsettled
    }

    private func answer(
        _ undecided: Undecided, besides works: [CallWork], _ facts: inout Facts
    ) async throws(StoreError) {
        switch undecided {
        case .needs(let queries): try await answer(queries, &facts)
        case .target(let callID): facts.learn(target: callID, try await store.load([callID])[0])
        case .timeline(let callID):
            facts.timelines[callID] = try await Timelines(context: context).timeline(of: callID)
        case .wait(let claim):
            await context.pause()
            try lookAgain(at: claim, &facts)
        case .fence(let claim):
            guard isUnderWay(claim, besides: works, facts) else { return try await fence(claim, &facts) }
            await context.pause()
            try lookAgain(at: claim, &facts)
        }
    }

    private func answer(_ queries: [Query], _ facts: inout Facts) async throws(StoreError) {
        let lists = queries.compactMap { if case .calls(let list) = $0 { list } else { nil } }
        if !lists.isEmpty {
            let calls = try await liveCalls(of: lists.map(\.user), limit: ServiceBounds.callsPerBusyCheck)
            for (list, calls) in zip(lists, calls) { facts.learn(.calls(list), .calls(calls)) }
        }
        let others = lists.isEmpty ? queries : queries.filter { if case .calls = $0 { false } else { true } }
        guard !others.isEmpty else { return }
        learn(others, try await store.read(others)[...], &facts)
    }

    /// Adds the answers to these queries to the facts.
    func learn(_ queries: [Query], _ answers: ArraySlice<QueryAnswer>, _ facts: inout Facts) {
        for (query, answer) in zip(queries, answers) {
            facts.learn(query, answer)
            if case .devices(let user) = query { learn(answer.devices, of: user) }
            // The answer lacks the bytes that this coordinator has counted and not written yet.
            if case .storedBytes(let periods) = query {
                facts.unwrittenBytes[periods.user] = context.usage.waiting(of: periods.user)
            }
        }
    }

    /// Whether other queued requests of this coordinator are about to write the claim's holder. Their commit would lose
    /// against a fence, and a moment later no fence may be needed. The decision waits once for these requests, for some
    /// milliseconds.
    private func isUnderWay(_ claim: Claim, besides works: [CallWork], _ facts: Facts) -> Bool {
        guard facts.looks[claim] == nil, let (holder, _) = facts.knownHolder(of: claim) else { return false }
        return context.isUnderWay(.call(holder.callID)) && !works.contains { $0.id == holder.callID }
    }

    /// Writes a new version of the holder of a claim, so that a writer that is about to make the holder deserve the
    /// claim loses its commit.
    private func fence(_ claim: Claim, _ facts: inout Facts) async throws(StoreError) {
        guard let (holder, stored) = facts.knownHolder(of: claim) else { return }
        let writing = Writing(settings: settings, now: now, endpoints: [])
        guard let fence = writing.fence(holder.callID, stored),
            try await !write([fence])[0]
        else {
            facts.fenced.insert(holder)
            return
        }
        try lookAgain(at: claim, &facts)
    }

    private func lookAgain(at claim: Claim, _ facts: inout Facts) throws(StoreError) {
        facts.looks[claim, default: 0] += 1
        guard facts.looks[claim, default: 0] < ServiceBounds.commitAttempts else {
            throw StoreError(.unsettled, "the holder of a claim keeps changing")
        }
        facts.forgetHolder(of: claim)
    }
}
