import Synchronization

/// The numbers of spans and calls of a worker that sends spans.
package struct SpanCounts: Sendable, Equatable {
    /// The spans that the receiver has accepted.
    package var sent = 0
    /// The spans that the receiver has refused, or not accepted in any attempt.
    package var failed = 0
    /// The spans for which the queue had no room.
    package var dropped = 0
    /// The ended calls of which no span was made.
    package var droppedCalls = 0
    package var waiting = 0
}

/// The counts of a worker, for other threads.
package final class SpanReport: Sendable {
    private let state = Mutex(SpanCounts())

    package var counts: SpanCounts { state.withLock(\.self) }

    func update(_ counts: SpanCounts) { state.withLock { $0 = counts } }

    /// The counts in the Prometheus text format.
    package var metrics: String {
        let counts = counts
        let spans = "bellwire_otlp_spans_total"
        var text =
            "# HELP \(spans) Spans of calls, by outcome: sent, failed at the receiver, dropped from a full queue.\n"
        text += "# TYPE \(spans) counter\n"
        for (outcome, count) in [("sent", counts.sent), ("failed", counts.failed), ("dropped", counts.dropped)] {
            text += "\(spans){outcome=\"\(outcome)\"} \(count)\n"
        }
        let calls = "bellwire_otlp_calls_dropped_total"
        text += "# HELP \(calls) Ended calls without spans: too many waited, or their timelines could not be read.\n"
        text += "# TYPE \(calls) counter\n\(calls) \(counts.droppedCalls)\n"
        let waiting = "bellwire_otlp_spans_waiting"
        text += "# HELP \(waiting) Spans that wait to be sent.\n# TYPE \(waiting) gauge\n"
        return text + "\(waiting) \(counts.waiting)\n"
    }
}
