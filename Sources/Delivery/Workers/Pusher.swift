import CallCore
import CallStore
import HTTPSending
import SignalingProtocol
import Support

/// What a pusher is told when it begins.
package struct PusherSettings: Sendable {
    package var push: PushSettings
    /// How long a silent device counts as online, in milliseconds.
    package var lease: Milliseconds
    /// Of this process, as timelines show it.
    package var name: String
    package var traces = TracePolicy.all
    /// How long timelines are kept, in milliseconds.
    package var traceLife: Milliseconds
    /// False: it tells the store what is pushed and counts, and leaves the handing over to others.
    package var delivers = true
    /// Calls that are taken, or let go, in one step of the store at most.
    package var inOneStep = 64

    package init(_ push: PushSettings, lease: Milliseconds, name: String, traceLife: Milliseconds) {
        self.push = push
        self.lease = lease
        self.name = name
        self.traceLife = traceLife
    }
}

/// Wakes phones (docs/decisions/0021): takes the calls because of which somebody may have to be woken, judges what is due to whom, and
/// hands it to the sender while that reading is fresh.
///
/// It belongs to one thread, which calls `turn`; neither the store nor a provider is ever waited for. Times are of the boot clock in
/// milliseconds, unless they are the store's.
package final class Pusher: DeliveryWorker {
    enum Bounds {
        /// How often it is looked everywhere for what is due; what this process has committed is known at once.
        static let search: Int64 = 500
        static let count: Int64 = 1_000
        /// Before something is tried again that the store has failed at.
        static let pause: Int64 = 100
        /// How often a call is looked at while something is under way for it: what ends another device's ringing does not wait for that.
        static let look: Int64 = 250
        /// A call whose next attempt is later is let go until then.
        static let patience: Int64 = 1_000
        /// How long a reading counts, from its beginning to the moment when a push leaves.
        static let freshness: Int64 = 100
        /// Calls that are held.
        static let held = 512
        /// Beyond so many, calls are let go that could only wait.
        static let heldIdle = 256
        /// Calls that were let go, of which attempts are remembered; and moments at which calls are to be taken again.
        static let remembered = 4_096
        static let hints = 4_096
        /// How much later than the store's a moment may come by this clock.
        static let clockError: Int64 = 10
    }

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
    /// The boot clock, as it goes on within a turn.
    let clock: () -> Int64
    /// What providers hold their own clocks against.
    let wall: () -> WallTime
    let executor = WorkExecutor()
    private let newName: () -> String
    private(set) var worker: WorkerID
    /// As the store knows this process among those with push; unlike `worker` it stays.
    private let process: WorkerID
    /// Until when the claims are sure to stand.
    var sureUntil: Int64 = 0
    private(set) var now: Int64
    /// The store's time minus `now`, as it was last known.
    private var storeClock: Milliseconds?
    private(set) var secret: [UInt8] = []
    /// What is pushed by the store: another process may have been started with another file.
    private(set) var knownPolicy: PushPolicy?

    var held: [CallID: HeldCall] = [:]
    /// Of calls that were let go, for when they are taken again.
    var remembered: [CallID: [PushID: PushAttempt]] = [:]
    /// When calls that were let go are to be taken again.
    var wakes: [CallID: Int64] = [:]
    var nextWake = Int64.max
    var hints: [CallID] = []
    var isFollowingHints = false
    var slots = PushSlots()
    var flights: [UInt64: PushFlight] = [:]
    var lastRequest: UInt64 = 0
    /// Calls that wait for a token of their provider.
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
    /// The last failure of the store, while it fails.
    private var failure: String?
    /// Told when the store begins to fail, and with nil when it has come back.
    package var onFailure: (String?) -> Void = { _ in }
    package let report = PushReport()

    /// `clock`: the boot clock, looked at right before something is read. `newName`: names that no worker ever had.
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

    /// It is dead: who waited comes to its end.
    package func giveUp() { executor.run() }

    // MARK: Time

    /// While the store's clock is looked at, it goes on from when it was last known.
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
        // What that has begun may have come to its end at once.
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
        if !isKept { every(\.nextKeep, Bounds.pause) { [self] () async throws(StoreError) in try await keep() } }
        guard isKept else { return }
        every(\.nextPresence, PushProcessLease.renewal) { [self] () async throws(StoreError) in
            try await store.pushes(process, for: PushProcessLease.life)
        }
        every(\.nextCount, Bounds.count) { [self] () async throws(StoreError) in
            guard let kept = try await store.pushPolicy() else {
                // The store has lost it.
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
        every(\.nextSearch, Bounds.search) { [self] () async throws(StoreError) in
            // While there is more, it is taken at once.
            while try await take(near: nil) {}
        }
    }

    /// Begins a chore whose time has come; it is due again so long after its end.
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

    /// What is pushed is known before anything else: of what nobody knows, nothing is entered into the queue.
    private func keep() async throws(StoreError) {
        storeClock = try await store.now() - now
        try await store.keep(settings.push.policy)
        try await store.pushes(process, for: PushProcessLease.life)
        secret = try await store.pushSecret()
        isKept = true
    }

    /// What this process has ended doing nobody else need wait for; where the store fails, its lease ends by itself.
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
            // Of a lease that was over already it says nothing: it may have been forgotten since.
            if renewed == worker, began < sureUntil { sureUntil = max(sureUntil, began + WorkerLease.life) }
        } else if renewed == worker {
            becomeAnother()
        }
    }

    /// The claims are void. Pushes that are on their way are not settled: whoever has taken the calls since sends them again.
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
        // Nobody waits for it, and what cannot be written is dropped.
        start { [self] () async throws(StoreError) in
            try await store.trace(written, life: settings.traceLife)
        } done: { [self] _ in
            isTracing = false
        }
    }
}
