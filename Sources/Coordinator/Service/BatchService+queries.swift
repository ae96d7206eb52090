import CallCore
import CallStore
import SignalingProtocol

/// The result of deciding.
enum DecidingOutcome<Value: ~Copyable>: ~Copyable {
    case decided(Value)
    /// The decision needs more queries than the batch allows.
    case postponed
    /// The decision's queries came to no end. The store works all the same, and other requests are served.
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
        context.failed(StoreError(.unsettled, "the queries of a decision came to no end"))
        return .unsettled
    }

    private func answer(
        _ undecided: Undecided, besides works: [CallWork], _ facts: inout Facts
    ) async throws(StoreError) {
        switch undecided {
        case .needs(var lookup):
            if !lookup.calls.isEmpty {
                let users = lookup.calls.map(\.user)
                let calls = try await liveCalls(
                    of: users, limit: ServiceBounds.callsPerBusyCheck)
                for (user, calls) in zip(users, calls) { facts.liveCalls[user] = calls }
            }
            lookup.calls = []
            guard !lookup.isEmpty else { return }
            let findings = try await store.read(lookup)
            for (id, record) in zip(lookup.records, findings.records) { facts.records[id] = .some(record) }
            facts.learn(lookup, findings, self)
        case .target(let callID): facts.targets[callID] = .some(try await store.load([callID])[0])
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

    /// Whether other queued requests of this coordinator are about to write the claim's holder. Their commit would lose
    /// against a fence, and a moment later no fence may be needed. The decision waits once for these requests, for some
    /// milliseconds.
    private func isUnderWay(_ claim: Claim, besides works: [CallWork], _ facts: Facts) -> Bool {
        guard facts.looks[claim] == nil, case .some(.some(let holder)) = facts.holders[claim] else { return false }
        return context.isUnderWay(.call(holder.callID)) && !works.contains { $0.id == holder.callID }
    }

    /// Writes a new version of the holder of a claim, so that a writer that is about to make the holder deserve the
    /// claim loses its commit.
    private func fence(_ claim: Claim, _ facts: inout Facts) async throws(StoreError) {
        guard case .some(.some(let holder)) = facts.holders[claim] else { return }
        let stored = facts.records[.call(holder.callID)] ?? nil
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
        if case .some(.some(let holder)) = facts.holders[claim] { facts.records[.call(holder.callID)] = nil }
        facts.holders[claim] = nil
    }
}

extension Facts {
    /// Adds the answers to these queries.
    mutating func learn(_ lookup: Lookup, _ findings: Findings, _ service: BatchService) {
        for (user, devices) in zip(lookup.presence, findings.presence) { presence[user] = devices }
        for (claim, holder) in zip(lookup.claims, findings.holders) { holders[claim] = .some(holder) }
        for (user, profile) in zip(lookup.profiles, findings.profiles) { profiles[user] = .some(profile) }
        for (block, isBlocked) in zip(lookup.blocks, findings.isBlocked) { blocks[block] = isBlocked }
        for (count, number) in zip(lookup.outstanding, findings.outstanding) {
            switch count.kind {
            case .invitations: liveInvitations[count.user] = number
            case .messages: waitingMessages[count.user] = number.count
            }
        }
        for (user, isRegistered) in zip(lookup.registered, findings.isRegistered) {
            registered[user] = isRegistered
        }
        for (list, messages) in zip(lookup.messages, findings.messages) { inboxes[list.user] = messages.count }
        for (user, bytes) in KeptBytes(service.settings, now: service.now).sums(lookup, findings) {
            // The sum includes the bytes that this coordinator has counted and not written yet.
            storedBytes[user] = bytes + service.context.usage.waiting(of: user)
        }
    }
}
