import CallStore
import SignalingProtocol
import Support

/// The answer of the store about the whole deployment.
enum TopStore {
    case notAsked
    case counted(LiveCounts)
    case failed(String)
}

/// The page of `bellwire top`: what happened in the deployment between two readings.
struct TopPage {
    /// The bounds beyond which something is wrong: those of the alerts (deploy/observability/alerts.yml).
    private enum Bounds {
        static let ring = 0.5
        static let roundTrip = 0.25
        static let fill = 0.8
        static let backlogAge = 60.0
        static let certificate = 14 * 86_400.0
        static let token = 86_400.0
        static let skew = 1.0
        static let limited = 1.0
    }

    private let before: [String: ProcessSample]
    private let now: [ProcessSample]
    private let store: TopStore
    /// Unix time in seconds.
    private let time: Double

    init(before: [ProcessSample], now: [ProcessSample], store: TopStore, time: Double) {
        self.before = Dictionary(before.map { ($0.url, $0) }) { $1 }
        self.now = now
        self.store = store
        self.time = time
    }

    var isSound: Bool { faults.isEmpty }

    var text: String {
        let faults = faults
        var lines = [live, rings, requests, ended, storeLine]
        lines += ["", Self.row("PROCESS", "STATE", "REQUESTS/S", "RING P99", "PROCESSOR", "MEMORY", "VERSION")]
        lines += now.map(row)
        lines += [""] + (faults.isEmpty ? ["nothing is wrong"] : faults.map { "wrong: \($0)" })
        // The pages may be of any server.
        return lines.map(PhoneTimeline.printable).joined(separator: "\n")
    }

    // MARK: The deployment

    private var live: String {
        func count(_ name: String) -> Int? { now.compactMap { $0.metrics.sum(name) }.max().map { Int($0) } }
        func text(_ calls: Int?, _ ringing: Int?, _ devices: Int?) -> String {
            func number(_ count: Int?) -> String { count.map { String($0) } ?? "-" }
            return
                "live       calls \(number(calls))   pending invitations \(number(ringing))   devices \(number(devices))"
        }
        let devices = count("bellwire_devices_online")
        // The store does not know for how long a device counts as online (`--presence-lease`); coordinators do.
        if case .counted(let counts) = store { return text(counts.calls, counts.ringing, devices ?? counts.devices) }
        return text(count("bellwire_calls_live"), count("bellwire_invitations_ringing"), devices)
    }

    private var rings: String {
        let acks = rate("bellwire_ring_ack_seconds_count")
        return "rings      \(perSecond(rate("bellwire_ring_seconds_count")))   \(quantiles("bellwire_ring_seconds"))   "
            + "acknowledged \(perSecond(acks))"
    }

    private var requests: String {
        let failed = rate("bellwire_responses_total") { $0["outcome"] != "ok" }
        return "requests   \(perSecond(rate("bellwire_responses_total")))   \(quantiles("bellwire_request_seconds"))   "
            + "refused \(perSecond(failed))"
    }

    private var ended: String {
        var rates: [String: Double] = [:]
        for sample in now {
            for reason in sample.metrics.sums("bellwire_calls_ended_total", by: "reason").keys {
                let rate = rate("bellwire_calls_ended_total", of: sample) { $0["reason"] == reason }
                rates[reason, default: 0] += rate
            }
        }
        let reasons = rates.filter { $0.value > 0 }.sorted { ($1.value, $0.key) < ($0.value, $1.key) }
        let list = reasons.map { "\($0.key) \(decimal($0.value))" }.joined(separator: ", ")
        return "ended      \(perSecond(rates.values.reduce(0, +)))" + (list.isEmpty ? "" : "   \(list)")
    }

    private var storeLine: String {
        var text = "store      \(quantiles("bellwire_store_seconds"))"
        if let bytes = now.compactMap({ $0.metrics.sum("bellwire_store_memory_bytes") }).max() {
            text += "   \(megabytes(bytes))"
            if let fill { text += ", \(percent(fill)) of what it may have" }
        }
        return text
    }

    private var fill: Double? {
        now.compactMap { sample in
            guard let bytes = sample.metrics.sum("bellwire_store_memory_bytes"),
                let limit = sample.metrics.sum("bellwire_store_memory_limit_bytes"), limit > 0
            else { return nil }
            return bytes / limit
        }.max()
    }

