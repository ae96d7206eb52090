import CallCore
import SignalingProtocol
import Synchronization

/// The numbers of attempts by outcome, and the sizes of the outboxes, by endpoint.
package struct DeliveryCounts: Sendable {
    /// The outcome of an attempt.
    package enum Outcome: String, Sendable, CaseIterable {
        /// The endpoint has accepted the event.
        case taken
        /// A later attempt follows.
        case again
        /// The event became a dead letter.
        case dead
        /// The worker lease had ended, and another worker continues.
        case void
    }

    package struct Endpoint: Sendable {
        package var attempts: [Outcome: Int] = [:]
        package var count = OutboxCount()
        /// How long the oldest entry has been waiting, in milliseconds.
        package var age: Milliseconds = 0
        package var isOff = false
    }

    package var endpoints: [EndpointName: Endpoint] = [:]

    package init() {}
}

/// The counts of a worker, for other threads.
package final class DeliveryReport: Sendable {
    private let state = Mutex((counts: DeliveryCounts(), isFailing: false))

    package init() {}

    package var counts: DeliveryCounts { state.withLock(\.counts) }

    func update(_ counts: DeliveryCounts, isFailing: Bool) { state.withLock { $0 = (counts, isFailing) } }

    /// The counts in the Prometheus text format.
    package var metrics: String {
        let (counts, isFailing) = state.withLock(\.self)
        let endpoints = counts.endpoints.sorted { $0.key < $1.key }
        let attempts = "bellwire_webhook_attempts_total"
        var text =
            "# HELP \(attempts) Attempts to deliver a webhook event, by outcome.\n# TYPE \(attempts) counter\n"
        for (name, endpoint) in endpoints {
            for outcome in DeliveryCounts.Outcome.allCases {
                let count = endpoint.attempts[outcome] ?? 0
                text += "\(attempts){endpoint=\"\(name)\",outcome=\"\(outcome.rawValue)\"} \(count)\n"
            }
        }
        func gauge(_ kind: String, _ help: String, _ value: (DeliveryCounts.Endpoint) -> Int) {
            let metric = "bellwire_webhook_\(kind)"
            text += "# HELP \(metric) \(help)\n# TYPE \(metric) gauge\n"
            for (name, endpoint) in endpoints { text += "\(metric){endpoint=\"\(name)\"} \(value(endpoint))\n" }
        }
        gauge("backlog", "Webhook events that wait in the outbox.") { $0.count.waiting }
        gauge("backlog_age_seconds", "How long the oldest waiting event has been waiting.") { Int($0.age / 1_000) }
        gauge("dead_letters", "Webhook events that were given up.") { $0.count.dead }
        gauge("bytes", "Bytes of waiting events and dead letters in the store.") { $0.count.bytes }
        gauge("off", "Whether the endpoint has answered 410 and is off.") { $0.isOff ? 1 : 0 }
        let failing = "bellwire_webhook_store_failing"
        text += "# HELP \(failing) Whether the store fails; no event is delivered meanwhile.\n"
        return text + "# TYPE \(failing) gauge\n\(failing) \(isFailing ? 1 : 0)\n"
    }
}
