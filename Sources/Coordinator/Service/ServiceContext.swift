import CallCore
import CallStore
import SignalingProtocol
import Support

/// The state that all requests of a coordinator share. No call depends on this state: all calls are in the store, and
/// any other coordinator can continue at any point.
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
    var lastHeard = LastHeard()
    var rollCalls = RollCalls()
    /// The brokers that are away, as of this coordinator's last report.
    var awayBrokers: [BrokerName] = []
    /// The numbers of live calls, ringing invitations and online devices at the last count; nil when the count failed.
    var liveCounts: LiveCounts?
    /// The users whom administrators have disabled, as read at most some seconds ago; nil until they were read.
    var disabledUsers: Set<UserID>?
    /// The time at which the disabled users were last read, by the clock of `stopwatch`.
    var disabledUsersReadAt: Int64 = 0
    /// The disabled users who are still to be signed out.
    var usersToKeepOut: Set<UserID> = []
    var logLevelWatch = LogLevelWatch()
    /// Called with the level from which on an administrator wants lines in the log.
    var onLogLevel: (String) -> Void = { _ in }
    /// Called with each response that was handed to a broker, and its duration in microseconds; nil when nobody wants
    /// to know.
    var onResponse: ((_ to: String, RequestOrigin, _ outcome: String, _ microseconds: Int64) -> Void)?
    var tidied = TidyLists()
    var health = StoreHealth()
    /// Called with the records that have new outbox entries for webhook endpoints, once they are written.
    var onOutboxEntries: ([RecordID]) -> Void = { _ in }
    /// Called with the calls that have new outbox entries for their rooms, once they are written.
    var onRooms: ([RecordID]) -> Void = { _ in }
    /// Called with the calls that may have to be pushed, once they are written.
    var onPushes: ([CallID]) -> Void = { _ in }
    /// Returns the ICE servers for a user's media, with credentials that are valid from the given time on.
    var iceServers: (UserID, WallTime) -> [BellwireIceServer] = { _, _ in [] }
    /// Returns a media session for a member, with a token that is valid from the given time on; nil when the process
    /// has no settings of media servers.
    var mediaSession: ((MediaMember, WallTime) -> BellwireMediaSession?)?
    /// Called with a call that has ended and may have a timeline; nil when nobody sends the timeline on, so that the
    /// timeline needs no origins of requests.
    var onTimelineEnd: ((CallID) -> Void)?
    /// The clock for measured durations, in microseconds.
    var stopwatch: () -> Int64 = { SystemClock.boot.microseconds }
    /// The wall clock, to compare with clocks outside the deployment; deadlines use the store's time.
    var wall: () -> WallTime = { .now }
    /// The endpoints in this coordinator's own settings. These endpoints are written to the store before the first
    /// commit.
    var ownEndpoints: [KeptEndpoint] = []
    /// The endpoints that webhook events may go to; nil until they were read.
    private var known: [KeptEndpoint]?
    /// The kinds of pushes that the deployment sends. The inner nil means that the deployment sends no pushes; the
    /// outer nil means that the policy was never read.
    private var policy: KeptPushPolicy??
    /// The time when inbound messages began to arrive without a break. Silence of members before that time does not
    /// count.
    var listeningSince: Milliseconds = 0
    /// Waits for a varying number of milliseconds while another writer finishes a commit.
    var pause: () async -> Void = {}
    /// Whether this coordinator is serving the record at this moment.
    var isUnderWay: (RecordID) -> Bool = { _ in false }

    init(_ store: any CallStore, _ settings: ServiceSettings) {
        self.store = store
        self.settings = settings
        budgets = Budgets(settings.limits)
        encoder = MessageEncoder(topics: settings.topics)
        recorder = TraceRecorder(policy: settings.trace, coordinator: settings.coordinator)
    }

    /// Returns the endpoints that webhook events may go to, as read at most about a second ago. No commit is written
    /// before the endpoints are known.
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

    /// Returns the kinds of pushes that the deployment sends, as read at most about a second ago, or nil for none.
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
        // `unsettled` means that the store has answered.
        if error.code != .unsettled { health.failed(error) }
    }
}

/// Whether the store answers, as far as the last operations show.
struct StoreHealth {
    /// The message of the last failure, while the store fails.
    private(set) var failure: String?
    /// Whether writing failed: only a successful write ends the failure.
    private var isOfWriting = false

    /// Whether the store does not answer this coordinator, so that another coordinator may do better. A store that
    /// cannot be written fails for all coordinators.
    var isOutOfReach: Bool { failure != nil && !isOfWriting }

    mutating func failed(_ error: StoreError) {
        failure = error.description
        isOfWriting = error.code == .notWritten || isOfWriting
    }

    /// Notes that the store has answered a write or a read.
    mutating func answered(isWrite: Bool) {
        guard isWrite || !isOfWriting else { return }
        failure = nil
        isOfWriting = false
    }
}
