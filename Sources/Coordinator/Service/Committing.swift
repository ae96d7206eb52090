import CallCore
import CallStore
import SignalingProtocol

/// Writes the decisions of a batch together, the aliases of glare merges first.
struct Committing {
    let serving: Serving

    private var store: any RecordStore { serving.store }

    /// Writes the decisions. Returns the presence of the told users, as read after the commits, or nil when presence
    /// could not be read: the resends then deliver the events.
    func write(_ round: [Decided]) async throws(StoreError) -> Presence? {
        var first: [Note] = []
        for decided in round { first += decided.decision.firstNotes }
        if !first.isEmpty { try await store.note(first) }
        let writing = Writing(
            settings: serving.settings, now: serving.now, endpoints: try await serving.context.endpoints())
        // The alias of a glare merge is written first: an early cancel of the inviter's own call id then either finds
        // the alias or is found by this commit.
        try await writeAliases(of: round, writing)
        var changed: [Decided] = []
        var commits: [Commit] = []
        var notes: [Note] = []
        var told: [UserID] = []
        for decided in round where !decided.isLost {
            if let commit = writing.commit(of: decided.decision, callID: decided.work.id) {
                decided.written = (commit.id, commit.deadline, commit.owed?.approximateBytes ?? 0)
                changed.append(decided)
                commits.append(commit)
            } else {
                notes += decided.decision.subject.notes
            }
            told += decided.decision.told
        }
        // Presence is read after the commit. A device that comes online writes its presence before reading its calls,
        // so that at least the device or the coordinator sees the other side's write.
        told = told.unique
        var presence: Presence? = [:]
        if !commits.isEmpty || !notes.isEmpty || !told.isEmpty {
            let written = try await store.write(commits, notes, thenRead: Lookup(presence: told))
            for (decided, isWritten) in zip(changed, try judge(written.outcomes, of: commits)) {
                decided.isLost = !isWritten
            }
            presence = written.findings.map { Presence(uniqueKeysWithValues: zip(told, $0.presence)) }
        }
        serving.context.health.answered(isWrite: !commits.isEmpty)
        return presence
    }

    private func writeAliases(of round: [Decided], _ writing: Writing) async throws(StoreError) {
        let merged = round.filter { $0.decision.subject.alias != nil }
        guard !merged.isEmpty else { return }
        var commits: [Commit] = []
        var aliased: [Decided] = []
        for decided in merged {
            guard let commit = writing.aliasCommit(of: decided.decision) else { continue }
            commits.append(commit)
            aliased.append(decided)
        }
        guard !commits.isEmpty else { return }
        for (decided, isWritten) in zip(aliased, try await commit(commits)) { decided.isLost = !isWritten }
    }

    /// Writes the commits. Returns whether each commit was written.
    func commit(_ commits: [Commit]) async throws(StoreError) -> [Bool] {
        try judge(try await store.commit(commits), of: commits)
    }

    /// Returns whether each commit was written. Throws when the store refused a decision as too old: this process stood
    /// still, and a call must not begin or change at a time that has passed.
    private func judge(_ outcomes: [CommitOutcome], of commits: [Commit]) throws(StoreError) -> [Bool] {
        var owed: [RecordID] = []
        var pushed: [CallID] = []
        for place in commits.indices where !outcomes[place].isLost {
            if commits[place].owed != nil { owed.append(commits[place].id) }
            if commits[place].pushes, let callID = commits[place].id.callID { pushed.append(callID) }
        }
        if !owed.isEmpty { serving.context.owes(owed) }
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
