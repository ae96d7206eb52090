#if BELLWIRE_FAULTS
    import CallCore
    import SignalingProtocol

    /// A store that is broken on purpose, to show that the consistency test notices. Only in builds made with
    /// `-Xswiftc -DBELLWIRE_FAULTS`; see `scripts/chaos --self-test`.
    public final class FaultyCallStore: CallStore {
        public enum Fault: String, CaseIterable, Sendable {
            /// The last writer wins: a commit that lost is written all the same.
            case noCompareAndSet = "no-compare-and-set"
            /// Nothing is sent a second time.
            case noResend = "no-resend"
            /// No invitation ever expires: the commit that says so never gets through.
            case lostTimer = "lost-timer"
        }

        private let store: any CallStore
        private let fault: Fault

        public init(_ store: any CallStore, fault: Fault) {
            self.store = store
            self.fault = fault
        }

        public func write(
            _ commits: [Commit], _ notes: [Note], thenRead lookup: Lookup
        ) throws(StoreError) -> Written {
            let outcomes = try commits.isEmpty ? [] : commit(commits)
            var written = try store.write([], notes, thenRead: lookup)
            written.outcomes = outcomes
            return written
        }

        private func commit(_ commits: [Commit]) throws(StoreError) -> [CommitOutcome] {
            switch fault {
            case .noCompareAndSet: try commitBlindly(commits)
            case .noResend: try store.commit(commits.map(withoutResends))
            case .lostTimer: try commitWithoutExpiries(commits)
            }
        }

        private func commitBlindly(_ commits: [Commit]) throws(StoreError) -> [CommitOutcome] {
            var outcomes = try store.commit(commits)
            for index in commits.indices where outcomes[index] == .conflict {
                let current = try store.load([commits[index].id])[0]
                let blind = commits[index].copy(record: commits[index].record, expected: current?.version ?? 0)
                outcomes[index] = try store.commit([blind])[0]
            }
            return outcomes
        }

        private func withoutResends(_ commit: Commit) -> Commit {
            guard case .call(var call) = commit.record else { return commit }
            call.deliveryDue = nil
            return commit.copy(record: .call(call), expected: commit.expected)
        }

        private func commitWithoutExpiries(_ commits: [Commit]) throws(StoreError) -> [CommitOutcome] {
            let open = commits.indices.filter { !commits[$0].hasExpiredInvitation }
            var outcomes = [CommitOutcome](repeating: .conflict, count: commits.count)
            for (index, outcome) in zip(open, try store.commit(open.map { commits[$0] })) { outcomes[index] = outcome }
            return outcomes
        }

        // MARK: What is not broken

        public func now() throws(StoreError) -> Milliseconds { try store.now() }

        public func tidyCalls(of user: UserID) throws(StoreError) -> Int { try store.tidyCalls(of: user) }

        public func lookAtClock() throws(StoreError) -> Bool { try store.lookAtClock() }

        public func read(_ lookup: Lookup) throws(StoreError) -> Findings { try store.read(lookup) }

        public func due(
            before moment: Milliseconds, limit: Int, besides: Set<RecordID>
        ) throws(StoreError) -> [RecordID] {
            try store.due(before: moment, limit: limit, besides: besides)
        }

        public func due(_ ids: [RecordID], before moment: Milliseconds) throws(StoreError) -> [RecordID] {
            try store.due(ids, before: moment)
        }

        public func history(
            of user: UserID, after place: HistoryPlace?, limit: Int
        ) throws(StoreError) -> [HistoryPlace] {
            try store.history(of: user, after: place, limit: limit)
        }

        public func update(_ user: UserID, _ update: Request.UserUpdate) throws(StoreError) -> UserProfile {
            try store.update(user, update)
        }

        public func set(_ block: Block, _ isBlocked: Bool) throws(StoreError) -> Bool {
            try store.set(block, isBlocked)
        }

        public func blockList(of user: UserID) throws(StoreError) -> [UserID] { try store.blockList(of: user) }

        public func charge(_ charges: [StoredCharge]) throws(StoreError) { try store.charge(charges) }

        public func trace(_ traces: [CallTrace], life: Milliseconds) throws(StoreError) {
            try store.trace(traces, life: life)
        }

        public func timeline(of callID: CallID) throws(StoreError) -> Timeline { try store.timeline(of: callID) }

        public func cameOnline(
            _ sessions: [DeviceSession], policy: PresencePolicy
        ) throws(StoreError) -> [OnlineOutcome] {
            try store.cameOnline(sessions, policy: policy)
        }

        public func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) throws(StoreError) -> [Bool] {
            try store.wentOffline(sessions, policy: policy)
        }

        public func renew(_ devices: [DeviceAddress]) throws(StoreError) { try store.renew(devices) }

        public func clean(limit: Int) throws(StoreError) -> Int { try store.clean(limit: limit) }

        public var summary: String { "\(store.summary), \(fault.rawValue)" }

        public var durability: String? { store.durability }

        public var clockSkew: Milliseconds { store.clockSkew }

        public var clockSteps: (count: Int, last: Milliseconds) { store.clockSteps }

        public var isShared: Bool { store.isShared }
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
            return copy
        }

        fileprivate var hasExpiredInvitation: Bool {
            guard case .call(let call) = record else { return false }
            return call.members.contains { $0.state == .timeout }
        }
    }
#endif
