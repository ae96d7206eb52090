import SignalingProtocol

/// A distribution of durations, as Prometheus keeps it: the counts of values by size, their sum and their number.
package struct Histogram: Sendable, Equatable {
    /// The number of values in each bucket: above the bound before, and at most the bucket's own bound. The last bucket
    /// has no bound.
    private(set) var buckets: [Int]
    /// The sum of the values, in microseconds.
    private(set) var sum: Int64 = 0

    init(bounds: Int) { buckets = [Int](repeating: 0, count: bounds + 1) }

    package var count: Int { buckets.reduce(0, +) }

    mutating func add(_ microseconds: Int64, bounds: [Int64]) {
        buckets[bounds.firstIndex { microseconds <= $0 } ?? bounds.count] += 1
        sum += microseconds
    }
}

/// The durations that a coordinator has measured since its start, shown by `/metrics`.
package struct Histograms: Sendable {
    package struct Labels: Hashable, Comparable, Sendable {
        let first: String
        let second: String

        package static func < (lhs: Labels, rhs: Labels) -> Bool { (lhs.first, lhs.second) < (rhs.first, rhs.second) }
    }

    private var values = [[Labels: Histogram]](repeating: [:], count: DurationMetric.allCases.count)

    package init() {}

    /// Adds a value. The labels come from fixed sets, so that no device can create metrics without end.
    mutating func add(_ duration: DurationMetric, _ microseconds: Int64, _ first: String = "", _ second: String = "") {
        let bounds = duration.bounds
        values[duration.rawValue][Labels(first: first, second: second), default: Histogram(bounds: bounds.count)]
            .add(microseconds, bounds: bounds)
    }

    /// Adds a milestone of a call. Unknown names share a histogram.
    mutating func add(_ milestone: Milestone, role: String) {
        let name = Milestone.wellKnown.contains(milestone.name) ? milestone.name : "other"
        // A device may report any number of milliseconds.
        let (microseconds, isTooLong) = milestone.milliseconds.multipliedReportingOverflow(by: 1_000)
        add(.milestone, isTooLong ? .max / 1_000_000 : microseconds, name, role)
    }

    package subscript(duration: DurationMetric, first: String, second: String) -> Histogram? {
        values[duration.rawValue][Labels(first: first, second: second)]
    }

    package func isEmpty(_ duration: DurationMetric) -> Bool { values[duration.rawValue].isEmpty }

    /// All histograms in the text format of Prometheus.
    var text: String {
        var text = ""
        for duration in DurationMetric.allCases {
            text += describe(duration, duration.name, duration.help, seconds)
        }
        // The name from before, for two releases.
        return text
            + describe(.milestone, "bellwire_milestone_milliseconds", "Deprecated: bellwire_milestone_seconds.") {
                String($0 / 1_000)
            }
    }

    private func describe(
        _ duration: DurationMetric, _ name: String, _ help: String, _ number: (Int64) -> String
    ) -> String {
        var text = "# HELP \(name) \(help)\n# TYPE \(name) histogram\n"
        let bounds = duration.bounds.map(number)
        for (values, histogram) in values[duration.rawValue].sorted(by: { $0.key < $1.key }) {
            let labels = zip(duration.labels, [values.first, values.second]).map { "\($0)=\"\($1)\"" }
            var count = 0
            for (bound, more) in zip(bounds + ["+Inf"], histogram.buckets) {
                count += more
                text += "\(name)_bucket{\((labels + ["le=\"\(bound)\""]).joined(separator: ","))} \(count)\n"
            }
            let own = labels.isEmpty ? "" : "{\(labels.joined(separator: ","))}"
            text += "\(name)_sum\(own) \(number(histogram.sum))\n\(name)_count\(own) \(count)\n"
        }
        return text
    }
}

/// The durations that a coordinator measures.
package enum DurationMetric: Int, CaseIterable, Sendable {
    case ring
    case ringAck
    case request
    case store
    case brokerRoundTrip
    case milestone

    /// The name of the metric in `/metrics`.
    var name: String {
        switch self {
        case .ring: "bellwire_ring_seconds"
        case .ringAck: "bellwire_ring_ack_seconds"
        case .request: "bellwire_request_seconds"
        case .store: "bellwire_store_seconds"
        case .brokerRoundTrip: "bellwire_broker_round_trip_seconds"
        case .milestone: "bellwire_milestone_seconds"
        }
    }

    var labels: [String] {
        switch self {
        case .ring: []
        case .ringAck: ["platform"]
        case .request: ["type", "outcome"]
        case .store: ["operation"]
        case .brokerRoundTrip: ["broker"]
        case .milestone: ["milestone", "role"]
        }
    }

    var help: String {
        switch self {
        case .ring:
            "From reading a call.invite or call.add until its first call.invited was handed to the broker, for users with a connected device."
        case .ringAck:
            "From an invitation until a device's first ack of the call, by whether a push had woken the device."
        case .request: "From reading a request until its response was handed to the broker, by type and outcome."
        case .store: "How long the store took to answer, by operation."
        case .brokerRoundTrip: "How long the broker took to deliver a message of this coordinator to this coordinator."
        case .milestone: "Milestones of calls, as devices reported them."
        }
    }

    /// The upper bounds of the buckets, in microseconds.
    var bounds: [Int64] {
        switch self {
        case .ring, .request, .store, .brokerRoundTrip: Self.short
        case .ringAck: Self.ringing
        case .milestone: Self.milestones
        }
    }

    private static let short: [Int64] = [
        500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000,
    ]
    private static let ringing: [Int64] = [
        25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
    ]
    private static let milestones: [Int64] = [
        50_000, 100_000, 200_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
    ]
}

/// Returns microseconds as seconds, in decimal digits without rounding.
func seconds(_ microseconds: Int64) -> String {
    let (whole, rest) = microseconds.magnitude.quotientAndRemainder(dividingBy: 1_000_000)
    var text = microseconds < 0 ? "-\(whole)" : "\(whole)"
    guard rest > 0 else { return text }
    let digits = String(rest)
    text += "." + String(repeating: "0", count: 6 - digits.count) + digits
    while text.hasSuffix("0") { text.removeLast() }
    return text
}
