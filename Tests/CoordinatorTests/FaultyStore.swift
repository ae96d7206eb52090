import CallCore
import CallStore
import SignalingProtocol

/// A store in front of the real store. When a test says so, this store fails, or lets another writer act first.
final class FaultyStore: CallStore {
    enum Operation: CaseIterable {
        case now, load, commit, note, due, calls, holders, devices, cameOnline, wentOffline, renew, report, clean
        case history, messages, profiles, update, trace, timeline, charge, tidy
    }

    private let store: any CallStore
    /// The operations that fail now.
    var failing: Set<Operation> = []
    /// Operations after this number fail; nil: the number of operations makes none fail.
    var failsAfter: Int?
    /// The number of operations so far.
    private(set) var operations = 0
    /// The number of operations of each kind.
    var operationCounts: [Operation: Int] = [:]
    /// While true, the store gives no answer until `release()`. Only a test in which other work goes on meanwhile may
    /// set this.
    var isHeld = false
    private var held: [UnsafeContinuation<Void, Never>] = []
    var isShared = false
    var waitsForReplicas = false
    var answersAtOnce = false
    /// Called before every operation.
    var beforeOperation: ((Operation) -> Void)?
    /// Called before every commit, with the number of commits so far.
    var beforeCommit: ((Int) -> Void)?
    /// Called after every commit that went through, before the coordinator hears of it.
    var afterCommit: (() throws(StoreError) -> Void)?
    private(set) var commits = 0
    /// The users whose lists of calls the service had put right, or tried to.
    private(set) var tidied: [UserID] = []

    init(_ store: any CallStore) { self.store = store }

    func liveCounts() async throws(StoreError) -> LiveCounts { try await store.liveCounts() }

    func tidyLiveCounts() async throws(StoreError) { try await store.tidyLiveCounts() }

    func bound(_ endpoint: EndpointName, _ bounds: OutboxBounds) async throws(StoreError) -> OutboxLoss {
        try await store.bound(endpoint, bounds)
    }

    func keep(_ endpoints: [KeptEndpoint]) async throws(StoreError) { try await store.keep(endpoints) }

    func endpoints() async throws(StoreError) -> [KeptEndpoint] { try await store.endpoints() }

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

    var summary: String { "faulty" }

    var time: Milliseconds? { failing.contains(.now) ? nil : store.time }

    private func pass(_ operation: Operation) async throws(StoreError) {
        operations += 1
        operationCounts[operation, default: 0] += 1
        beforeOperation?(operation)
        if isHeld { await withUnsafeContinuation { held.append($0) } }
        if let limit = failsAfter, operations > limit { throw StoreError(.unreachable, "down") }
        if failing.contains(operation) { throw StoreError(.unreachable, "down: \(operation)") }
    }

    func release() {
        isHeld = false
        let waiting = held
        held = []
        for continuation in waiting { continuation.resume() }
    }

    func lookAtClock() async throws(StoreError) -> Bool {
        guard isShared else { return false }
        try await pass(.now)
        return true
    }

    func now() async throws(StoreError) -> Milliseconds {
        try await pass(.now)
        return try await store.now()
    }

    func read(_ queries: [Query]) async throws(StoreError) -> [QueryAnswer] {
        try await pass(queries)
        return try await store.read(queries)
    }

    private func pass(_ queries: [Query]) async throws(StoreError) {
        for operation in queries.compactMap(operation).unique { try await pass(operation) }
    }

    private func operation(_ query: Query) -> Operation? {
        switch query {
        case .record: .load
        case .devices: .devices
        case .holder: .holders
        case .profile: .profiles
        case .calls: .calls
        case .messages: .messages
        case .block, .outstanding, .storedBytes, .registration: nil
        }
    }

    /// The store works in steps, and may fail between two steps.
    func write(_ commits: [Commit], _ notes: [Note], thenRead queries: [Query]) async throws(StoreError) -> Written {
        var outcomes: [CommitOutcome] = []
        if !commits.isEmpty {
            try await pass(.commit)
            self.commits += 1
            beforeCommit?(self.commits)
            outcomes = try await store.commit(commits)
            try afterCommit?()
        }
        if !notes.isEmpty {
            try await pass(.note)
            try await store.note(notes)
        }
        return Written(outcomes: outcomes, answers: queries.isEmpty ? [] : try? await read(queries))
    }

    func due(before moment: Milliseconds, limit: Int, besides: Set<RecordID>) async throws(StoreError) -> [RecordID] {
        try await pass(.due)
        return try await store.due(before: moment, limit: limit, besides: besides)
    }

    func due(_ ids: [RecordID], before moment: Milliseconds) async throws(StoreError) -> [RecordID] {
        try await pass(.due)
        return try await store.due(ids, before: moment)
    }

    func history(of user: UserID, after place: HistoryPlace?, limit: Int) async throws(StoreError) -> [HistoryPlace] {
        try await pass(.history)
        return try await store.history(of: user, after: place, limit: limit)
    }

    func update(_ user: UserID, _ update: Request.UserUpdate) async throws(StoreError) -> UserProfile {
        try await pass(.update)
        return try await store.update(user, update)
    }

    func set(_ block: Block, _ isBlocked: Bool) async throws(StoreError) -> Bool {
        try await pass(.update)
        return try await store.set(block, isBlocked)
    }

    func blockList(of user: UserID) async throws(StoreError) -> [UserID] {
        try await pass(.update)
        return try await store.blockList(of: user)
    }

    func tidyCalls(of user: UserID) async throws(StoreError) -> Int {
        tidied.append(user)
        try await pass(.tidy)
        return try await store.tidyCalls(of: user)
    }

    func erase(_ user: UserID) async throws(StoreError) { try await store.erase(user) }

    func charge(_ charges: [StoredCharge]) async throws(StoreError) {
        try await pass(.charge)
        try await store.charge(charges)
    }

    func trace(_ traces: [CallTrace], life: Milliseconds) async throws(StoreError) {
        try await pass(.trace)
        try await store.trace(traces, life: life)
    }

    func timeline(of callID: CallID) async throws(StoreError) -> Timeline {
        try await pass(.timeline)
        return try await store.timeline(of: callID)
    }

    func cameOnline(_ sessions: [DeviceSession], policy: PresencePolicy) async throws(StoreError) -> [OnlineOutcome] {
        try await pass(.cameOnline)
        return try await store.cameOnline(sessions, policy: policy)
    }

    func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) async throws(StoreError) -> [Bool] {
        try await pass(.wentOffline)
        return try await store.wentOffline(sessions, policy: policy)
    }

    func renew(_ devices: [DeviceAddress]) async throws(StoreError) {
        try await pass(.renew)
        try await store.renew(devices)
    }

    func report(_ report: BrokerReport) async throws(StoreError) -> BrokerSightings {
        try await pass(.report)
        return try await store.report(report)
    }

    func readSightings() async throws(StoreError) {
        try await pass(.report)
        try await store.readSightings()
    }

    func devices(
        at broker: BrokerName, after place: String?, limit: Int
    ) async throws(StoreError) -> DevicePage {
        try await pass(.devices)
        return try await store.devices(at: broker, after: place, limit: limit)
    }

    func clean(limit: Int) async throws(StoreError) -> Int {
        try await pass(.clean)
        return try await store.clean(limit: limit)
    }
}