    // MARK: Processes

    private func row(_ sample: ProcessSample) -> String {
        guard sample.unreachable == nil else { return Self.row(sample.url, "no answer", "-", "-", "-", "-", "-") }
        let metrics = sample.metrics
        let responses = sample.isCoordinator ? "bellwire_responses_total" : "bellwire_gateway_responses_total"
        let ring = quantile(0.99, buckets("bellwire_ring_seconds", of: [sample]))
        return Self.row(
            sample.url, sample.notReady == nil ? "ready" : "not ready", decimal(rate(responses, of: sample)),
            ring.map(milliseconds) ?? "-", percent(rate("process_cpu_seconds_total", of: sample)),
            metrics.sum("process_resident_memory_bytes").map(megabytes) ?? "-",
            metrics.sums("bellwire_build_info", by: "version").keys.first ?? "-")
    }

    private static func row(
        _ process: String, _ state: String, _ requests: String, _ ring: String, _ processor: String, _ memory: String,
        _ version: String
    ) -> String {
        let columns = [(process, 32), (state, 10), (requests, 11), (ring, 10), (processor, 10), (memory, 10)]
        return columns.map { text, width in
            text + String(repeating: " ", count: max(1, width - text.count))
        }.joined() + version
    }

    // MARK: Faults

    private var faults: [String] {
        var faults: [String] = []
        for sample in now {
            if let reason = sample.unreachable {
                faults.append("\(sample.url) cannot be read: \(reason)")
            } else if let reason = sample.notReady {
                faults.append("\(sample.url) is not ready: \(reason)")
            }
        }
        if case .failed(let reason) = store { faults.append(reason) }
        faults += faultsOfRings + faultsOfStore + faultsOfBrokers + faultsOfDeliveries + faultsOfTime
        return faults
    }

    private var faultsOfRings: [String] {
        var faults: [String] = []
        let rings = rate("bellwire_ring_seconds_count")
        if rings > 1, rate("bellwire_ring_ack_seconds_count") < rings / 2 {
            faults.append("devices do not acknowledge invitations (BellwireReceiptsFall)")
        }
        if let ring = quantile(0.99, buckets("bellwire_ring_seconds", of: now)), ring > Bounds.ring {
            faults.append("a ring takes \(milliseconds(ring)) (BellwireRingSlow)")
        }
        for limit in Set(now.flatMap { $0.metrics.sums("bellwire_limited_total", by: "limit").keys }).sorted() {
            let rate = rate("bellwire_limited_total") { $0["limit"] == limit }
            if rate > Bounds.limited {
                faults.append("users meet the limit \(limit) \(decimal(rate)) times a second (BellwireUsersLimited)")
            }
        }
        return faults
    }

    private var faultsOfStore: [String] {
        var faults: [String] = []
        if let fill, fill > Bounds.fill {
            faults.append("the store is full to \(percent(fill)) (BellwireStoreFills)")
        }
        let hazards = now.flatMap { sample in
            sample.metrics.sums("bellwire_store_hazard", by: "hazard").filter { $0.value > 0 }.keys
        }
        for hazard in Set(hazards).sorted() { faults.append("the store's settings may lose calls: \(hazard)") }
        return faults
    }

    private var faultsOfBrokers: [String] {
        let coordinators = now.filter(\.isCoordinator)
        var faults: [String] = []
        for broker in Set(coordinators.flatMap { $0.metrics.sums("bellwire_broker_up", by: "broker").keys }).sorted() {
            let isUp = coordinators.contains { $0.metrics.sums("bellwire_broker_up", by: "broker")[broker] == 1 }
            let roundTrip = quantile(
                0.9, buckets("bellwire_broker_round_trip_seconds", of: coordinators) { $0["broker"] == broker })
            if !isUp {
                faults.append("no coordinator hears the broker \(broker) (BellwireBrokerSlow)")
            } else if let roundTrip, roundTrip > Bounds.roundTrip {
                faults.append("the broker \(broker) takes \(milliseconds(roundTrip)) (BellwireBrokerSlow)")
            }
        }
        return faults
    }

