import CallCore
import CallStore
import SignalingProtocol

/// A store that is broken on purpose, to show that the consistency test notices (`scripts/chaos --self-test`).
final class FaultyCallStore: CallStore {
    enum Fault: String, CaseIterable, Sendable {
        /// The last writer wins: a commit with a conflict is written all the same.
        case noCompareAndSet = "no-compare-and-set"
        /// No event is sent a second time.
        case noResend = "no-resend"
        /// No invitation ever expires: every commit of an expiry fails.
        case lostTimer = "lost-timer"
    }

    private let store: any CallStore
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

    // MARK: Operations without faults

    func now() async throws(StoreError) -> Milliseconds { try await store.now() }

    func tidyCalls(of user: UserID) async throws(StoreError) -> Int { try await store.tidyCalls(of: user) }

    func lookAtClock() async throws(StoreError) -> Bool { try await store.lookAtClock() }

    func read(_ queries: [Query]) async throws(StoreError) -> [QueryAnswer] { try await store.read(queries) }

    func due(
        before moment: Milliseconds, limit: Int, besides: Set<RecordID>
    ) async throws(StoreError) -> [RecordID] {
        try await store.due(before: moment, limit: limit, besides: besides)
    }

    func due(_ ids: [RecordID], before moment: Milliseconds) async throws(StoreError) -> [RecordID] {
        try await store.due(ids, before: moment)
    }

    func history(
        of user: UserID, after place: HistoryPlace?, limit: Int
    ) async throws(StoreError) -> [HistoryPlace] {
        try await store.history(of: user, after: place, limit: limit)
    }

    func update(_ user: UserID, _ update: Request.UserUpdate) async throws(StoreError) -> UserProfile {
        try await store.update(user, update)
    }

    func set(_ block: Block, _ isBlocked: Bool) async throws(StoreError) -> Bool {
        try await store.set(block, isBlocked)
    }

    func blockList(of user: UserID) async throws(StoreError) -> [UserID] {
        try await store.blockList(of: user)
    }

    func erase(_ user: UserID) async throws(StoreError) { try await store.erase(user) }

    func charge(_ charges: [StoredCharge]) async throws(StoreError) { try await store.charge(charges) }

    func trace(_ traces: [CallTrace], life: Milliseconds) async throws(StoreError) {
        try await store.trace(traces, life: life)
    }

    func timeline(of callID: CallID) async throws(StoreError) -> Timeline {
        try await store.timeline(of: callID)
    }

    func pushPolicy() async throws(StoreError) -> KeptPushPolicy? { try await store.pushPolicy() }

    func pushSecret() async throws(StoreError) -> [UInt8] { try await store.pushSecret() }

    func register(_ registration: PushRegistration) async throws(StoreError) -> [PushRegistration] {
        try await store.register(registration)
    }

    func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform?, _ app: AppName?
    ) async throws(StoreError) -> [PushRegistration] {
        try await store.unregister(device, platform, app)
    }

    func end(_ registration: PushRegistration) async throws(StoreError) {
        try await store.end(registration)
    }

    func registrations(of users: [UserID]) async throws(StoreError) -> [[PushRegistration]] {
        try await store.registrations(of: users)
    }

    func boundPushes(most: Int) async throws(StoreError) -> Int {
        try await store.boundPushes(most: most)
    }

    func bound(
        _ endpoint: EndpointName, _ bounds: OutboxBounds
    ) async throws(StoreError) -> OutboxLoss {
        try await store.bound(endpoint, bounds)
    }

    func keep(_ endpoints: [KeptEndpoint]) async throws(StoreError) { try await store.keep(endpoints) }

    func endpoints() async throws(StoreError) -> [KeptEndpoint] { try await store.endpoints() }

    func cameOnline(
        _ sessions: [DeviceSession], policy: PresencePolicy
    ) async throws(StoreError) -> [OnlineOutcome] {
        try await store.cameOnline(sessions, policy: policy)
    }

    func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) async throws(StoreError) -> [Bool] {
        try await store.wentOffline(sessions, policy: policy)
    }

    func renew(_ devices: [DeviceAddress]) async throws(StoreError) { try await store.renew(devices) }

    func report(_ report: BrokerReport) async throws(StoreError) -> BrokerSightings { try await store.report(report) }

    func readSightings() async throws(StoreError) { try await store.readSightings() }

    func devices(
        at broker: BrokerName, after place: String?, limit: Int
    ) async throws(StoreError) -> DevicePage {
        try await store.devices(at: broker, after: place, limit: limit)
    }

    func clean(limit: Int) async throws(StoreError) -> Int { try await store.clean(limit: limit) }

    var summary: String { "\(store.summary), \(fault.rawValue)" }

    var durability: String? { store.durability }
    var hazards: [StoreHazard] { store.hazards }

    var clockSkew: Milliseconds { store.clockSkew }

    var clockSteps: (count: Int, last: Milliseconds) { store.clockSteps }

    var isShared: Bool { store.isShared }

    var time: Milliseconds? { store.time }

    var answersAtOnce: Bool { store.answersAtOnce }

    var socket: StoreSocket? { store.socket }

    func receive() { store.receive() }
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
        copy.outboxEntries = outboxEntries
        copy.pushes = pushes
        return copy
    }

    fileprivate var hasExpiredInvitation: Bool {
        guard case .call(let call) = record else { return false }
        return call.members.contains { $0.state == .timeout }
    }
}
