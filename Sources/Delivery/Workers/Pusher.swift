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
    /// Whether this process sends pushes. If not, this process only writes the push policy into the store and reports
    /// counts; other processes push.
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
    /// The interval at which the worker searches the push queue for due calls. The searches find the commits of all
    /// processes; the worker hears of this process's own commits at once.
    static let search: Int64 = 500
    /// The interval between two looks (`LeasedCall`) at a call with a push under way, so that a push that stops another
    /// device's ringing need not wait for the response.
    static let look: Int64 = 250
    /// A call whose next attempt is further away is released until then.
    static let patience: Int64 = 1_000
    /// The longest age of the facts for a push that leaves, from the beginning of their reading.
    static let freshness: Int64 = 100
    /// The bound of held calls.
    static let held = 512
    /// Beyond this number of held calls, calls that only wait are released.
    static let heldIdle = 256
    /// The bound of released calls with remembered pushes, and of the times at which calls are taken again.
    static let remembered = 4_096
    /// The margin for the difference between this clock and the store's: a call is taken again so long after its
    /// time.
    static let clockError: Int64 = 10
}

/// Wakes phones (docs/decisions/0021): takes calls from the push queue, decides on due pushes, and hands the pushes to
/// the sender while the facts are fresh.
///
/// A pusher belongs to the thread that calls `turn`, and never waits for the store or a provider. Times are
/// milliseconds of the boot clock, unless they are named as the store's.
package final class Pusher: LeasedWorker {
    /// Whether the store was told that this process pushes no more.
    private enum Withdrawal {
        case none
        case underWay
        case done
    }

    let settings: PusherSettings
    let store: any PushStore
    let state: LeasedWorkerState<CallID, PushSettlement>
    let providers: PushProviders
    let judge: PushJudge
    /// The boot clock; the clock advances within a turn.
    let clock: () -> Int64
    /// The time of day, because providers compare times with their own clocks.
    let wall: () -> WallTime
    /// The store's name for this process among the processes that push; unlike `worker`, the name never changes.
    private let process: WorkerID
    private(set) var secret: [UInt8] = []
    /// The deployment's policy in the store; another process may have been started with another file.
    private(set) var knownPolicy: PushPolicy?

    var held: [CallID: LeasedCall] = [:]
    /// The pending pushes of released calls, kept until the calls are taken again.
    var remembered: [CallID: [PushID: PendingPush]] = [:]
    /// The times at which released calls are to be taken again.
    var wakes: [CallID: Int64] = [:]
    var nextWake = Int64.max
    var slots = PushSlots()
    var attempts: [UInt64: PushAttempt] = [:]
    var lastRequest: UInt64 = 0
    /// The calls that wait for an access token of their provider.
    var waitingForToken: Set<CallID> = []

    var traces: PushTraces
    private var isTracing = false
    private var withdrawal = Withdrawal.none
    private var nextPresence: Int64? = 0
    var sightings = SightingsLook()
    private var nextSearch: Int64? = 0
    var counts = PushCounts()
    package let report = PushReport()
    /// Hears of a push that was refused or that failed: at most one a minute of each platform.
    package var onNews: (PushNews) -> Void = { _ in }
    /// The time at which `onNews` may hear of a platform again.
    var nextNews: [PushPlatform: Int64] = [:]

    /// - Parameters:
    ///   - clock: the boot clock, read right before facts are read.
    ///   - newName: returns a name that no worker ever had.
    package init(
        _ store: any PushStore, _ settings: PusherSettings, sender: any RequestSender, clock: @escaping () -> Int64,
        wall: @escaping () -> WallTime = { .now }, newName: @escaping () -> String
    ) {
        self.store = store
        self.settings = settings
        self.clock = clock
        self.wall = wall
        providers = PushProviders(settings.push)
        judge = PushJudge(policy: settings.push.policy, lease: settings.lease)
        traces = PushTraces(settings.traces, name: settings.name)
        process = WorkerID(newName())
        state = LeasedWorkerState(
            store, sender: sender, delivers: settings.delivers, inOneStep: settings.inOneStep, now: clock(),
            newName: newName)
    }

    package func committed(_ ids: [RecordID]) {
        guard settings.delivers, !isStopping else { return }
        for callID in ids.compactMap(\.callID) {
            if let call = held[callID] { call.isHinted = true }
            if held[callID].map(\.isSettling) ?? true { hint(callID) }
        }
    }

    package var hasStopped: Bool {
        isStopping && held.isEmpty && state.hasSettled && traces.isEmpty && !isTracing
            && (withdrawal == .done || !state.isKept)
    }

    // MARK: Time

    var nextWork: Int64 {
        if !traces.isEmpty, !isTracing { return now }
        var next = min(nextWake, nextPresence ?? .max)
        for call in held.values where !call.isLooking && !call.isSettling {
            next = min(next, call.isHinted ? now : call.nextLook)
        }
        return state.delivers ? min(next, nextSearch ?? .max) : next
    }

    /// The time from which on no push of a held call leaves any more.
    var nextRelease: Int64 {
        let rest = held.values.filter { !$0.isLooking && !$0.isSettling }.map(\.leavesUntil)
        return max(now, rest.min() ?? .max)
    }

    func checkLease() {
        if !held.isEmpty, now >= state.sureUntil { becomeAnother() }
    }

    func endTurn() {
        look()
        // Work that has just begun may have ended already.
        for _ in 0..<2 {
            state.executor.run()
            settle()
            writeTraces()
        }
        state.executor.run()
        counts.inFlight = attempts.count
        counts.held = held.count
        report.update(counts, isFailing: state.isFailing)
    }

    // MARK: Chores

    func beginKeeping() {
        guard !state.isKept else { return }
        every(\.state.nextKeep, LeasedWorkerBounds.pause) { [self] () async throws(StoreError) in try await keep() }
    }

    func beginChores() {
        every(\.nextPresence, PushProcessLease.renewal) { [self] () async throws(StoreError) in
            try await store.pushes(process, for: PushProcessLease.life)
        }
    }

    func count() async throws(StoreError) {
        guard let kept = try await store.pushPolicy() else {
            // The store has lost the policy.
            state.isKept = false
            return
        }
        knownPolicy = kept.policy
        let count = try await store.countPushes()
        counts.backlog = count.calls
        counts.age = max(0, storeTime - (count.oldest ?? storeTime))
    }

    func recover() async throws(StoreError) { _ = try await store.recoverPushes() }

    func beginWork() {
        wake()
        followHints()
        every(\.nextSearch, PushBounds.search) { [self] () async throws(StoreError) in
            // While more calls are due, they are taken at once.
            while try await take(near: nil) {}
        }
    }

    /// Keeps the push policy in the store before any other work: a commit enters no call into the queue while the
    /// policy is unknown.
    private func keep() async throws(StoreError) {
        state.storeClock = try await store.now() - now
        try await store.keep(settings.push.policy)
        try await store.pushes(process, for: PushProcessLease.life)
        secret = try await store.pushSecret()
        state.isKept = true
    }

    /// Tells the store that this process pushes no more, so that other processes need not wait for its push lease to
    /// end. If the store fails, the lease ends by itself.
    func giveBack() {
        guard state.isKept, withdrawal == .none else { return }
        withdrawal = .underWay
        start { [self] () async throws(StoreError) in
            try await store.pushes(process, for: 0)
        } done: { [self] _ in
            withdrawal = .done
        }
    }

    func renewed(at began: Int64) {
        // A renewal counts only if the former lease had not ended: another worker may have taken the calls in between.
        if began < state.sureUntil { state.sureUntil = max(state.sureUntil, began + WorkerLease.life) }
    }

    func forgetClaims() {
        held = [:]
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
