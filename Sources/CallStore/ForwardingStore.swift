import CallCore
import SignalingProtocol

/// The operations of a store, as metrics name them.
package enum StoreOperation: String, CaseIterable, Sendable {
    case read
    case write
    case due
    case clean
    case clock
    case history
    case profile
    case blocks
    case erase
    case admin
    case charge
    case presence
    case trace
    case timeline
    case pushes
    case registrations
    case outbox
    case sightings
}

/// A store that passes all operations on to another store. A conforming type changes some of them, or surrounds all of
/// them.
package protocol ForwardingStore: CallStore {
    var store: any CallStore { get }

    /// Performs `work`, which is an operation of `store`.
    func around<Value>(
        _ operation: StoreOperation, _ work: () async throws(StoreError) -> Value
    ) async throws(StoreError) -> Value
}

extension ForwardingStore {
    package func around<Value>(
        _ operation: StoreOperation, _ work: () async throws(StoreError) -> Value
    ) async throws(StoreError) -> Value {
        try await work()
    }

    // MARK: State

    package var summary: String { store.summary }
    package var version: String? { store.version }
    package var durability: String? { store.durability }
    package var hazards: [StoreHazard] { store.hazards }
    package var fill: StoreFill? { store.fill }
    package var isShared: Bool { store.isShared }
    package var waitsForReplicas: Bool { store.waitsForReplicas }
    package var roundTrips: Int { store.roundTrips }
    package var time: Milliseconds? { store.time }
    package var clockSkew: Milliseconds { store.clockSkew }
    package var clockSteps: (count: Int, last: Milliseconds) { store.clockSteps }
    package var answersAtOnce: Bool { store.answersAtOnce }
    package var socket: StoreSocket? { store.socket }
    package func receive() { store.receive() }

    // MARK: Records

    package func now() async throws(StoreError) -> Milliseconds {
        try await around(.clock) { () async throws(StoreError) in try await store.now() }
    }

    package func lookAtClock() async throws(StoreError) -> Bool {
        try await around(.clock) { () async throws(StoreError) in try await store.lookAtClock() }
    }

    package func read(_ queries: [Query]) async throws(StoreError) -> [QueryAnswer] {
        try await around(.read) { () async throws(StoreError) in try await store.read(queries) }
    }

    package func write(
        _ commits: [Commit], _ notes: [Note], thenRead queries: [Query]
    ) async throws(StoreError) -> Written {
        try await around(.write) { () async throws(StoreError) in
            try await store.write(commits, notes, thenRead: queries)
        }
    }

    package func due(
        before moment: Milliseconds, limit: Int, besides: Set<RecordID>
    ) async throws(StoreError) -> [RecordID] {
        try await around(.due) { () async throws(StoreError) in
            try await store.due(before: moment, limit: limit, besides: besides)
        }
    }

    package func due(_ ids: [RecordID], before moment: Milliseconds) async throws(StoreError) -> [RecordID] {
        try await around(.due) { () async throws(StoreError) in try await store.due(ids, before: moment) }
    }

    package func clean(limit: Int) async throws(StoreError) -> Int {
        try await around(.clean) { () async throws(StoreError) in try await store.clean(limit: limit) }
    }

    // MARK: Users

    package func history(
        of user: UserID, after place: HistoryPlace?, limit: Int
    ) async throws(StoreError) -> [HistoryPlace] {
        try await around(.history) { () async throws(StoreError) in
            try await store.history(of: user, after: place, limit: limit)
        }
    }

    package func update(_ user: UserID, _ update: Request.UserUpdate) async throws(StoreError) -> UserProfile {
        try await around(.profile) { () async throws(StoreError) in try await store.update(user, update) }
    }

    package func set(_ block: Block, _ isBlocked: Bool) async throws(StoreError) -> Bool {
        try await around(.blocks) { () async throws(StoreError) in try await store.set(block, isBlocked) }
    }

    package func blockList(of user: UserID) async throws(StoreError) -> [UserID] {
        try await around(.blocks) { () async throws(StoreError) in try await store.blockList(of: user) }
    }

    package func tidyCalls(of user: UserID) async throws(StoreError) -> Int {
        try await around(.history) { () async throws(StoreError) in try await store.tidyCalls(of: user) }
    }

    package func erase(_ user: UserID) async throws(StoreError) {
        try await around(.erase) { () async throws(StoreError) in try await store.erase(user) }
    }

