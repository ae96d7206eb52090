import CallCore
import CallStore
import SignalingProtocol
import Support

/// What all works of a coordinator share. None of it matters to calls: everything true is in the store, and any other coordinator can
/// go on at any point.
final class ServiceContext {
    let store: any CallStore
    let settings: ServiceSettings
    let budgets: Budgets
    let encoder: MessageEncoder
    var counters = Counters()
    var timers = TimerQueue()
    var usage = StoredUsage()
    var recorder: TraceRecorder
    var setAside = SetAside()
    var tidied = TidyLists()
    var health = StoreHealth()
    /// Is told of the records of which something is owed to endpoints, once it is written.
    var owes: ([RecordID]) -> Void = { _ in }
    /// Is told of the calls because of which somebody may have to be woken, once it is written.
    var owesPushes: ([CallID]) -> Void = { _ in }
    /// By which a user's media may go, with credentials that are good from that time on.
    var iceServers: (UserID, WallTime) -> [IceServer] = { _, _ in [] }
    /// What strangers' clocks are compared with; deadlines are by the store's time.
    var wall: () -> WallTime = { .now }
    /// Those that this coordinator's own settings name. The store is told of them before anything is committed.
    var ownEndpoints: [KeptEndpoint] = []
    /// To whom revisions may be owed; nil while that was never read.
    private var known: [KeptEndpoint]?
    /// What the deployment pushes, nil for nothing; of which nothing is known while that was never read.
    private var policy: KeptPushPolicy??
    /// Since when messages have been coming without a break; silence of members before that does not count.
    var listeningSince: Milliseconds = 0
    /// Waits for some milliseconds, not always the same, when another coordinator is in the middle of something.
    var pause: () async -> Void = {}
    /// Whether this coordinator does something on the record just now.
    var isUnderWay: (RecordID) -> Bool = { _ in false }

    init(_ store: any CallStore, _ settings: ServiceSettings) {
        self.store = store
        self.settings = settings
        budgets = Budgets(settings.limits)
        encoder = MessageEncoder(topics: settings.topics)
        recorder = TraceRecorder(policy: settings.trace, coordinator: settings.coordinator)
    }

    /// To whom revisions may be owed, as it was read a second ago at the earliest: nothing is committed before it is known.
    func endpoints() async throws(StoreError) -> [KeptEndpoint] {
        if let known { return known }
        return try await readEndpoints()
    }

    @discardableResult
    func readEndpoints() async throws(StoreError) -> [KeptEndpoint] {
        if known == nil, !ownEndpoints.isEmpty { try await store.keep(ownEndpoints) }
        let endpoints = try await store.endpoints()
        known = endpoints
        return endpoints
    }

    /// What the deployment pushes, as it was read a second ago at the earliest; nil for nothing.
    func pushPolicy() async throws(StoreError) -> KeptPushPolicy? {
        if let policy { return policy }
        return try await readPushPolicy()
    }

    @discardableResult
    func readPushPolicy() async throws(StoreError) -> KeptPushPolicy? {
        let found = try await store.pushPolicy()
        policy = .some(found)
        return found
    }

    func failed(_ error: StoreError) {
        counters.add(.storeErrors)
        // The store has answered.
        if error.code != .unsettled { health.failed(error) }
    }
}

/// Whether the store answers, as far as the last operations tell.
struct StoreHealth {
    /// The message of the last failure, while it fails.
    private(set) var failure: String?
    /// The failure is one of writing: only a write that succeeds ends it.
    private var isOfWriting = false

    /// It does not answer, so that another coordinator may be better off; one that cannot be written as it should is so for all.
    var isOutOfReach: Bool { failure != nil && !isOfWriting }

    mutating func failed(_ error: StoreError) {
        failure = error.description
        isOfWriting = error.code == .notWritten || isOfWriting
    }

    /// The store has answered; whether what it did was a write.
    mutating func answered(isWrite: Bool) {
        guard isWrite || !isOfWriting else { return }
        failure = nil
        isOfWriting = false
    }
}
