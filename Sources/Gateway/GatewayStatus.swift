import HTTPServing
import Synchronization

/// The state of a gateway's threads, for `/readyz`, `/metrics` and the log.
package final class GatewayStatus: Sendable {
    struct Snapshot: Sendable {
        /// Whether responses come in from the broker.
        var isListening = false
        /// The last known reason why the broker cannot be used.
        var brokerFailure: String?
        /// Whether the store has answered or failed once; before that, its state is unknown.
        var isStoreKnown = false
        /// The reason why the store cannot answer; nil while the store works.
        var storeFailure: String?
        /// The number of open streams of events.
        var streams = 0
        /// The numbers of responses, by route and status.
        var responses: [Key: Int] = [:]
        var durations = DurationHistogram()
    }

    struct Key: Hashable, Comparable, Sendable {
        /// A route, or "other".
        let route: String
        let status: Int

        static func < (left: Key, right: Key) -> Bool { (left.route, left.status) < (right.route, right.status) }
    }

    private let state = Mutex(Snapshot())
    private let log: @Sendable (Notice) -> Void
    /// Further metrics for `/metrics`, in the same format.
    private let more = Mutex<@Sendable () -> String>({ "" })

    /// A notice for the operator.
    package enum Notice: Sendable {
        case listening
        case brokerLost(String)
        case storeFails(String)
        case storeIsBack
        /// The keys were read; some keys were ignored, each with a reason.
        case keysRead(unusable: [String])
        case keysUnreadable(String)
        /// An administrator wants lines in the log from this level on.
        case logLevel(String)
    }

    package init(log: @escaping @Sendable (Notice) -> Void = { _ in }) { self.log = log }

    package func alsoShow(_ metrics: @escaping @Sendable () -> String) { more.withLock { $0 = metrics } }

    var snapshot: Snapshot { state.withLock(\.self) }

    func update(_ change: (inout Snapshot) -> Void) { state.withLock { change(&$0) } }

    func tell(_ notice: Notice) { log(notice) }

    func lost(_ reason: String) {
        let isNew = state.withLock { state in
            defer { state.brokerFailure = reason }
            return state.isListening || state.brokerFailure != reason
        }
        if isNew { log(.brokerLost(reason)) }
    }

    func listens() {
        state.withLock { $0.brokerFailure = nil }
        log(.listening)
    }

    func store(failure: String?) {
        let before = state.withLock { state in
            defer {
                state.storeFailure = failure
                state.isStoreKnown = true
            }
            return state.storeFailure
        }
        if let failure, before == nil { log(.storeFails(failure)) }
        if failure == nil, before != nil { log(.storeIsBack) }
    }

    func answered(_ route: Route?, _ status: Int, milliseconds: Double) {
        state.withLock { state in
            state.responses[Key(route: route?.rawValue ?? "other", status: status), default: 0] += 1
            state.durations.add(milliseconds)
        }
    }

    /// The reason why requests cannot be served now; nil when requests can be served.
    package var notReadyReason: String? {
        let snapshot = snapshot
        if !snapshot.isListening { return "not connected to the broker: \(snapshot.brokerFailure ?? "connecting")" }
        guard snapshot.isStoreKnown else { return "the store has not answered yet" }
        return snapshot.storeFailure.map { "the store fails: \($0)" }
    }

    /// The metrics in the Prometheus text format.
    func metrics(_ server: HTTPServerCounts) -> String {
        let snapshot = snapshot
        var text = ""
        func head(_ name: String, _ kind: String, _ help: String) {
            text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind)\n"
        }
        head("bellwire_gateway_responses_total", "counter", "Responses, by route and status.")
        for (key, count) in snapshot.responses.sorted(by: { $0.key < $1.key }) {
            text += "bellwire_gateway_responses_total{route=\"\(key.route)\",status=\"\(key.status)\"} \(count)\n"
        }
        head("bellwire_gateway_seconds", "histogram", "Seconds from a whole request to its response.")
        text += snapshot.durations.text("bellwire_gateway_seconds")
        head("bellwire_gateway_listening", "gauge", "Whether responses are coming in from the broker.")
        text += "bellwire_gateway_listening \(snapshot.isListening ? 1 : 0)\n"
        head("bellwire_gateway_streams", "gauge", "Open streams of events.")
        text += "bellwire_gateway_streams \(snapshot.streams)\n"
        head("bellwire_gateway_store_available", "gauge", "Whether the store answers.")
        text += "bellwire_gateway_store_available \(snapshot.isStoreKnown && snapshot.storeFailure == nil ? 1 : 0)\n"
        return text + Self.metrics(server) + more.withLock(\.self)()
    }
}

extension GatewayStatus {
    private static func metrics(_ server: HTTPServerCounts) -> String {
        var text = ""
        func add(_ name: String, _ kind: String, _ help: String, _ value: Int) {
            text += "# HELP \(name) \(help)\n# TYPE \(name) \(kind)\n\(name) \(value)\n"
        }
        add("bellwire_http_connections", "gauge", "HTTP connections.", server.open)
        add(
            "bellwire_http_refused_total", "counter", "Connections or requests refused because there were too many.",
            server.refused)
        add(
            "bellwire_http_gave_way_total", "counter", "Idle connections closed for newcomers, at the bound.",
            server.gaveWay)
        add("bellwire_http_late_total", "counter", "Connections of clients that took too long.", server.late)
        return text
    }
}

/// The times that responses took.
struct DurationHistogram: Sendable {
    private static let bounds: [Double] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000]
    private var counts = [Int](repeating: 0, count: bounds.count)
    private var count = 0
    private var sum = 0.0

    mutating func add(_ milliseconds: Double) {
        for (place, bound) in Self.bounds.enumerated() where milliseconds <= bound { counts[place] += 1 }
        count += 1
        sum += milliseconds
    }

    func text(_ name: String) -> String {
        var text = ""
        for (bound, count) in zip(Self.bounds, counts) { text += "\(name)_bucket{le=\"\(bound / 1_000)\"} \(count)\n" }
        return text + "\(name)_bucket{le=\"+Inf\"} \(count)\n\(name)_sum \(sum / 1_000)\n\(name)_count \(count)\n"
    }
}
