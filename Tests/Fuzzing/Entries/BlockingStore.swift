import CallCore
import CallStore
import SignalingProtocol

/// A store whose calls wait for their answers, for a caller that asks one question after another.
package final class BlockingStore {
    package let store: any CallStore
    private let executor = WorkExecutor()

    package init(_ store: any CallStore) { self.store = store }

    func wait<Value>(
        _ ask: @escaping (any CallStore) async throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        try executor.complete(store) { [store] () async throws(StoreError) in try await ask(store) }
    }

    /// Asks for the audit log, which every store has.
    package func audit<Value>(
        _ ask: @escaping (any AdminStore) async throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        guard let log = store as? any AdminStore else { throw StoreError(.failed, "this store has no audit log") }
        return try executor.complete(store) { () async throws(StoreError) in try await ask(log) }
    }

    /// Asks several questions at the same time; returns when all questions have their answer.
    package func together(_ asks: [(any CallStore) async -> Void]) {
        for ask in asks.dropLast() { executor.start { [store] in await ask(store) } }
        guard let last = asks.last else { return }
        executor.complete(store) { [store] in await last(store) }
    }

    package func now() throws(StoreError) -> Milliseconds {
        try wait { store throws(StoreError) in try await store.now() }
    }

    @discardableResult
    package func lookAtClock() throws(StoreError) -> Bool {
        try wait { store throws(StoreError) in try await store.lookAtClock() }
    }

    package func liveCounts() throws(StoreError) -> LiveCounts {
        try wait { store throws(StoreError) in try await store.liveCounts() }
    }

    package func tidyLiveCounts() throws(StoreError) {
        try wait { store throws(StoreError) in try await store.tidyLiveCounts() }
    }

    package var clockSkew: Milliseconds { store.clockSkew }
    package var clockSteps: (count: Int, last: Milliseconds) { store.clockSteps }
    package var roundTrips: Int { store.roundTrips }
    package var durability: String? { store.durability }
    package var summary: String { store.summary }

    // MARK: Records

    package func read(_ queries: [Query]) throws(StoreError) -> [QueryAnswer] {
        try wait { store throws(StoreError) in try await store.read(queries) }
    }

    package func write(
        _ commits: [Commit], _ notes: [Note], thenRead queries: [Query]
    ) throws(StoreError) -> Written {
        try wait { store throws(StoreError) in try await store.write(commits, notes, thenRead: queries) }
    }

    package func commit(_ commits: [Commit]) throws(StoreError) -> [CommitOutcome] {
        try wait { store throws(StoreError) in try await store.commit(commits) }
    }

    package func note(_ notes: [Note]) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.note(notes) }
    }

    package func load(_ ids: [RecordID]) throws(StoreError) -> [StoredRecord?] {
        try wait { store throws(StoreError) in try await store.load(ids) }
    }

    package func load(_ ids: [CallID]) throws(StoreError) -> [StoredRecord?] {
        try wait { store throws(StoreError) in try await store.load(ids) }
    }

    package func holders(of claims: [Claim]) throws(StoreError) -> [ClaimHolder?] {
        try wait { store throws(StoreError) in try await store.holders(of: claims) }
    }

    package func due(
        before moment: Milliseconds, limit: Int, besides: Set<RecordID> = []
    ) throws(StoreError) -> [RecordID] {
        try wait { store throws(StoreError) in try await store.due(before: moment, limit: limit, besides: besides) }
    }

    package func due(_ ids: [RecordID], before moment: Milliseconds) throws(StoreError) -> [RecordID] {
        try wait { store throws(StoreError) in try await store.due(ids, before: moment) }
    }

    package func clean(limit: Int) throws(StoreError) -> Int {
        try wait { store throws(StoreError) in try await store.clean(limit: limit) }
    }

    // MARK: Data of a user

    package func history(
        of user: UserID, after place: HistoryPlace?, limit: Int
    ) throws(StoreError) -> [HistoryPlace] {
        try wait { store throws(StoreError) in try await store.history(of: user, after: place, limit: limit) }
    }

    package func profiles(of users: [UserID]) throws(StoreError) -> [UserProfile?] {
        try wait { store throws(StoreError) in try await store.profiles(of: users) }
    }

    package func update(_ user: UserID, _ update: Request.UserUpdate) throws(StoreError) -> UserProfile {
        try wait { store throws(StoreError) in try await store.update(user, update) }
    }

    package func set(_ block: Block, _ isBlocked: Bool) throws(StoreError) -> Bool {
        try wait { store throws(StoreError) in try await store.set(block, isBlocked) }
    }

    package func isBlocked(_ blocks: [Block]) throws(StoreError) -> [Bool] {
        try wait { store throws(StoreError) in try await store.isBlocked(blocks) }
    }

    package func blockList(of user: UserID) throws(StoreError) -> [UserID] {
        try wait { store throws(StoreError) in try await store.blockList(of: user) }
    }

    package func calls(_ list: CallList) throws(StoreError) -> [CallID] {
        try wait { store throws(StoreError) in try await store.calls(list) }
    }

    package func messages(_ list: MessageList) throws(StoreError) -> [RecordID] {
        try wait { store throws(StoreError) in try await store.messages(list) }
    }

    package func tidyCalls(of user: UserID) throws(StoreError) -> Int {
        try wait { store throws(StoreError) in try await store.tidyCalls(of: user) }
    }

    package func erase(_ user: UserID) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.erase(user) }
    }

    package func charge(_ charges: [StoredCharge]) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.charge(charges) }
    }

    // MARK: Presence

    package func cameOnline(
        _ sessions: [DeviceSession], policy: PresencePolicy
    ) throws(StoreError) -> [OnlineOutcome] {
        try wait { store throws(StoreError) in try await store.cameOnline(sessions, policy: policy) }
    }

    package func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) throws(StoreError) -> [Bool] {
        try wait { store throws(StoreError) in try await store.wentOffline(sessions, policy: policy) }
    }

    package func renew(_ devices: [DeviceAddress]) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.renew(devices) }
    }

    package func report(_ report: BrokerReport) throws(StoreError) -> BrokerSightings {
        try wait { store throws(StoreError) in try await store.report(report) }
    }

    package func readSightings() throws(StoreError) {
        try wait { store throws(StoreError) in try await store.readSightings() }
    }

    package func devices(at broker: BrokerName, after place: String?, limit: Int) throws(StoreError) -> DevicePage {
        try wait { store throws(StoreError) in try await store.devices(at: broker, after: place, limit: limit) }
    }

    package func devices(of users: [UserID]) throws(StoreError) -> [[DevicePresence]] {
        try wait { store throws(StoreError) in try await store.devices(of: users) }
    }

    // MARK: Timelines

    package func trace(_ traces: [CallTrace], life: Milliseconds) throws(StoreError) {
        try wait { store throws(StoreError) in try await store.trace(traces, life: life) }
    }

    package func timeline(of callID: CallID) throws(StoreError) -> Timeline {
        try wait { store throws(StoreError) in try await store.timeline(of: callID) }
    }
}