    private var faultsOfDeliveries: [String] {
        var faults: [String] = []
        let names = ["bellwire_webhook_backlog_age_seconds": "webhooks", "bellwire_push_backlog_age_seconds": "pushes"]
        for (metric, name) in names.sorted(by: { $0.key < $1.key }) {
            var ages: [String: Double] = [:]
            for sample in now {
                ages.merge(sample.metrics.sums(metric, by: "endpoint")) { max($0, $1) }
            }
            for (endpoint, age) in ages.sorted(by: { $0.key < $1.key }) where age > Bounds.backlogAge {
                let place = endpoint.isEmpty ? "" : " for \(endpoint)"
                faults.append("\(name)\(place) wait for \(Int(age)) s (BellwireBacklogAges)")
            }
        }
        for platform in Set(now.flatMap { $0.metrics.sums("bellwire_pushes_total", by: "platform").keys }).sorted() {
            let all = rate("bellwire_pushes_total") { $0["platform"] == platform }
            let failed = rate("bellwire_pushes_total") {
                $0["platform"] == platform && ["refused", "failed"].contains($0["outcome"])
            }
            if failed > all / 2 { faults.append("\(platform) takes no pushes (BellwirePushesFail)") }
        }
        return faults
    }

    private var faultsOfTime: [String] {
        var faults: [String] = []
        for sample in now {
            for (name, end) in sample.metrics.sums("bellwire_certificate_expiry_seconds", by: "name")
            where end - time < Bounds.certificate {
                faults.append("\(sample.url): a certificate ends \(days(end)): \(name) (BellwireCertificateEnds)")
            }
            if let end = sample.metrics.sum("bellwire_token_expiry_seconds"), end - time < Bounds.token {
                faults.append("\(sample.url): its token ends \(days(end)) (BellwireCertificateEnds)")
            }
            if let skew = sample.metrics.sum("bellwire_store_clock_skew_seconds"), abs(skew) > Bounds.skew {
                faults.append("\(sample.url): its clock is \(decimal(abs(skew))) s off the store's (BellwireClockOff)")
            }
        }
        return faults
    }

    private func days(_ end: Double) -> String {
        end < time ? "in the past" : "in \(Int((end - time) / 86_400)) days"
    }

    // MARK: Rates

    private func rate(_ name: String, where isCounted: ([String: String]) -> Bool = { _ in true }) -> Double {
        now.map { rate(name, of: $0, where: isCounted) }.reduce(0, +)
    }

    /// Returns the increase per second. A counter that has fallen began anew with its process.
    private func rate(
        _ name: String, of sample: ProcessSample, where isCounted: ([String: String]) -> Bool = { _ in true }
    ) -> Double {
        guard let former = before[sample.url], former.unreachable == nil, sample.at > former.at,
            let value = sample.metrics.sum(name, where: isCounted)
        else { return 0 }
        let increase = value - (former.metrics.sum(name, where: isCounted) ?? 0)
        return max(0, increase) * 1_000 / Double(sample.at - former.at)
    }

    private func buckets(
        _ name: String, of samples: [ProcessSample], where isCounted: ([String: String]) -> Bool = { _ in true }
    ) -> [Double: Double] {
        var increases: [Double: Double] = [:]
        for sample in samples {
            guard let former = before[sample.url], former.unreachable == nil else { continue }
            let known = former.metrics.buckets(name, where: isCounted)
            for (bound, count) in sample.metrics.buckets(name, where: isCounted) {
                increases[bound, default: 0] += max(0, count - (known[bound] ?? 0))
            }
        }
        return increases
    }

    private func quantiles(_ name: String) -> String {
        let buckets = buckets(name, of: now)
        func text(_ share: Double) -> String { quantile(share, buckets).map(milliseconds) ?? "-" }
        return "p50 \(text(0.5))   p99 \(text(0.99))"
    }

    private func perSecond(_ rate: Double) -> String { "\(decimal(rate))/s" }

    // MARK: Numbers

    /// Returns a number with one decimal.
    private func decimal(_ number: Double) -> String {
        let tenths = Int((number * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }

    private func milliseconds(_ seconds: Double) -> String { "\(decimal(seconds * 1_000)) ms" }

    private func megabytes(_ bytes: Double) -> String { "\(Int((bytes / 1_048_576).rounded())) MiB" }

    private func percent(_ share: Double) -> String { "\(Int((share * 100).rounded())) %" }
}
