import CallCore
import CallStore
import HTTPSending
import SignalingProtocol

/// The bounds of all leased workers. Times are in milliseconds.
enum LeasedWorkerBounds {
    static let count: Int64 = 1_000
    /// The pause after the store failed to do an operation, before the operation is repeated.
    static let pause: Int64 = 100
    static let hints = 4_096
    /// The bound of the hints that the worker follows in one step of the store.
    static let hintsInOneStep = 256
}

/// The state of a leased worker that does not depend on the kind of the work. Times are milliseconds of the boot clock,
/// unless they are named as the store's.
final class LeasedWorkerState<Hint, Settlement> {
    let store: any StoreTime & WorkerStore
    let sender: any RequestSender
    let executor = WorkExecutor()
    /// False when this process only keeps its settings in the store and counts, and other processes deliver.
    let delivers: Bool
    /// The bound of what is claimed, or settled, in one step of the store.
    let inOneStep: Int
    private let newName: () -> String
    private(set) var worker: WorkerID
    /// The time until which the worker lease is sure to last.
    var sureUntil: Int64 = 0
    fileprivate(set) var now: Int64
    /// The store's time minus `now`, at the last known moment.
    var storeClock: Milliseconds?

    /// The hints that the worker has not followed yet. A hint names work that may be due, such as a record that this
    /// process has just committed. The worker claims this work without waiting for its next search.
    var hints: [Hint] = []
    fileprivate var isFollowingHints = false
    var settlements: [Settlement] = []
    fileprivate var isSettling = false
    /// The time of the next settlement: at once, unless the store has just failed.
    fileprivate var nextSettling: Int64 = 0
    fileprivate(set) var isStopping = false
    /// Whether the settings of this process are in the store. Until then the worker does nothing else.
    var isKept = false
    var nextKeep: Int64? = 0
    fileprivate var nextRenewal: Int64? = 0
    fileprivate var nextRecovery: Int64? = 0
    fileprivate var nextCount: Int64? = 0
    /// The last failure of the store, while the store fails.
    fileprivate var failure: String?
    fileprivate var onFailure: (String?) -> Void = { _ in }

    var isFailing: Bool { failure != nil }
    var hasSettled: Bool { settlements.isEmpty && !isSettling }

    /// - Parameter newName: returns a name that no worker ever had.
    init(
        _ store: any StoreTime & WorkerStore, sender: any RequestSender, delivers: Bool, inOneStep: Int, now: Int64,
        newName: @escaping () -> String
    ) {
        self.store = store
        self.sender = sender
        self.delivers = delivers
        self.inOneStep = inOneStep
        self.now = now
        self.newName = newName
        worker = WorkerID(newName())
    }

    /// Gives the worker a new name, under which the worker has no lease and no claims.
    fileprivate func rename() {
        worker = WorkerID(newName())
        sureUntil = 0
        settlements = []
    }
}

/// The claims that a step of the store has given to a worker.
struct Claimed<Claim> {
    let claims: [Claim]
    /// The time at which the step began, since when the worker lease lasts.
    let began: Int64
    /// Whether there may be more to claim.
    let isFull: Bool
}

/// A worker that claims work in the store under a worker lease, makes attempts, and settles the outcomes. The extension
/// contains the parts that all kinds of work share: the lease, the chores, the hints, the claiming and the settling.
/// The requirements are the parts that differ.
protocol LeasedWorker: DeliveryWorker {
    /// The place of work that a commit of this process has made due.
    associatedtype WorkHint
    associatedtype WorkSettlement
    /// The consequence of a settlement.
    associatedtype WorkConsequence

    var state: LeasedWorkerState<WorkHint, WorkSettlement> { get }

    /// The next time at which this kind of work needs a turn, beside the times that all kinds share.
    var nextWork: Int64 { get }
    /// The next time at which a stopping worker needs a turn, beside the settlements.
    var nextRelease: Int64 { get }

    /// Takes a response.
    func answered(_ answer: HTTPAnswer)
    /// Called in each turn after the responses were taken.
    func checkLease()
    /// Begins, at its time, to keep the settings of this process in the store; then sets `isKept`.
    func beginKeeping()
    /// Begins the further chores of a process that keeps its settings in the store, even if other processes deliver.
    func beginChores()
    /// Counts the waiting work of all processes.
    func count() async throws(StoreError)
    /// Frees the claims of workers whose lease has ended.
    func recover() async throws(StoreError)
    /// Begins to find due work.
    func beginWork()
    /// Claims work near the hints.
    func claim(near hints: [WorkHint]) async throws(StoreError)
    /// Notes that the store has renewed the present worker's lease at `began` or later.
    func renewed(at began: Int64)
    /// Forgets what the worker had claimed under its former name.
    func forgetClaims()
    /// Settles in the store, and returns the consequence of each settlement.
    func settle(_ settlements: [WorkSettlement], by worker: WorkerID) async throws(StoreError) -> [WorkConsequence]
    /// Continues after a settlement.
    func go(on consequence: WorkConsequence, _ settlement: WorkSettlement)
    /// Begins to give back the claims of a stopping worker.
    func giveBack()
    /// Runs the work that is ready, settles its outcomes, and reports.
    func endTurn()
}

extension LeasedWorker {
    var worker: WorkerID { state.worker }
    var now: Int64 { state.now }
    var isStopping: Bool { state.isStopping }
    /// The sender; its descriptor announces responses.
    package var requests: any RequestSender { state.sender }
    /// Called with the reason when the store begins to fail, and with nil when the store works again.
    package var onFailure: (String?) -> Void {
        get { state.onFailure }
        set { state.onFailure = newValue }
    }

