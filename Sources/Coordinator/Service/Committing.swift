import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Writes what is decided: all of one round together, the aliases of merges first.
struct Committing {
    let serving: Serving

    private var store: any RecordStore { serving.store }

    /// What became of decisions.
    struct Outcome {
        /// Those that lost against somebody else.
        var isLost: [Bool]
        /// What was written of each.
        var commits: [Commit?]
        /// Of those who are told, as it was after the commits. Nil when it is not known: the events are left to the resends.
        var presence: Presence?
    }

    func write(_ decisions: [Decision], of works: [CallWork]) async throws(StoreError) -> Outcome {
        let first = decisions.flatMap(\.firstNotes)
        if !first.isEmpty { try await store.note(first) }
        let writing = Writing(
            settings: serving.settings, now: serving.now, endpoints: try await serving.context.endpoints())
        // The alias of a merge comes first: a cancel of the inviter's own id finds it, or is found by it.
        var isLost = try await writeAliases(
            decisions.map { decision in decision.subject.alias == nil ? nil : writing.aliasCommit(of: decision) })
        let commits = decisions.indices.map { index in
            isLost[index] ? nil : writing.commit(of: decisions[index], callID: works[index].id)
        }
        let notes = decisions.indices.filter { !isLost[$0] && commits[$0] == nil }.flatMap {
            decisions[$0].subject.notes
        }
        // Presence is read after the commit: a device that comes online reads its calls after writing presence, so that
        // one of the two sees the other.
        let told = decisions.indices.filter { !isLost[$0] }.flatMap { decisions[$0].told }.unique
        let writes = dated(commits.compactMap(\.self))
        var presence: Presence? = [:]
        if !writes.isEmpty || !notes.isEmpty || !told.isEmpty {
            let written = try await store.write(writes, notes, thenRead: Lookup(presence: told))
            let places = commits.indices.filter { commits[$0] != nil }
            for (place, isWritten) in zip(places, try judge(written.outcomes, of: writes)) {
                isLost[place] = !isWritten
            }
            presence = written.findings.map { Presence(uniqueKeysWithValues: zip(told, $0.presence)) }
        }
        serving.context.health.answered(isWrite: !writes.isEmpty)
        return Outcome(isLost: isLost, commits: commits, presence: presence)
    }

    /// Of each decision: whether its alias lost against somebody else.
    private func writeAliases(_ aliases: [Commit?]) async throws(StoreError) -> [Bool] {
        var isLost = [Bool](repeating: false, count: aliases.count)
        let places = aliases.indices.filter { aliases[$0] != nil }
        guard !places.isEmpty else { return isLost }
        for (place, isWritten) in zip(places, try await commit(aliases.compactMap(\.self))) {
            isLost[place] = !isWritten
        }
        return isLost
    }

    /// Of each: whether it was written.
    func commit(_ commits: [Commit]) async throws(StoreError) -> [Bool] {
        try judge(try await store.commit(dated(commits)), of: commits)
    }

    /// With how long the decisions count.
    private func dated(_ commits: [Commit]) -> [Commit] {
        let validity = (serving.now - ServiceBounds.clockDifference)...(serving.now + ServiceBounds.decisionLife)
        return commits.map { commit in
            var commit = commit
            commit.validity = validity
            return commit
        }
    }

    /// Throws when the decisions were made so long ago that they no longer count: this process stood still, and a call
    /// must not begin, or change, as of a time that is past.
    private func judge(_ outcomes: [CommitOutcome], of commits: [Commit]) throws(StoreError) -> [Bool] {
        let owed = zip(commits, outcomes).filter { $0.owed != nil && !$1.isLost }.map(\.0.id)
        if !owed.isEmpty { serving.context.owes(owed) }
        let pushed = zip(commits, outcomes).compactMap { $0.pushes && !$1.isLost ? $0.id.callID : nil }
        if !pushed.isEmpty { serving.context.owesPushes(pushed) }
        if outcomes.contains(.stale) { throw StoreError(.unsettled, "this process stood still for too long") }
        return outcomes.map { outcome in
            guard case .committed = outcome else {
                serving.context.counters.add(.conflicts)
                return false
            }
            serving.context.counters.add(.commits)
            return true
        }
    }
}
