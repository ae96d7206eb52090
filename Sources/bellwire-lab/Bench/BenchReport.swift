import BellwireCommands
import MQTTClient

/// The results of a measurement. Times are in milliseconds, processor times in microseconds.
struct BenchReport {
    let bench: Bench
    private(set) var calls = LoadOutcome()
    private var used = Usage()
    var failedCalls = 0
    var response = Latencies()
    var inviteToRing = Latencies()
    var acceptToKnown = Latencies()
    var unloadedInviteToRing = Latencies()
    var halfRate = 0.0
    var inviteToRingAtHalf = Latencies()
    var relay = LoadOutcome()
    var relayRoundTrip = Latencies()
    var relayCPU = 0.0
    var storeBytesPerLiveCall: Double?
    /// The memory of the largest coordinator after each minute of a soak, in kilobytes.
    var coordinatorMemorySamples: [Int] = []

    init(bench: Bench) { self.bench = bench }

    /// Adds the results of a round.
    mutating func add(_ outcome: LoadOutcome, _ usage: Usage) {
        calls += outcome
        failedCalls += outcome.failed
        used = used + usage
    }

    private var ratioToRelay: Double { relay.perSecond > 0 ? calls.perSecond / relay.perSecond : 0 }

    private var ringRatio: Double {
        let roundTrip = relayRoundTrip.percentile(0.5)
        return roundTrip > 0 ? unloadedInviteToRing.percentile(0.5) / roundTrip : 0
    }

    private func perCall(_ value: Double) -> Double { value / Double(max(1, calls.done)) }

    var title: String {
        var parts = [
            bench.store.rawValue, "\(bench.coordinators) coordinator\(bench.coordinators == 1 ? "" : "s")",
            "QoS \(bench.qos.rawValue)",
        ]
        if bench.live > 0 { parts.append("\(bench.live) live calls") }
        if bench.shape.members > 2 { parts.append("\(bench.shape.members) members") }
        if bench.shape.devices > 1 { parts.append("\(bench.shape.devices) devices") }
        return parts.joined(separator: ", ")
    }

    /// The report as a table.
    var table: String {
        let offered = bench.rate.map { ", \(text($0)) offered" } ?? ""
        var rows: [(String, String)] = [
            ("full calls per second\(offered)", text(calls.perSecond)),
            ("the bare relay's equivalent", text(relay.perSecond)),
            ("ratio", text(ratioToRelay, 2)),
            ("failed calls", "\(failedCalls)"),
            ("not begun: too many at the same time", "\(calls.skipped)"),
            ("messages per call", text(calls.messagesPerCall)),
            (
                "bytes per message, up and down",
                "\(text(calls.bytesPerMessageUp, 0)), \(text(calls.bytesPerMessageDown, 0))"
            ),
            ("store round trips per call", text(perCall(used.storeRoundTrips), 2)),
            ("request → response", pair(response)),
            ("invite → ring", pair(inviteToRing)),
            ("accept → the inviter knows", pair(acceptToKnown)),
            ("invite → ring at \(text(halfRate)) calls/s", pair(inviteToRingAtHalf)),
            ("invite → ring, unloaded", pair(unloadedInviteToRing)),
            ("the relay's round trip, unloaded", pair(relayRoundTrip)),
            ("ratio of the two, p50", text(ringRatio, 2)),
            ("CPU per call: coordinators", text(perCall(used.coordinators)) + " µs"),
            ("  broker", text(perCall(used.broker)) + " µs"),
            ("  store", bench.store == .redis ? text(perCall(used.store)) + " µs" : "within the coordinators"),
            ("  load generator", text(perCall(used.phones)) + " µs"),
            ("  the relay, in the coordinators' place", text(relayCPU / Double(max(1, relay.done))) + " µs"),
            ("memory: largest coordinator", "\(used.coordinatorMemory / 1024) MB"),
        ]
        if bench.store == .redis { rows.append(("  store", "\(used.storeMemory / 1024) MB")) }
        if let storeBytesPerLiveCall { rows.append(("  store, per live call", text(storeBytesPerLiveCall) + " bytes")) }
        if let first = coordinatorMemorySamples.first, let last = coordinatorMemorySamples.last {
            rows.append(
                (
                    "  after the first minute, at most, at the end",
                    "\(first) KB, \(coordinatorMemorySamples.max() ?? 0) KB, \(last) KB"
                ))
        }
        let width = rows.map { $0.0.count }.max() ?? 0
        return ([title] + rows.map { $0.0.padded(to: width + 2) + $0.1 }).joined(separator: "\n") + "\n"
    }

