import CallCore
import CallStore
import SignalingProtocol

/// Writes the decisions of a batch together, the aliases of glare merges first.
extension BatchService {
    /// Writes the decisions. Returns the presence of the users who get messages, as read after the commits, or nil when
    /// presence could not be read: the resends then deliver the events.
    func commit(_ decisions: [Decided]) async throws(StoreError) -> Presence? {
        var first: [Note] = []
        for decided in decisions { first += decided.decision.firstNotes }
        if !first.isEmpty { try await store.note(first) }
        let writing = try await self.writing()
        // The alias of a glare merge is written first: an early cancel of the inviter's own call id then either finds
        // the alias or is found by this commit.
        try await writeAliases(of: decisions, writing)
        var changed: [Decided] = []
        var commits: [Commit] = []
        var notes: [Note] = []
        var told: [UserID] = []
        for decided in decisions where !decided.isLost {
            if let commit = writing.commit(of: decided.decision, callID: decided.work.id) {
                decided.written = (commit.id, commit.deadline, commit.outboxEntries?.approximateBytes ?? 0)
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
            let written = try await store.write(commits, notes, thenRead: told.map(Query.devices))
            for (decided, isWritten) in zip(changed, try check(written.outcomes, of: commits)) {
                decided.isLost = !isWritten
            }
            presence = written.answers.map { Presence(uniqueKeysWithValues: zip(told, $0.map(\.devices))) }
        }
        context.health.answered(isWrite: !commits.isEmpty)
        for (user, devices) in presence ?? [:] { learn(devices, of: user) }
        return presence
    }

    /// Returns the rules for the writes of this batch's decisions.
    func writing() async throws(StoreError) -> Writing {
        let endpoints = try await context.endpoints()
        return Writing(settings: settings, now: now, endpoints: endpoints, isForReplicas: store.waitsForReplicas)
    }

    private func writeAliases(of decisions: [Decided], _ writing: Writing) async throws(StoreError) {
        let merged = decisions.filter { $0.decision.subject.alias != nil }
        guard !merged.isEmpty else { return }
        var commits: [Commit] = []
        var aliased: [Decided] = []
        for decided in merged {
            guard let commit = writing.aliasCommit(of: decided.decision) else { continue }
            commits.append(commit)
            aliased.append(decided)
        }
        guard !commits.isEmpty else { return }
        for (decided, isWritten) in zip(aliased, try await write(commits)) { decided.isLost = !isWritten }
    }

    /// Writes the commits. Returns whether each commit was written.
    func write(_ commits: [Commit]) async throws(StoreError) -> [Bool] {
        try check(try await store.commit(commits), of: commits)
    }

    /// Returns whether each commit was written. Throws when the store refused a decision as too old: this process stood
    /// still, and a call must not begin or change at a time that has passed.
    private func check(_ outcomes: [CommitOutcome], of commits: [Commit]) throws(StoreError) -> [Bool] {
        var withEntries: [RecordID] = []
        var withRooms: [RecordID] = []
        var pushed: [CallID] = []
        for place in commits.indices where !outcomes[place].isLost {
            if let entries = commits[place].outboxEntries {
                if entries.areForWebhooks { withEntries.append(commits[place].id) }
                if entries.areForRooms { withRooms.append(commits[place].id) }
            }
            if commits[place].pushes, let callID = commits[place].id.callID { pushed.append(callID) }
        }
        if !withEntries.isEmpty { context.onOutboxEntries(withEntries) }
        if !withRooms.isEmpty { context.onRooms(withRooms) }
        if !pushed.isEmpty { context.onPushes(pushed) }
        if outcomes.contains(.stale) { throw StoreError(.unsettled, "this process was frozen, or its clock is wrong") }
        return outcomes.map { outcome in
            guard case .committed = outcome else {
                context.counters.add(.conflicts)
                return false
            }
            context.counters.add(.commits)
            return true
        }
    }
}
