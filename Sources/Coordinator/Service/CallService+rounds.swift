import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Rounds: look at the calls, decide, commit, and only then publish. Whoever loses against another coordinator looks
/// again.
extension CallService {
    /// Works through each call's events until its decision is committed. Returns those of which it was not. `senders`: the
    /// devices whose messages these are.
    @discardableResult
    func serve(_ works: [CallWork], of senders: [DeviceAddress] = []) -> [CallWork] {
        var open = works
        do throws(StoreError) {
            try attempt(parts(of: works, senders), &open)
            for _ in 1..<ServiceBounds.commitAttempts where !open.isEmpty {
                // What is judged again is judged as of now.
                now = try store.now()
                try attempt([Part(works: open, senders: open.senders)], &open)
            }
        } catch {
            failed(error)
        }
        // What is left lost every race, or the store is away: the devices send again.
        for work in open { answerUnavailable(work) }
        return open
    }

    /// Calls that are looked at and written together.
    struct Part {
        let works: [CallWork]
        var senders: [DeviceAddress]
    }

    /// More than one where the store works while this coordinator does: then one part is decided while the next one is
    /// looked at and the one before is written.
    private func parts(of works: [CallWork], _ senders: [DeviceAddress]) -> [Part] {
        guard store.worksMeanwhile, works.count >= 2 * ServiceBounds.worksPerPart else {
            return works.isEmpty && senders.isEmpty ? [] : [Part(works: works, senders: senders)]
        }
        let size = max(ServiceBounds.worksPerPart, (works.count + 2) / 3)
        var parts = stride(from: 0, to: works.count, by: size).map { start in
            let part = Array(works[start..<min(start + size, works.count)])
            return Part(works: part, senders: part.senders)
        }
        // Who sent nothing that could be used is alive as well.
        let known = Set(parts.flatMap(\.senders))
        parts[0].senders += senders.filter { !known.contains($0) }
        return parts
    }

    /// One round over all calls. `open`: what is left, the works that lost against somebody else; when it throws, also those
    /// of the parts that were not published.
    private func attempt(_ parts: [Part], _ open: inout [CallWork]) throws(StoreError) {
        var lost: [CallWork] = []
        var published = 0
        var written: [Judged] = []
        defer {
            open = lost + parts[published...].flatMap(\.works)
            // Of what was not published nobody knows whether it was written. A request that comes again and was, takes nothing.
            for judged in written[published...] { judged.decisions.forEach { budgets.giveBack($0, now: now) } }
        }
        var looks: [Look] = []
        for part in parts { looks.append(try begin(part)) }
        for (index, part) in parts.enumerated() {
            let (facts, records) = try finish(looks[index], part)
            written.append(try judge(part, records, facts))
            guard index > 0 else { continue }
            lost += try publish(parts[published], written[published])
            published += 1
        }
        guard published < parts.count else { return }
        lost += try publish(parts[published], written[published])
        published += 1
    }

    /// What is decided about a part, and on its way to the store.
    private struct Judged {
        var decisions: [Decision]
        var isLost: [Bool]
        var commits: [Commit?]
        /// Whose devices are looked at after the commits.
        var told: [UserID]
        var written: Pending<Written>?
    }

    private func judge(_ part: Part, _ stored: [StoredRecord?], _ facts: Facts) throws(StoreError) -> Judged {
        var deciding = Deciding(facts, settings, budgets)
        var decisions: [Decision] = []
        decisions.reserveCapacity(part.works.count)
        do throws(StoreError) {
            for (work, stored) in zip(part.works, stored) { decisions.append(try decide(work, stored, &deciding)) }
            return try write(decisions, of: part)
        } catch {
            decisions.forEach { budgets.giveBack($0, now: now) }
            throw error
        }
    }

