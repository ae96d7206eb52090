import BellwireCommands
import Glibc
import MQTTClient

/// A measurement: its options and its steps.
struct Bench {
    /// The program whose coordinators are measured.
    var bellwire = ""
    var store = BenchDeployment.Store.redis
    var coordinators = 1
    /// The number of brokers that the measurement starts.
    var brokers = 1
    /// The brokers that run already, and the text of `--broker` that names these brokers; empty when the measurement
    /// starts brokers.
    var existing: [BrokerAddress] = []
    var existingList = ""
    /// The duration of all rounds together, in seconds.
    var seconds = 10.0
    /// The offered calls per second; nil for as many as possible.
    var rate: Double?
    /// The bound on calls at the same time.
    var atOnce = 128
    var qos = QoS.atMostOnce
    /// The number of live calls in the store before the measurement.
    var live = 0
    var shape = CallLoad.Shape()
    /// The file for the curve of latency against offered rate; nil for no curve.
    var plot: String?
    /// Whether the measurement only makes calls for the whole time, and records the memory every minute.
    var isSoak = false

    /// The service and the relay are measured in turns, since the speed of a machine varies.
    private static let rounds = 3
    /// The duration of the first, unmeasured calls, in seconds.
    private static let warmUp = 2.0
    private static let unloaded = 3.0
    private static let soakStep = 60.0
    /// Calls per second, few enough that each call ends before the next call begins.
    private static let unloadedRate = 50.0

    func run() throws -> BenchReport {
        let deployment = try BenchDeployment(store, bellwire: bellwire, brokers: brokers, existing, existingList)
        defer { deployment.stop() }
        var report = BenchReport(bench: self)
        if live > 0 {
            let before = deployment.redis.map { ProcessUsage(of: $0.pid).memory }
            try LiveCalls.write(live, into: deployment.storeAddress)
            if let redis = deployment.redis, let before {
                report.storeBytesPerLiveCall = Double(ProcessUsage(of: redis.pid).memory - before) * 1024 / Double(live)
            }
        }
        // A soak keeps ended calls for 5 min only: the ended calls of a whole hour would only show how large a store
        // can become.
        try deployment.startCoordinators(
            coordinators, qos: Int(qos.rawValue), isSoak ? ["--retain-history", "5m"] : [])
        let phones = try LoadGenerator(
            CallLoad(places: atOnce, run: "bench", shape: shape), places: atOnce, brokers: deployment.addresses,
            clientID: "bench-phones", qos: qos)
        try phones.prepare(phones.work.presence, awaiting: phones.work.presence.count)
        let first = try phones.run(seconds: min(Self.warmUp, seconds), atOnce: atOnce, rate: rate)

        guard !isSoak else {
            try soak(deployment, phones, &report)
            return report
        }
        let relay = try deployment.startRelay(qos: Int(qos.rawValue))
        defer { relay.stop() }
        let relayed = try relayLoad(first, deployment.addresses[0])
        try measureUnloaded(phones, relayed, &report)
        for _ in 0..<Self.rounds {
            try measureCalls(deployment, phones, &report)
            try measureRelay(relay, relayed, &report)
        }
        try measureHalf(phones, &report)
        if let plot { try drawCurve(phones, report, to: plot) }
        if let failure = deployment.failure { throw DeploymentError(failure) }
        return report
    }

    private func relayLoad(
        _ calls: LoadOutcome, _ broker: BrokerAddress
    ) throws -> LoadGenerator<RelayLoad> {
        guard calls.done > 0 else { throw DeploymentError("no call came about") }
        let exchanges = (calls.messagesPerCall / 2).rounded()
        let load = RelayLoad(
            places: atOnce, exchanges: max(1, Int(exchanges)), bytesUp: calls.bytesUp / calls.messagesUp,
            bytesDown: calls.bytesDown / calls.messagesDown)
        let generator = try LoadGenerator(
            load, places: atOnce, brokers: [broker], clientID: "bench-relayed", qos: qos)
        try generator.prepare([], awaiting: 1)
        return generator
    }

