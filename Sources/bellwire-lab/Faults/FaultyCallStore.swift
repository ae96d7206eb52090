import CallCore
import CallStore
import SignalingProtocol

/// A store that is broken on purpose, to show that the consistency test notices (`scripts/chaos --self-test`).
final class FaultyCallStore: ForwardingStore {
    enum Fault: String, CaseIterable, Sendable {
        /// The last writer wins: a commit with a conflict is written all the same.
        case noCompareAndSet = "no-compare-and-set"
        /// No event is sent a second time.
        case noResend = "no-resend"
        /// No invitation ever expires: every commit of an expiry fails.
        case lostTimer = "lost-timer"
    }

    let store: any CallStore
    private let fault: Fault

    init(_ store: any CallStore, fault: Fault) {
        self.store = store
        self.fault = fault
    }

    func write(
        _ commits: [Commit], _ notes: [Note], thenRead queries: [Query]
    ) async throws(StoreError) -> Written {
        let outcomes = try await commits.isEmpty ? [] : commit(commits)
        var written = try await store.write([], notes, thenRead: queries)
        written.outcomes = outcomes
        return written
    }

    private func commit(_ commits: [Commit]) async throws(StoreError) -> [CommitOutcome] {
        switch fault {
        case .noCompareAndSet: try await commitBlindly(commits)
        case .noResend: try await store.commit(commits.map(withoutResends))
        case .lostTimer: try await commitWithoutExpiries(commits)
        }
    }

    private func commitBlindly(_ commits: [Commit]) async throws(StoreError) -> [CommitOutcome] {
        var outcomes = try await store.commit(commits)
        for index in commits.indices where outcomes[index] == .conflict {
            let current = try await store.load([commits[index].id])[0]
            let blind = commits[index].copy(record: commits[index].record, expected: current?.version ?? 0)
            outcomes[index] = try await store.commit([blind])[0]
        }
        return outcomes
    }

    private func withoutResends(_ commit: Commit) -> Commit {
        guard case .call(let call) = commit.record else { return commit }
        var machine = CallMachine(call: call, settings: CallSettings())
        machine.delivered(at: call.deliveryServedAt, next: nil)
        return commit.copy(record: .call(machine.call), expected: commit.expected)
    }

    private func commitWithoutExpiries(_ commits: [Commit]) async throws(StoreError) -> [CommitOutcome] {
        let open = commits.indices.filter { !commits[$0].hasExpiredInvitation }
        var outcomes = [CommitOutcome](repeating: .conflict, count: commits.count)
        for (index, outcome) in zip(open, try await store.commit(open.map { commits[$0] })) {
            outcomes[index] = outcome
        }
        return outcomes
    }

    var summary: String { "\(store.summary), \(fault.rawValue)" }
}

extension Commit {
    fileprivate func copy(record: Record, expected: Int64) -> Commit {
        var copy = Commit(
            id, record: record, expected: expected, deadline: deadline, expiresAt: expiresAt)
        copy.notes = notes
        copy.expectedHolders = expectedHolders
        copy.claims = claims
        copy.releases = releases
        copy.newMembers = newMembers
        copy.formerMembers = formerMembers
        copy.asked = asked
        copy.settled = settled
        copy.hasJustEnded = hasJustEnded
        copy.liveChange = liveChange
        copy.outboxEntries = outboxEntries
        copy.pushes = pushes
        return copy
    }

    fileprivate var hasExpiredInvitation: Bool {
        guard case .call(let call) = record else { return false }
        return call.members.contains { $0.state == .timeout }
    }
}