    /// The store's time; while the store's clock cannot be read, the last known offset counts.
    var storeTime: Milliseconds { state.store.time ?? (state.storeClock ?? 0) + now }

    package func stop() { state.isStopping = true }

    /// Runs the ready work for the last time. A simulation calls this method for a worker whose process has died, so
    /// that the worker's tasks end.
    package func giveUp() { state.executor.run() }

    // MARK: Time

    package var nextTurn: Int64 {
        let settling = state.settlements.isEmpty || state.isSettling ? .max : max(now, state.nextSettling)
        if settling == now { return now }
        // A stopping worker only settles; before the settings are in the store, a worker only keeps the settings.
        if isStopping { return min(settling, nextRelease) }
        guard state.isKept else { return min(state.nextKeep ?? .max, settling) }
        if !state.hints.isEmpty, !state.isFollowingHints { return now }
        let nextChore = min(state.nextRenewal ?? .max, state.nextRecovery ?? .max, state.nextCount ?? .max)
        return min(settling, nextChore, nextWork)
    }

    package func turn(_ now: Int64) {
        state.now = max(state.now, now)
        if let time = state.store.time { state.storeClock = time - state.now }
        let answers = state.sender.take()
        guard isStopping || !answers.isEmpty || !state.executor.isIdle || nextTurn <= state.now else { return }
        for answer in answers { answered(answer) }
        checkLease()
        if isStopping { giveBack() } else { begin() }
        endTurn()
    }

    private func begin() {
        beginKeeping()
        guard state.isKept else { return }
        beginChores()
        every(\.state.nextCount, LeasedWorkerBounds.count) { [self] () async throws(StoreError) in
            try await count()
        }
        guard state.delivers else {
            (state.nextRenewal, state.nextRecovery, state.hints) = (nil, nil, [])
            return
        }
        every(\.state.nextRenewal, WorkerLease.renewal) { [self] () async throws(StoreError) in try await renew() }
        every(\.state.nextRecovery, WorkerLease.search) { [self] () async throws(StoreError) in try await recover() }
        beginWork()
    }

    /// Begins a chore at its time; the next begins `pause` milliseconds after the end of this chore.
    func every(
        _ next: ReferenceWritableKeyPath<Self, Int64?>, _ pause: Int64,
        _ chore: @escaping () async throws(StoreError) -> Void
    ) {
        guard let due = self[keyPath: next], due <= now else { return }
        self[keyPath: next] = nil
        start(chore) { [self] _ in self[keyPath: next] = now + pause }
    }

    func start(_ work: @escaping () async throws(StoreError) -> Void, done: @escaping (_ isDone: Bool) -> Void) {
        state.executor.start { [self] in
            do throws(StoreError) {
                try await work()
                if state.failure != nil { state.onFailure(nil) }
                state.failure = nil
                done(true)
            } catch {
                if state.failure == nil { state.onFailure(error.description) }
                state.failure = error.description
                done(false)
            }
        }
    }

    // MARK: The lease

    private func renew() async throws(StoreError) {
        let (began, name) = (now, worker)
        let isRenewed = try await state.store.renew(name)
        guard name == worker else { return }
        if isRenewed { renewed(at: began) } else { becomeAnother() }
    }

    /// Continues as a new worker without a lease on the claims. Attempts under way are not settled: the next worker
    /// that claims the work repeats the attempts.
    func becomeAnother() {
        state.rename()
        forgetClaims()
    }

    // MARK: Claiming

    func followHints() {
        guard !state.hints.isEmpty, !state.isFollowingHints else { return }
        let near = Array(state.hints.prefix(LeasedWorkerBounds.hintsInOneStep))
        state.hints.removeFirst(near.count)
        state.isFollowingHints = true
        start { [self] () async throws(StoreError) in
            try await claim(near: near)
        } done: { [self] _ in
            state.isFollowingHints = false
        }
    }

    /// Claims work by `ask`, which is given the bound of the claims. Returns nil without new claims.
    func claim<Claim>(
        room: Int, _ ask: (_ worker: WorkerID, _ limit: Int) async throws(StoreError) -> [Claim]
    ) async throws(StoreError) -> Claimed<Claim>? {
        let limit = min(room, state.inOneStep)
        guard limit > 0, !isStopping else { return nil }
        let (began, claimer) = (now, worker)
        let claims: [Claim]
        do throws(StoreError) {
            claims = try await ask(claimer, limit)
        } catch {
            // The store may have made claims that this worker does not know of. Such work would stay claimed as long as
            // this worker renews its lease, so the worker continues under a new name.
            if claimer == worker { becomeAnother() }
            throw error
        }
        guard claimer == worker, !claims.isEmpty else { return nil }
        return Claimed(claims: claims, began: began, isFull: claims.count >= limit)
    }

    // MARK: Settling

    /// Settles the outcomes that have come meanwhile, in one step of the store.
    func settle() {
        guard !state.isSettling, !state.settlements.isEmpty, state.nextSettling <= now else { return }
        state.isSettling = true
        let batch = Array(state.settlements.prefix(state.inOneStep))
        state.settlements.removeFirst(batch.count)
        let settler = worker
        start { [self] () async throws(StoreError) in
            do throws(StoreError) {
                let consequences = try await settle(batch, by: settler)
                // The worker may become another in between.
                for (settlement, consequence) in zip(batch, consequences) where settler == worker {
                    go(on: consequence, settlement)
                }
            } catch {
                // Whether the outcomes were settled is unknown. If so, this worker may have claimed the same work again
                // already, and a repeated settlement would come too early.
                if settler == worker { becomeAnother() }
                state.nextSettling = now + LeasedWorkerBounds.pause
                throw error
            }
        } done: { [self] _ in
            state.isSettling = false
        }
    }
}
