import CallCore
import CallStore
import Glibc
import Support
import Synchronization

/// The state that the coordinator's thread shows to other threads, and their request to stop.
package final class CoordinatorStatus: Sendable {
    package struct Snapshot: Sendable {
        /// Whether the coordinator is subscribed at a broker, so that messages come in.
        package var isListening = false
        /// The state of the connection to each broker, in the order of `brokerNames`.
        package var brokers: [BrokerStatus] = []
        /// The brokers that no coordinator hears.
        package var awayBrokers: [BrokerName] = []
        /// The number of consecutive messages that the broker refused because this coordinator may not publish on their
        /// topics.
        package var unauthorizedInARow = 0
        /// The reason why the store cannot answer, or nil when the store answers.
        package var storeFailure: String?
        /// The settings of the store that may lose calls.
        package var storeHazards: [StoreHazard] = []
        /// How full the store is; nil while unknown.
        package var storeFill: StoreFill?
        /// The live calls, ringing invitations and online devices of the whole deployment; nil while unknown.
        package var liveCounts: LiveCounts?
        /// How long the first request that could begin has been waiting, in milliseconds.
        package var lateness: Int64 = 0
        package var isDraining = false
        /// The store's time minus this machine's wall clock, in milliseconds. Only operators need this value, since no
        /// decision uses a wall clock.
        package var clockSkew: Int64 = 0
        /// The boot clock at a turn of the loop, in milliseconds: the last turn, or at most 100 ms before.
        package var lastTurn: Int64 = 0
        package var counters = Counters()
        package var waitingDeadlines = 0
        package var brokerBacklog = 0
    }

    private let state = Mutex(Snapshot())
    /// Returns further metrics for `/metrics`, in its format.
    private let more = Mutex<@Sendable () -> String>({ "" })
    private let stopRequested = Atomic<Bool>(false)

    /// A loop without a turn for this many milliseconds is not healthy.
    private static let stuckAfter: Int64 = 5_000

    /// After this many consecutive refusals, the coordinator counts as not allowed to publish. A single message may
    /// have an odd topic; the first message that the broker takes resets the count.
    private static let unauthorizedMost = 8

    /// The names of the brokers.
    let brokerNames: [BrokerName]

    package init(brokerNames: [BrokerName] = []) { self.brokerNames = brokerNames }

    package func alsoShow(_ metrics: @escaping @Sendable () -> String) { more.withLock { $0 = metrics } }

    var moreMetrics: String { more.withLock(\.self)() }

    /// Asks the coordinator to drain and return from `run`.
    package func stop() { stopRequested.store(true, ordering: .releasing) }

    package var isStopRequested: Bool { stopRequested.load(ordering: .acquiring) }

    package var snapshot: Snapshot { state.withLock { $0 } }

    func update(_ change: (inout Snapshot) -> Void) { state.withLock { change(&$0) } }

    /// Whether the coordinator's loop is turning.
    package var isHealthy: Bool { SystemClock.boot.milliseconds - snapshot.lastTurn < Self.stuckAfter }

    /// The reason why requests cannot be served now, or nil when they can.
    package var notReadyReason: String? {
        let snapshot = snapshot
        if snapshot.isDraining { return "draining" }
        if let failure = snapshot.storeFailure { return "store: \(failure)" }
        if !snapshot.isListening { return "not subscribed at \(brokerNames.count > 1 ? "any" : "the") broker" }
        if snapshot.unauthorizedInARow >= Self.unauthorizedMost {
            return "the broker does not let this coordinator publish: \(snapshot.unauthorizedInARow) refusals in a row"
        }
        if snapshot.lateness >= ServiceBounds.lateAfter {
            return "overloaded: messages wait for \(snapshot.lateness) ms"
        }
        return isHealthy ? nil : "the loop is stuck"
    }
}