    package func liveCounts() async throws(StoreError) -> LiveCounts {
        try await around(.admin) { () async throws(StoreError) in try await store.liveCounts() }
    }

    package func tidyLiveCounts() async throws(StoreError) {
        try await around(.admin) { () async throws(StoreError) in try await store.tidyLiveCounts() }
    }

    package func adminSettings() async throws(StoreError) -> AdminSettings {
        try await around(.admin) { () async throws(StoreError) in try await store.adminSettings() }
    }

    package func charge(_ charges: [StoredCharge]) async throws(StoreError) {
        try await around(.charge) { () async throws(StoreError) in try await store.charge(charges) }
    }

    // MARK: Presence and brokers

    package func cameOnline(
        _ sessions: [DeviceSession], policy: PresencePolicy
    ) async throws(StoreError) -> [OnlineOutcome] {
        try await around(.presence) { () async throws(StoreError) in
            try await store.cameOnline(sessions, policy: policy)
        }
    }

    package func wentOffline(
        _ sessions: [DeviceSession], policy: PresencePolicy
    ) async throws(StoreError) -> [Bool] {
        try await around(.presence) { () async throws(StoreError) in
            try await store.wentOffline(sessions, policy: policy)
        }
    }

    package func renew(_ devices: [DeviceAddress]) async throws(StoreError) {
        try await around(.presence) { () async throws(StoreError) in try await store.renew(devices) }
    }

    package func report(_ report: BrokerReport) async throws(StoreError) -> BrokerSightings {
        try await around(.sightings) { () async throws(StoreError) in try await store.report(report) }
    }

    package func readSightings() async throws(StoreError) {
        try await around(.sightings) { () async throws(StoreError) in try await store.readSightings() }
    }

    package func devices(
        at broker: BrokerName, after place: String?, limit: Int
    ) async throws(StoreError) -> DevicePage {
        try await around(.presence) { () async throws(StoreError) in
            try await store.devices(at: broker, after: place, limit: limit)
        }
    }

    // MARK: Timelines

    package func trace(_ traces: [CallTrace], life: Milliseconds) async throws(StoreError) {
        try await around(.trace) { () async throws(StoreError) in try await store.trace(traces, life: life) }
    }

    package func timeline(of callID: CallID) async throws(StoreError) -> Timeline {
        try await around(.timeline) { () async throws(StoreError) in try await store.timeline(of: callID) }
    }

    // MARK: Webhooks and pushes

    package func endpoints() async throws(StoreError) -> [KeptEndpoint] {
        try await around(.outbox) { () async throws(StoreError) in try await store.endpoints() }
    }

    package func keep(_ endpoints: [KeptEndpoint]) async throws(StoreError) {
        try await around(.outbox) { () async throws(StoreError) in try await store.keep(endpoints) }
    }

    package func bound(_ endpoint: EndpointName, _ bounds: OutboxBounds) async throws(StoreError) -> OutboxLoss {
        try await around(.outbox) { () async throws(StoreError) in try await store.bound(endpoint, bounds) }
    }

    package func pushPolicy() async throws(StoreError) -> KeptPushPolicy? {
        try await around(.pushes) { () async throws(StoreError) in try await store.pushPolicy() }
    }

    package func pushSecret() async throws(StoreError) -> [UInt8] {
        try await around(.pushes) { () async throws(StoreError) in try await store.pushSecret() }
    }

    package func boundPushes(most: Int) async throws(StoreError) -> Int {
        try await around(.pushes) { () async throws(StoreError) in try await store.boundPushes(most: most) }
    }

    package func register(_ registration: PushRegistration) async throws(StoreError) -> [PushRegistration] {
        try await around(.registrations) { () async throws(StoreError) in try await store.register(registration) }
    }

    package func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform?, _ app: AppName?
    ) async throws(StoreError) -> [PushRegistration] {
        try await around(.registrations) { () async throws(StoreError) in
            try await store.unregister(device, platform, app)
        }
    }

    package func end(_ registration: PushRegistration) async throws(StoreError) {
        try await around(.registrations) { () async throws(StoreError) in try await store.end(registration) }
    }

    package func registrations(of users: [UserID]) async throws(StoreError) -> [[PushRegistration]] {
        try await around(.registrations) { () async throws(StoreError) in try await store.registrations(of: users) }
    }
}
