import CallCore
import CallStore
import HTTPServing
import SignalingProtocol

/// Serves `/healthz`, `/readyz` and `/metrics` over HTTP on a thread of its own, so that the server answers also when
/// the coordinator's loop is stuck.
package final class StatusServer: Sendable {
    private let server: HTTPServer
    /// The port that the server listens on; with port 0, the port that the system chose.
    package var port: Int { server.port }

    /// The error when the server cannot listen on the address.
    package struct ListenError: Error, CustomStringConvertible {
        package let description: String
    }

    package init(host: String, port: Int, status: CoordinatorStatus) throws(ListenError) {
        var settings = HTTPServerSettings()
        settings.mostConnections = 64
        settings.mostReserved = 0
        settings.longestTime = 10_000
        do throws(HTTPServer.SetupError) {
            server = try HTTPServer(host: host, port: port, settings: settings) { page($0, status) }
        } catch {
            throw ListenError(description: "--http \(error)")
        }
    }
}

private func page(_ exchange: HTTPExchange, _ status: CoordinatorStatus) -> HTTPResponse {
    func text(_ code: Int, _ text: String) -> HTTPResponse {
        .text(code, text, contentType: "text/plain; version=0.0.4; charset=utf-8")
    }
    guard exchange.method == "GET" || exchange.method == "HEAD" else { return text(405, "only GET\n") }
    switch exchange.path {
    case "/healthz": return status.isHealthy ? text(200, "ok\n") : text(503, "the loop is stuck\n")
    case "/readyz":
        let reason = status.notReadyReason
        return HTTPResponse.text(
            reason == nil ? 200 : 503, String(decoding: readiness(status, reason), as: UTF8.self) + "\n",
            contentType: "application/json")
    case "/metrics":
        return text(200, metrics(status.snapshot) + brokerMetrics(status) + status.moreMetrics)
    default: return text(404, "no such page: /healthz, /readyz, /metrics\n")
    }
}

/// Returns the content of `/readyz`: whether requests are served, the reason when they are not, the states of the store
/// and of each broker, and the settings of the store that may lose calls.
private func readiness(_ status: CoordinatorStatus, _ reason: String?) -> [UInt8] {
    let snapshot = status.snapshot
    return JSONWriter.object { writer in
        writer.field("ready", reason == nil)
        writer.field("reason", reason)
        writer.field("store", snapshot.storeFailure ?? "ok")
        writer.object("brokers") { writer in
            for (name, state) in zip(status.brokerNames, snapshot.brokers) {
                writer.field(named: name, state.rawValue)
            }
        }
        let warnings = snapshot.storeHazards.map(\.description)
        if !warnings.isEmpty { writer.array("warnings") { writer in warnings.forEach { writer.string($0) } } }
    }
}

private func brokerMetrics(_ status: CoordinatorStatus) -> String {
    var text = "# HELP bellwire_broker_up Whether messages are coming in from the broker.\n"
    text += "# TYPE bellwire_broker_up gauge\n"
    for (name, state) in zip(status.brokerNames, status.snapshot.brokers) {
        text += "bellwire_broker_up{broker=\"\(name)\"} \(state == .serving || state == .suspected ? 1 : 0)\n"
    }
    text +=
        "# HELP bellwire_broker_away Whether no coordinator hears the broker, so that its devices count as offline.\n"
    text += "# TYPE bellwire_broker_away gauge\n"
    for name in status.brokerNames {
        text += "bellwire_broker_away{broker=\"\(name)\"} \(status.snapshot.awayBrokers.contains(name) ? 1 : 0)\n"
    }
    return text
}

/// Returns the metrics in the Prometheus text format.
func metrics(_ snapshot: CoordinatorStatus.Snapshot) -> String {
    var text = ""
    for metric in Counters.Metric.allCases {
        text += "# HELP \(metric.name) \(metric.help)\n# TYPE \(metric.name) counter\n"
        if let name = metric.label {
            for (label, count) in snapshot.counters.labels(of: metric) {
                text += "\(metric.name){\(name)=\"\(label)\"} \(count)\n"
            }
        } else {
            text += "\(metric.name) \(snapshot.counters[metric])\n"
        }
    }
    text += snapshot.counters.durations.text
    func gauge(_ name: String, _ help: String, _ value: Int) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) gauge\n\(name) \(value)\n"
    }
    gauge("bellwire_listening", "Whether messages are coming in from a broker.", snapshot.isListening ? 1 : 0)
    gauge("bellwire_store_available", "Whether the store answers.", snapshot.storeFailure == nil ? 1 : 0)
    text += "# HELP bellwire_store_hazard Whether a setting of the store may lose calls.\n"
    text += "# TYPE bellwire_store_hazard gauge\n"
    for kind in StoreHazard.kinds {
        let isThere = snapshot.storeHazards.contains { $0.kind == kind }
        text += "bellwire_store_hazard{hazard=\"\(kind)\"} \(isThere ? 1 : 0)\n"
    }
    if let counts = snapshot.liveCounts {
        gauge("bellwire_calls_live", "Live calls of the whole deployment.", counts.calls)
        gauge("bellwire_invitations_ringing", "Pending invitations of the whole deployment.", counts.ringing)
        gauge("bellwire_devices_online", "Devices of the whole deployment that are online.", counts.devices)
    }
    // Also while the store fails: a full store fails.
    if let fill = snapshot.storeFill {
        gauge("bellwire_store_memory_bytes", "Memory of Redis, or the size of SQLite's file.", Int(fill.bytes))
        if let limit = fill.limit {
            gauge(
                "bellwire_store_memory_limit_bytes",
                "Redis's maxmemory, or the size of SQLite's file and the free room of its disk.", Int(limit))
        }
    }
    text += "# HELP bellwire_store_clock_skew_seconds The store's clock minus this machine's.\n"
    text += "# TYPE bellwire_store_clock_skew_seconds gauge\n"
    text += "bellwire_store_clock_skew_seconds \(seconds(snapshot.clockSkew * 1_000))\n"
    // The name from before, for two releases.
    gauge(
        "bellwire_store_clock_skew_milliseconds", "Deprecated: bellwire_store_clock_skew_seconds.",
        Int(snapshot.clockSkew))
    gauge("bellwire_deadlines_waiting", "Calls whose next deadline this coordinator holds.", snapshot.waitingDeadlines)
    gauge(
        "bellwire_broker_backlog", "Messages that are not sent to brokers yet, or, at QoS 1, not acknowledged.",
        snapshot.brokerBacklog)
    return text
}