    private func write(_ decisions: [Decision], of part: Part) throws(StoreError) -> Judged {
        let first = decisions.indices.filter { !decisions[$0].firstNotes.isEmpty }
        if !first.isEmpty { try store.note(first.flatMap { decisions[$0].firstNotes }) }
        let writing = Writing(settings: settings, now: now)
        // The alias of a merge comes first: a cancel of the inviter's own id finds it, or is found by it.
        let isLost = try writeAliases(
            decisions.indices.map { index in
                decisions[index].subject.alias == nil ? nil : writing.aliasCommit(of: decisions[index])
            })
        let commits = decisions.indices.map { index in
            isLost[index] ? nil : writing.commit(of: decisions[index], callID: part.works[index].id)
        }
        let notes = decisions.indices.filter { !isLost[$0] && commits[$0] == nil }.flatMap {
            decisions[$0].subject.notes
        }
        // Presence is read after the commit: a device that comes online reads its calls after writing presence, so that
        // one of the two sees the other.
        let told = decisions.indices.filter { !isLost[$0] }.flatMap { decisions[$0].told }.unique
        var judged = Judged(decisions: decisions, isLost: isLost, commits: commits, told: told)
        let writes = dated(commits.compactMap(\.self))
        if !writes.isEmpty || !notes.isEmpty || !told.isEmpty {
            judged.written = try store.begin(writes, notes, thenRead: Lookup(presence: told))
        }
        return judged
    }

    /// Of each decision: whether its alias lost against somebody else.
    private func writeAliases(_ aliases: [Commit?]) throws(StoreError) -> [Bool] {
        var isLost = [Bool](repeating: false, count: aliases.count)
        let places = aliases.indices.filter { aliases[$0] != nil }
        guard !places.isEmpty else { return isLost }
        for (place, isWritten) in zip(places, try commit(aliases.compactMap(\.self))) { isLost[place] = !isWritten }
        return isLost
    }

    /// Tells what was written. Returns the works that lost against somebody else.
    private func publish(_ part: Part, _ judged: Judged) throws(StoreError) -> [CallWork] {
        var isLost = judged.isLost
        // Nil when it is not known: the events are left to the resends.
        var presence: Presence? = [:]
        if let written = try judged.written?.value() {
            let places = judged.commits.indices.filter { judged.commits[$0] != nil }
            for (place, isWritten) in zip(places, try judge(written.outcomes)) { isLost[place] = !isWritten }
            presence = written.findings.map { Presence(uniqueKeysWithValues: zip(judged.told, $0.presence)) }
        }
        storeAnswered(isWrite: judged.commits.contains { $0 != nil })
        for index in part.works.indices {
            guard !isLost[index] else {
                budgets.giveBack(judged.decisions[index], now: now)
                continue
            }
            if let commit = judged.commits[index] { committed(judged.decisions[index], commit) }
            publish(judged.decisions[index], of: part.works[index].id, presence)
        }
        return part.works.indices.filter { isLost[$0] }.map { part.works[$0] }
    }

    /// Of each: whether it was written.
    func commit(_ commits: [Commit]) throws(StoreError) -> [Bool] { try judge(try store.commit(dated(commits))) }

    /// With how long the decisions count.
    private func dated(_ commits: [Commit]) -> [Commit] {
        commits.map { commit in
            var commit = commit
            commit.validity = (now - ServiceBounds.clockDifference)...(now + ServiceBounds.decisionLife)
            return commit
        }
    }

    /// Throws when the decisions were made so long ago that they no longer count: this process stood still, and a call
    /// must not begin, or change, as of a time that is past.
    private func judge(_ outcomes: [CommitOutcome]) throws(StoreError) -> [Bool] {
        if outcomes.contains(.stale) { throw StoreError("this process stood still for too long") }
        return outcomes.map { outcome in
            guard case .committed = outcome else {
                counters.add(.conflicts)
                return false
            }
            counters.add(.commits)
            return true
        }
    }

    private func committed(_ decision: Decision, _ commit: Commit) {
        guard let call = decision.call else { return }
        timers.set(commit.id, at: commit.deadline)
        countStored(call, before: decision.subject.before)
        if decision.subject.before == nil { counters.add(.callsCreated) }
        if !call.isLive, decision.subject.before?.isLive ?? true {
            counters.add(.callsEnded, call.endReason?.rawValue ?? "")
        }
    }
}

extension [CallWork] {
    /// Whose messages these are.
    fileprivate var senders: [DeviceAddress] { flatMap { $0.events.compactMap(\.sender) }.unique }
}