    /// Measures single calls with pauses: the latency without load.
    private func measureUnloaded(
        _ phones: LoadGenerator<CallLoad>, _ relayed: LoadGenerator<RelayLoad>, _ report: inout BenchReport
    ) throws {
        let seconds = min(Self.unloaded, seconds)
        phones.work.forgetLatencies()
        report.failedCalls += try phones.run(seconds: seconds, atOnce: 1, rate: Self.unloadedRate).failed
        report.unloadedInviteToRing = phones.work.inviteToRing
        // A single exchange after each pause, as an invitation comes after a pause.
        let exchanges = relayed.work.exchanges
        relayed.work.exchanges = 1
        _ = try relayed.run(seconds: seconds, atOnce: 1, rate: Self.unloadedRate)
        relayed.work.exchanges = exchanges
        report.relayRoundTrip = relayed.work.roundTrip
        phones.work.forgetLatencies()
    }

    private func measureCalls(
        _ deployment: BenchDeployment, _ phones: LoadGenerator<CallLoad>, _ report: inout BenchReport
    ) throws {
        let before = Usage(of: deployment)
        let outcome = try phones.run(seconds: seconds / Double(Self.rounds), atOnce: atOnce, rate: rate)
        report.add(outcome, Usage(of: deployment) - before)
        report.response = phones.work.response
        report.inviteToRing = phones.work.inviteToRing
        report.acceptToKnown = phones.work.acceptToKnown
    }

    /// Makes calls for `seconds`, and records the memory every minute, so that growth is visible.
    private func soak(
        _ deployment: BenchDeployment, _ phones: LoadGenerator<CallLoad>, _ report: inout BenchReport
    ) throws {
        phones.work.forgetLatencies()
        var rest = seconds
        while rest > 0 {
            let step = min(rest, Self.soakStep)
            let before = Usage(of: deployment)
            let outcome = try phones.run(seconds: step, atOnce: atOnce, rate: rate)
            report.add(outcome, Usage(of: deployment) - before)
            report.coordinatorMemorySamples.append(Usage(of: deployment).coordinatorMemory)
            report.inviteToRing = phones.work.inviteToRing
            // The latencies of an hour would need more memory than anything else in this process.
            phones.work.forgetLatencies()
            rest -= step
            if let failure = deployment.failure { throw DeploymentError(failure) }
        }
    }

    private func measureRelay(
        _ relay: ChildProcess, _ relayed: LoadGenerator<RelayLoad>, _ report: inout BenchReport
    ) throws {
        let before = ProcessUsage(of: relay.pid).cpu
        report.relay += try relayed.run(seconds: seconds / Double(Self.rounds), atOnce: atOnce)
        report.relayCPU += ProcessUsage(of: relay.pid).cpu - before
    }

    /// Measures at half of the highest rate.
    private func measureHalf(_ phones: LoadGenerator<CallLoad>, _ report: inout BenchReport) throws {
        phones.work.forgetLatencies()
        let outcome = try phones.run(
            seconds: seconds / 2, atOnce: atOnce, rate: max(1, report.calls.perSecond / 2))
        report.failedCalls += outcome.failed
        report.halfRate = outcome.perSecond
        report.inviteToRingAtHalf = phones.work.inviteToRing
    }

    /// Draws the curve from a tenth of the highest rate to 1.1 times that rate.
    private func drawCurve(_ phones: LoadGenerator<CallLoad>, _ report: BenchReport, to path: String) throws {
        var points: [LatencyCurve.Point] = []
        for tenths in 1...11 {
            let offered = report.calls.perSecond * Double(tenths) / 10
            phones.work.forgetLatencies()
            _ = try phones.run(seconds: max(1, seconds / 5), atOnce: atOnce, rate: offered)
            let latencies = phones.work.inviteToRing
            points.append(
                .init(offered: offered, p50: latencies.percentile(0.5), p99: latencies.percentile(0.99)))
        }
        try write(LatencyCurve(title: report.title, points: points).svg, to: path)
    }
}
