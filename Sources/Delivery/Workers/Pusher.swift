import CallCore
import CallStore
import HTTPSending
import SignalingProtocol
import Support

/// The settings of a pusher.
package struct PusherSettings: Sendable {
    package var push: PushSettings
    /// How long a silent device counts as online, in milliseconds.
    package var lease: Milliseconds
    /// The name of this process in timelines.
    package var name: String
    package var traces = TracePolicy.all
    /// How long timelines are kept, in milliseconds.
    package var traceLife: Milliseconds
    /// False when this process only keeps the policy in the store and counts, and other processes push.
    package var delivers = true
    /// The bound of the calls that are taken, or released, in one step of the store.
    package var inOneStep = 64

    package init(_ push: PushSettings, lease: Milliseconds, name: String, traceLife: Milliseconds) {
        self.push = push
        self.lease = lease
        self.name = name
        self.traceLife = traceLife
    }
}

/// The bounds of `Pusher`. Times are in milliseconds.
enum PushBounds {
    /// The interval of the searches for due calls of all processes; commits of this process are known at once.
    static let search: Int64 = 500
    static let count: Int64 = 1_000
    /// The pause before an operation is repeated that the store failed to do.
    static let pause: Int64 = 100
    /// The interval of the looks at a call with a push under way, so that a push that stops another device's
    /// ringing need not wait for the response.
    static let look: Int64 = 250
    /// A call whose next attempt is further away is released until then.
    static let patience: Int64 = 1_000
    /// How long facts count, from the begin of their reading until a push leaves.
    static let freshness: Int64 = 100
    /// The bound of held calls.
    static let held = 512
    /// Beyond this number of held calls, calls that only wait are released.
    static let heldIdle = 256
    /// The bound of released calls with remembered attempts, and of the times at which calls are taken again.
    static let remembered = 4_096
    static let hints = 4_096
    /// The margin for the difference between this clock and the store's: a call is taken again so long after its
    /// time.
    static let clockError: Int64 = 10
}

