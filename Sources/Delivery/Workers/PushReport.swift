import CallCore
import SignalingProtocol
import Synchronization

/// The numbers of pushes by outcome, and the size of the push queue.
package struct PushCounts: Sendable {
    package struct Label: Hashable, Comparable, Sendable {
        package let platform: PushPlatform
        package let kind: PushKind
        package let outcome: PushOutcome

        package init(_ platform: PushPlatform, _ kind: PushKind, _ outcome: PushOutcome) {
            self.platform = platform
            self.kind = kind
            self.outcome = outcome
        }

        package static func < (lhs: Label, rhs: Label) -> Bool {
            (lhs.platform.rawValue, lhs.kind.rawValue, lhs.outcome.rawValue)
                < (rhs.platform.rawValue, rhs.kind.rawValue, rhs.outcome.rawValue)
        }
    }

    package var outcomes: [Label: Int] = [:]
    package var inFlight = 0
    /// The calls that this worker holds.
    package var held = 0
    /// The calls in the queue, of all workers.
    package var backlog = 0
    /// How long the longest-due call has been due, in milliseconds.
    package var age: Milliseconds = 0

    package init() {}
}

/// A push that was not taken, for operators.
package struct PushNews: Sendable, Equatable {
    package let platform: PushPlatform
    package let outcome: PushOutcome
    /// The status and the reason; nil for Web Push, whose servers are strangers'.
    package let status: Int?
    package let reason: String?

    /// The pause between two reports of a platform, in milliseconds.
    static let pause: Int64 = 60_000
}

/// The counts of a worker, for other threads.
package final class PushReport: Sendable {
    private let state = Mutex((counts: PushCounts(), isFailing: false))

    package init() {}

    package var counts: PushCounts { state.withLock(\.counts) }

    func update(_ counts: PushCounts, isFailing: Bool) { state.withLock { $0 = (counts, isFailing) } }

    /// The counts in the Prometheus text format.
    package var metrics: String {
        let (counts, isFailing) = state.withLock(\.self)
        let total = "bellwire_pushes_total"
        var text = "# HELP \(total) Attempts to push, by outcome.\n# TYPE \(total) counter\n"
        for (label, count) in counts.outcomes.sorted(by: { $0.key < $1.key }) {
            text +=
                "\(total){platform=\"\(label.platform.rawValue)\",kind=\"\(label.kind.rawValue)\","
                + "outcome=\"\(label.outcome.rawValue)\"} \(count)\n"
        }
        func gauge(_ kind: String, _ help: String, _ value: Int) {
            let metric = "bellwire_push_\(kind)"
            text += "# HELP \(metric) \(help)\n# TYPE \(metric) gauge\n\(metric) \(value)\n"
        }
        gauge("in_flight", "Pushes that providers have not answered.", counts.inFlight)
        gauge("held_calls", "Calls that this process holds for pushing.", counts.held)
        gauge("backlog", "Calls with pushes that wait or are under way, in all processes.", counts.backlog)
        gauge(
            "backlog_age_seconds", "How long the longest-waiting call has been due.", Int(counts.age / 1_000))
        gauge("store_failing", "Whether the store fails; no push is sent meanwhile.", isFailing ? 1 : 0)
        return text
    }
}
