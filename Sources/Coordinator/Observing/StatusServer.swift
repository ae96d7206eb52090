import CMicrohttpd
import CallDeciding
import Glibc

/// Answers `/healthz`, `/readyz` and `/metrics` over HTTP.
package final class StatusServer {
    private let status: CoordinatorStatus
    private let daemon: OpaquePointer
    /// The port it listens on, also when port 0 asked for any.
    package let port: Int

    /// Cannot listen there.
    package struct ListenError: Error, CustomStringConvertible {
        package let description: String
    }

    package init(host: String, port: Int, status: CoordinatorStatus) throws(ListenError) {
        self.status = status
        let socket = try listeningSocket(host: host, port: port)
        let context = Unmanaged.passUnretained(status).toOpaque()
        guard let daemon = bellwire_http_start(socket, answer, context) else {
            close(socket)
            throw ListenError(description: "cannot serve HTTP on \(host):\(port)")
        }
        self.daemon = daemon
        self.port = boundPort(socket) ?? port
    }

    deinit { MHD_stop_daemon(daemon) }
}

private func listeningSocket(host: String, port: Int) throws(StatusServer.ListenError) -> Int32 {
    var hints = addrinfo()
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    hints.ai_flags = AI_PASSIVE
    var found: UnsafeMutablePointer<addrinfo>?
    let code = getaddrinfo(host, String(port), &hints, &found)
    guard code == 0, let address = found?.pointee else {
        throw .init(description: "--http \(host):\(port): \(String(cString: gai_strerror(code)))")
    }
    defer { freeaddrinfo(found) }
    let descriptor = socket(address.ai_family, address.ai_socktype, address.ai_protocol)
    var on: Int32 = 1
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
    guard descriptor >= 0, bind(descriptor, address.ai_addr, address.ai_addrlen) == 0, listen(descriptor, 64) == 0
    else {
        let reason = String(cString: strerror(errno))
        if descriptor >= 0 { close(descriptor) }
        throw .init(description: "--http \(host):\(port): \(reason)")
    }
    return descriptor
}

private func boundPort(_ descriptor: Int32) -> Int? {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    return withUnsafeMutablePointer(to: &storage) { pointer in
        pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
            guard getsockname(descriptor, address, &length) == 0 else { return nil }
            // The port lies at the same place for IPv4 and IPv6.
            return address.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                Int(UInt16(bigEndian: $0.pointee.sin_port))
            }
        }
    }
}

/// Runs on microhttpd's thread. The status outlives the daemon, which is stopped before the server is gone.
private func answer(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ url: UnsafePointer<CChar>?,
    _ method: UnsafePointer<CChar>?, _: UnsafePointer<CChar>?, _: UnsafePointer<CChar>?,
    _: UnsafeMutablePointer<Int>?, _: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
    guard let context, let connection, let url, let method else {
        preconditionFailure("microhttpd always passes these")
    }
    let status = Unmanaged<CoordinatorStatus>.fromOpaque(context).takeUnretainedValue()
    let (code, body) = page(String(cString: url), method: String(cString: method), status)
    var bytes = Array(body.utf8)
    return bellwire_http_answer(connection, code, "text/plain; version=0.0.4; charset=utf-8", &bytes, bytes.count)
}

private func page(_ url: String, method: String, _ status: CoordinatorStatus) -> (UInt32, String) {
    guard method == "GET" || method == "HEAD" else { return (405, "only GET\n") }
    switch url {
    case "/healthz": return status.isHealthy ? (200, "ok\n") : (503, "the loop is stuck\n")
    case "/readyz":
        if let reason = status.notReadyReason { return (503, reason + "\n") }
        return (200, "ready\n")
    case "/metrics": return (200, metrics(status.snapshot) + status.moreMetrics)
    default: return (404, "no such page: /healthz, /readyz, /metrics\n")
    }
}

/// The Prometheus text format.
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
    text += snapshot.counters.milestones.text
    func gauge(_ name: String, _ help: String, _ value: Int) {
        text += "# HELP \(name) \(help)\n# TYPE \(name) gauge\n\(name) \(value)\n"
    }
    gauge("bellwire_listening", "Whether messages are coming in from the broker.", snapshot.isListening ? 1 : 0)
    gauge("bellwire_store_available", "Whether the store answers.", snapshot.storeFailure == nil ? 1 : 0)
    gauge("bellwire_store_clock_skew_milliseconds", "The store's clock minus this machine's.", Int(snapshot.clockSkew))
    gauge("bellwire_deadlines_waiting", "Calls whose next deadline this coordinator holds.", snapshot.waitingDeadlines)
    gauge("bellwire_broker_backlog", "Messages that the broker has not acknowledged.", snapshot.brokerBacklog)
    return text
}