    private func pair(_ latencies: Latencies) -> String {
        "p50 \(text(latencies.percentile(0.5), 2)) ms, p99 \(text(latencies.percentile(0.99), 2)) ms"
    }

    /// The report as JSON.
    var json: String {
        let fields: [(String, String)] = [
            ("store", "\"\(bench.store.rawValue)\""), ("coordinators", "\(bench.coordinators)"),
            ("qos", "\(bench.qos.rawValue)"), ("live", "\(bench.live)"), ("members", "\(bench.shape.members)"),
            ("devices", "\(bench.shape.devices)"), ("atOnce", "\(bench.atOnce)"), ("seconds", text(bench.seconds)),
            ("offeredRate", bench.rate.map { text($0) } ?? "null"),
            ("callsPerSecond", text(calls.perSecond)), ("relayCallsPerSecond", text(relay.perSecond)),
            ("ratioToRelay", text(ratioToRelay, 3)), ("failedCalls", "\(failedCalls)"),
            ("skippedCalls", "\(calls.skipped)"), ("messagesPerCall", text(calls.messagesPerCall, 2)),
            ("storeRoundTripsPerCall", text(perCall(used.storeRoundTrips), 2)), ("responseMs", object(response)),
            ("inviteToRingMs", object(inviteToRing)), ("acceptToKnownMs", object(acceptToKnown)),
            ("inviteToRingAtHalfRateMs", object(inviteToRingAtHalf)), ("halfRate", text(halfRate)),
            ("inviteToRingUnloadedMs", object(unloadedInviteToRing)), ("relayRoundTripMs", object(relayRoundTrip)),
            ("ringToRelayRoundTrip", text(ringRatio, 3)),
            ("coordinatorMicrosPerCall", text(perCall(used.coordinators))),
            ("brokerMicrosPerCall", text(perCall(used.broker))),
            ("storeMicrosPerCall", bench.store == .redis ? text(perCall(used.store)) : "null"),
            ("loadGeneratorMicrosPerCall", text(perCall(used.phones))),
            ("relayMicrosPerCall", text(relayCPU / Double(max(1, relay.done)))),
            ("coordinatorMemoryKB", "\(used.coordinatorMemory)"),
            ("coordinatorMemoryKBByMinute", "\(coordinatorMemorySamples)"),
            ("storeMemoryKB", bench.store == .redis ? "\(used.storeMemory)" : "null"),
            ("storeBytesPerLiveCall", storeBytesPerLiveCall.map { text($0) } ?? "null"),
        ]
        return "{\n" + fields.map { "  \"\($0.0)\": \($0.1)" }.joined(separator: ",\n") + "\n}\n"
    }

    private func object(_ latencies: Latencies) -> String {
        "{\"p50\": \(text(latencies.percentile(0.5), 3)), \"p99\": \(text(latencies.percentile(0.99), 3))}"
    }
}

/// Returns a number with the given number of decimals.
func text(_ value: Double, _ decimals: Int = 1) -> String {
    let factor = (0..<decimals).reduce(1.0) { factor, _ in factor * 10 }
    let scaled = Int64((value * factor).rounded())
    let whole = String(abs(scaled) / Int64(factor))
    let rest = String(abs(scaled) % Int64(factor))
    let sign = scaled < 0 ? "-" : ""
    return decimals == 0
        ? sign + whole : "\(sign)\(whole)." + String(repeating: "0", count: decimals - rest.count) + rest
}