/// Wakes phones (docs/decisions/0021): takes calls from the push queue, decides on due pushes, and hands the pushes to
/// the sender while the facts are fresh.
///  A pusher belongs to the thread that calls `turn`, and never waits for the store or a provider. Times are
/// milliseconds of the boot clock, unless they are named as the store's.
package final class Pusher: DeliveryWorker {
    /// Whether the store was told that this process pushes no more.
    private enum Withdrawal {
        case none
        case underWay
        case done
    }

    let settings: PusherSettings
    let store: any PushStore
    let sender: any RequestSender
    package var requests: any RequestSender { sender }
    let providers: PushProviders
    let judge: PushJudge
    /// The boot clock; the clock advances within a turn.
    let clock: () -> Int64
    /// The time of day, because providers compare times with their own clocks.
    let wall: () -> WallTime
    let executor = WorkExecutor()
    private let newName: () -> String
    private(set) var worker: WorkerID
    /// The store's name for this process among the processes that push; unlike `worker`, the name never changes.
    private let process: WorkerID
    /// The time until which the worker lease is sure to last.
    var sureUntil: Int64 = 0
    private(set) var now: Int64
    /// The store's time minus `now`, at the last known moment.
    private var storeClock: Milliseconds?
    private(set) var secret: [UInt8] = []
    /// The deployment's policy in the store; another process may have been started with another file.
    private(set) var knownPolicy: PushPolicy?

    var held: [CallID: LeasedCall] = [:]
    /// The attempts of released calls, kept until the calls are taken again.
    var remembered: [CallID: [PushID: PushAttempt]] = [:]
    /// The times at which released calls are to be taken again.
    var wakes: [CallID: Int64] = [:]
    var nextWake = Int64.max
    var hints: [CallID] = []
    var isFollowingHints = false
    var slots = PushSlots()
    var flights: [UInt64: PushFlight] = [:]
    var lastRequest: UInt64 = 0
    /// The calls that wait for an access token of their provider.
    var waitingForToken: Set<CallID> = []

    var settlements: [PushSettlement] = []
    var isSettling = false
    var nextSettling: Int64 = 0
    var traces: PushTraces
    private var isTracing = false
    private(set) var isStopping = false
    private var isKept = false
    private var withdrawal = Withdrawal.none
    private var nextKeep: Int64? = 0
    private var nextPresence: Int64? = 0
    private var nextRenewal: Int64? = 0
    private var nextRecovery: Int64? = 0
    private var nextSearch: Int64? = 0
    private var nextCount: Int64? = 0
    var counts = PushCounts()
    /// The last failure of the store, while the store fails.
    private var failure: String?
    /// Called with the reason when the store begins to fail, and with nil when the store works again.
    package var onFailure: (String?) -> Void = { _ in }
    package let report = PushReport()

    /// - Parameters:
    ///   - clock: the boot clock, read right before facts are read.
    ///   - newName: returns a name that no worker ever had.
    package init(
        _ store: any PushStore, _ settings: PusherSettings, sender: any RequestSender, clock: @escaping () -> Int64,
        wall: @escaping () -> WallTime = { .now }, newName: @escaping () -> String
    ) {
        self.store = store
        self.settings = settings
        self.sender = sender
        self.clock = clock
        self.wall = wall
        self.newName = newName
        providers = PushProviders(settings.push)
        judge = PushJudge(policy: settings.push.policy, lease: settings.lease)
        traces = PushTraces(settings.traces, name: settings.name)
        process = WorkerID(newName())
        worker = WorkerID(newName())
        now = clock()
    }

    package func committed(_ ids: [RecordID]) {
        guard settings.delivers, !isStopping else { return }
        for callID in ids.compactMap(\.callID) {
            if let call = held[callID] { call.isHinted = true }
            if held[callID].map(\.isSettling) ?? true { hint(callID) }
        }
    }

    package func stop() { isStopping = true }

    package var hasStopped: Bool {
        isStopping && held.isEmpty && settlements.isEmpty && !isSettling && traces.isEmpty && !isTracing
            && (withdrawal == .done || !isKept)
    }

    /// Runs the ready work of a worker in a dead simulated process, so that its tasks end.
    package func giveUp() { executor.run() }

    // MARK: Time

    /// The store's time; while the store's clock cannot be read, the last known offset counts.
    var storeTime: Milliseconds { store.time ?? (storeClock ?? 0) + now }

    package var nextTurn: Int64 {
        let settling = settlements.isEmpty || isSettling ? .max : max(now, nextSettling)
        if isStopping {
            let rest = held.values.filter { !$0.isLooking && !$0.isSettling }.map(\.leavesUntil)
            return min(settling, max(now, rest.min() ?? .max))
        }
        guard isKept else { return min(nextKeep ?? .max, settling) }
        if !hints.isEmpty, !isFollowingHints { return now }
        if !traces.isEmpty, !isTracing { return now }
        var next = min(settling, nextWake)
        for call in held.values where !call.isLooking && !call.isSettling {
            next = min(next, call.isHinted ? now : call.nextLook)
        }
        next = min(next, nextPresence ?? .max, nextRenewal ?? .max, nextRecovery ?? .max)
        return min(next, nextSearch ?? .max, nextCount ?? .max)
    }

    package func turn(_ now: Int64) {
        self.now = max(self.now, now)
        if let time = store.time { storeClock = time - self.now }
        let answers = sender.take()
        guard isStopping || !answers.isEmpty || !executor.isIdle || nextTurn <= self.now else { return }
        for answer in answers { answered(answer) }
        if !held.isEmpty, self.now >= sureUntil { becomeAnother() }
        if isStopping { withdraw() } else { begin() }
        look()
        // Work that has just begun may have ended already.
        for _ in 0..<2 {
            executor.run()
            settle()
            writeTraces()
        }
        executor.run()
        counts.inFlight = flights.count
        counts.held = held.count
        report.update(counts, isFailing: failure != nil)
    }

    private func begin() {
        if !isKept { every(\.nextKeep, PushBounds.pause) { [self] () async throws(StoreError) in try await keep() } }
        guard isKept else { return }
        every(\.nextPresence, PushProcessLease.renewal) { [self] () async throws(StoreError) in
            try await store.pushes(process, for: PushProcessLease.life)
        }
        every(\.nextCount, PushBounds.count) { [self] () async throws(StoreError) in
            guard let kept = try await store.pushPolicy() else {
                // The store has lost the policy.
                isKept = false
                return
            }
            knownPolicy = kept.policy
            let count = try await store.countPushes()
            counts.backlog = count.calls
            counts.age = max(0, storeTime - (count.oldest ?? storeTime))
        }
        guard settings.delivers else {
            (nextRenewal, nextRecovery, nextSearch) = (nil, nil, nil)
            return
        }
        every(\.nextRenewal, WorkerLease.renewal) { [self] () async throws(StoreError) in try await renew() }
        every(\.nextRecovery, WorkerLease.search) { [self] () async throws(StoreError) in
            _ = try await store.recoverPushes()
        }
        wake()
        followHints()
        every(\.nextSearch, PushBounds.search) { [self] () async throws(StoreError) in
            // While more calls are due, they are taken at once.
            while try await take(near: nil) {}
        }
    }

    /// Begins a chore at its time; the next begins `pause` milliseconds after the end of this chore.
    private func every(
        _ next: ReferenceWritableKeyPath<Pusher, Int64?>, _ pause: Int64,
        _ chore: @escaping () async throws(StoreError) -> Void
    ) {
        guard let due = self[keyPath: next], due <= now else { return }
        self[keyPath: next] = nil
        start(chore) { [self] _ in self[keyPath: next] = now + pause }
    }

    func start(_ work: @escaping () async throws(StoreError) -> Void, done: @escaping (_ isDone: Bool) -> Void) {
        executor.start { [self] in
            do throws(StoreError) {
                try await work()
                if failure != nil { onFailure(nil) }
                failure = nil
                done(true)
            } catch {
                if failure == nil { onFailure(error.description) }
                failure = error.description
                done(false)
            }
        }
    }

    // MARK: Chores

    /// Keeps the push policy in the store before any other work: a commit enters no call into the queue while the
    /// policy is unknown.
    private func keep() async throws(StoreError) {
        storeClock = try await store.now() - now
        try await store.keep(settings.push.policy)
        try await store.pushes(process, for: PushProcessLease.life)
        secret = try await store.pushSecret()
        isKept = true
    }

    /// Tells the store that this process pushes no more, so that other processes need not wait for its push lease to
    /// end. If the store fails, the lease ends by itself.
    private func withdraw() {
        guard isKept, withdrawal == .none else { return }
        withdrawal = .underWay
        start { [self] () async throws(StoreError) in
            try await store.pushes(process, for: 0)
        } done: { [self] _ in
            withdrawal = .done
        }
    }

    private func renew() async throws(StoreError) {
        let (began, renewed) = (now, worker)
        if try await store.renew(renewed) {
            // A renewal counts only if the former lease had not ended: another worker may have taken the calls in
            // between.
            if renewed == worker, began < sureUntil { sureUntil = max(sureUntil, began + WorkerLease.life) }
        } else if renewed == worker {
            becomeAnother()
        }
    }

    /// Continues as a new worker without a lease on the held calls. Pushes under way are not settled: the next worker
    /// that takes the calls repeats the pushes.
    func becomeAnother() {
        worker = WorkerID(newName())
        sureUntil = 0
        held = [:]
        settlements = []
        slots.forgetWaiting()
        waitingForToken = []
    }

    private func writeTraces() {
        guard !traces.isEmpty, !isTracing else { return }
        isTracing = true
        let written = traces.take()
        // No work waits for this write, and entries that cannot be written are dropped.
        start { [self] () async throws(StoreError) in
            try await store.trace(written, life: settings.traceLife)
        } done: { [self] _ in
            isTracing = false
        }
    }
}
