import CallCore
import Glibc
import Support
import Synchronization

/// What the coordinator's thread tells the others, and the one thing that they tell it: to stop.
package final class CoordinatorStatus: Sendable {
    package struct Snapshot: Sendable {
        /// Subscribed at the broker: messages are coming in.
        package var isListening = false
        /// How many publications the broker refused one after the other because this coordinator may not publish there.
        package var unauthorizedInARow = 0
        /// Why the store cannot answer, if it cannot.
        package var storeFailure: String?
        /// For how long what could be served has been waiting, in milliseconds.
        package var lateness: Int64 = 0
        package var isDraining = false
        /// How far the store's time is from this machine's wall clock, in milliseconds: for whoever looks after the machines, since
        /// nothing is decided by a wall clock.
        package var clockSkew: Int64 = 0
        /// The monotonic clock at the last turn of the loop, in milliseconds.
        package var lastTurn: Int64 = 0
        package var counters = Counters()
        package var waitingDeadlines = 0
        package var brokerBacklog = 0
    }

    private let state = Mutex(Snapshot())
    /// What else `/metrics` shows, in its format.
    private let more = Mutex<@Sendable () -> String>({ "" })
    private let stopRequested = Atomic<Bool>(false)

    /// A loop that does not turn for this long, in milliseconds, is not healthy.
    private static let stuckAfter: Int64 = 5_000

    /// A publication or two may have an odd topic; when this many are refused one after the other, and none is taken between them,
    /// the coordinator may not publish. The first that is taken ends it.
    private static let unauthorizedMost = 8

    package init() {}

    package func alsoShow(_ metrics: @escaping @Sendable () -> String) { more.withLock { $0 = metrics } }

    var moreMetrics: String { more.withLock(\.self)() }

    /// Asks the coordinator to drain and return from `run`.
    package func stop() { stopRequested.store(true, ordering: .releasing) }

    package var isStopRequested: Bool { stopRequested.load(ordering: .acquiring) }

    package var snapshot: Snapshot { state.withLock { $0 } }

    func update(_ change: (inout Snapshot) -> Void) { state.withLock { change(&$0) } }

    /// The coordinator's loop is turning.
    package var isHealthy: Bool { SystemClock.boot.milliseconds - snapshot.lastTurn < Self.stuckAfter }

    /// Why requests cannot be served now; nil when they can.
    package var notReadyReason: String? {
        let snapshot = snapshot
        if snapshot.isDraining { return "draining" }
        if let failure = snapshot.storeFailure { return "store: \(failure)" }
        if !snapshot.isListening { return "not subscribed at the broker" }
        if snapshot.unauthorizedInARow >= Self.unauthorizedMost {
            return "the broker does not let this coordinator publish: \(snapshot.unauthorizedInARow) refusals in a row"
        }
        if snapshot.lateness >= ServiceBounds.lateAfter {
            return "overloaded: what came waits for \(snapshot.lateness) ms"
        }
        return isHealthy ? nil : "the loop is stuck"
    }
}
