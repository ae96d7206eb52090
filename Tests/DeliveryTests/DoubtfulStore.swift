import CallCore
import CallStore
import SignalingProtocol

/// A store whose answers can be lost: the store does the work, and the caller does not learn of the result. The store
/// can also be out of reach.
final class DoubtfulStore: OutboxStore, PushStore {
    let store: MemoryCallStore
    /// The number of coming settlements that are done and whose answers are lost.
    var answersToLose = 0
    /// While true, the store hears of no worker, and does not look for workers that are gone.
    var losesSight = false
    /// How often the result of an attempt was written down.
    private(set) var notes = 0
    /// While true, the next reader has its answer when `goOn` is called.
    var standsStill = false
    private var reader: CheckedContinuation<Void, Never>?

    init(_ store: MemoryCallStore) { self.store = store }

    private func answer<Value>(_ value: Value) throws(StoreError) -> Value {
        guard answersToLose > 0 else { return value }
        answersToLose -= 1
        throw StoreError(.unreachable, "the answer was lost")
    }

    private func lookForWorkers<Value>(_ look: () -> Value) throws(StoreError) -> Value {
        if losesSight { throw StoreError(.unreachable, "nobody is there") }
        return look()
    }

    // MARK: Calls that may fail

    func read(_ queries: [Query]) async throws(StoreError) -> [QueryAnswer] {
        let answers = store.read(queries)
        if standsStill {
            standsStill = false
            await withCheckedContinuation { reader = $0 }
        }
        return answers
    }

    func goOn() {
        reader?.resume()
        reader = nil
    }

    func settle(_ settlements: [Settlement], by worker: WorkerID) async throws(StoreError) -> [Settled] {
        try answer(store.settle(settlements, by: worker))
    }

    func settlePushes(_ settlements: [PushSettlement], by worker: WorkerID) async throws(StoreError) -> [PushSettled] {
        try answer(store.settlePushes(settlements, by: worker))
    }

    func renew(_ worker: WorkerID) async throws(StoreError) -> Bool { try lookForWorkers { store.renew(worker) } }

    func recover() async throws(StoreError) -> Int { try lookForWorkers { store.recover() } }

    func recoverPushes() async throws(StoreError) -> Int { try lookForWorkers { store.recoverPushes() } }

    // MARK: The rest

    var time: Milliseconds? { store.time }

    func now() async throws(StoreError) -> Milliseconds { store.now() }

    func write(_ commits: [Commit], _ notes: [Note], thenRead queries: [Query]) async throws(StoreError) -> Written {
        store.write(commits, notes, thenRead: queries)
    }

    func due(before moment: Milliseconds, limit: Int, besides: Set<RecordID>) async throws(StoreError) -> [RecordID] {
        store.due(before: moment, limit: limit, besides: besides)
    }

    func due(_ ids: [RecordID], before moment: Milliseconds) async throws(StoreError) -> [RecordID] {
        store.due(ids, before: moment)
    }

    func clean(limit: Int) async throws(StoreError) -> Int { store.clean(limit: limit) }

    func trace(_ traces: [CallTrace], life: Milliseconds) async throws(StoreError) { store.trace(traces, life: life) }

    func timeline(of callID: CallID) async throws(StoreError) -> Timeline { store.timeline(of: callID) }

    func report(_ report: BrokerReport) async throws(StoreError) -> BrokerSightings { store.report(report) }

    func readSightings() async throws(StoreError) { store.readSightings() }

    func devices(
        at broker: BrokerName, after place: String?, limit: Int
    ) async throws(StoreError) -> DevicePage { store.devices(at: broker, after: place, limit: limit) }

    func endpoints() async throws(StoreError) -> [KeptEndpoint] { store.endpoints() }

    func keep(_ endpoints: [KeptEndpoint]) async throws(StoreError) { store.keep(endpoints) }

    func bound(_ endpoint: EndpointName, _ bounds: OutboxBounds) async throws(StoreError) -> OutboxLoss {
        store.bound(endpoint, bounds)
    }

    func turnOff(_ endpoint: EndpointName, at url: String) async throws(StoreError) { store.turnOff(endpoint, at: url) }

    func turnOn(_ endpoint: EndpointName) async throws(StoreError) -> Bool { store.turnOn(endpoint) }

    func note(_ attempt: String, of endpoint: EndpointName, at url: String) async throws(StoreError) {
        notes += 1
        store.note(attempt, of: endpoint, at: url)
    }

    func keepLost(_ endpoints: [KeptEndpoint]) async throws(StoreError) { store.keepLost(endpoints) }

    func forget(_ endpoint: EndpointName) async throws(StoreError) { store.forget(endpoint) }

    func clear(_ endpoint: EndpointName) async throws(StoreError) -> Bool { store.clear(endpoint) }

    func claim(
        _ endpoint: EndpointName, by worker: WorkerID, limit: Int, near: [RecordID]?
    ) async throws(StoreError) -> [OutboxItem] {
        store.claim(endpoint, by: worker, limit: limit, near: near)
    }

    func count(_ endpoint: EndpointName) async throws(StoreError) -> OutboxCount { store.count(endpoint) }

    func deadLetters(
        _ endpoint: EndpointName, since: Milliseconds, limit: Int
    ) async throws(StoreError) -> [DeadLetter] {
        store.deadLetters(endpoint, since: since, limit: limit)
    }

    func replay(_ letters: [DeadLetter], of endpoint: EndpointName) async throws(StoreError) -> Int {
        store.replay(letters, of: endpoint)
    }

    func pushPolicy() async throws(StoreError) -> KeptPushPolicy? { store.pushPolicy() }

    func keep(_ policy: PushPolicy) async throws(StoreError) { store.keep(policy) }

    func pushes(_ process: WorkerID, for life: Milliseconds) async throws(StoreError) {
        store.pushes(process, for: life)
    }

    func pushSecret() async throws(StoreError) -> [UInt8] { store.pushSecret() }

    func register(_ registration: PushRegistration) async throws(StoreError) -> [PushRegistration] {
        store.register(registration)
    }

    func unregister(
        _ device: DeviceAddress, _ platform: PushPlatform?, _ app: AppName?
    ) async throws(StoreError) -> [PushRegistration] {
        store.unregister(device, platform, app)
    }

    func end(_ registration: PushRegistration) async throws(StoreError) { store.end(registration) }

    func registrations(of users: [UserID]) async throws(StoreError) -> [[PushRegistration]] {
        store.registrations(of: users)
    }

    func boundPushes(most: Int) async throws(StoreError) -> Int { store.boundPushes(most: most) }

    func takePushes(by worker: WorkerID, limit: Int, near: [CallID]?) async throws(StoreError) -> [CallID] {
        store.takePushes(by: worker, limit: limit, near: near)
    }

    func countPushes() async throws(StoreError) -> (calls: Int, oldest: Milliseconds?) { store.countPushes() }

    func reserve(_ pushes: [PushReservation]) async throws(StoreError) -> [Bool] { store.reserve(pushes) }
}
