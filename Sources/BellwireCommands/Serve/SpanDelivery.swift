import CallCore
import CallStore
import Coordinator
import Delivery
import Glibc
import SignalingProtocol
import Support

/// The worker that sends the timelines of ended calls as spans (docs/operations.md, Traces). The worker runs in the
/// coordinator's thread if the store has a single writer, else in a thread of its own.
struct SpanDelivery {
    static let options = [
        Option(
            "otlp", "URL", default: "",
            "send the timelines of ended calls as OpenTelemetry spans there, over OTLP/HTTP (docs/operations.md)"),
        Option(
            "otlp-headers", "FILE", default: "", "a file with headers for --otlp, such as Authorization: Bearer TOKEN"),
        Option("otlp-ca", "FILE", default: "", "certificate authorities to trust with --otlp https://"),
    ]

    /// How long a process that stops waits for the receiver, in milliseconds.
    private static let patience: Int64 = 1_000

    /// The worker in the coordinator's thread; nil if the worker has a thread of its own.
    var companion: (any Companion)? { place.companion }
    /// Returns the metrics in the Prometheus text format.
    let metrics: @Sendable () -> String
    private let ended = EndedCalls()
    private let worker: SpanWorker
    private let place: DeliveryPlace

    /// Returns nil without `--otlp`. `store`: the coordinator's store. `another`: opens the same store again, for a
    /// thread.
    init?(
        _ arguments: Arguments, beside store: any CallStore, log: Log, another: () throws -> any CallStore
    ) throws {
        guard let settings = try Self.settings(arguments) else { return nil }
        let kind = DeliveryKind(
            flag: "--otlp", deliveries: "timelines", waits: "spans wait: the store fails",
            goesOn: "spans go on: the store is back", command: arguments.command.title)
        let sender = try DeliveryPlace.sender(
            trusting: try arguments.file("otlp-ca"), settings.url, kind, setting: "--otlp-ca")
        let own = try DeliveryStore<any RecordStore & TimelineStore>(kind, beside: store, another: another) { $0 }
        worker = SpanWorker(
            own.store, settings, ended, sender: sender, version: bellwireVersion, now: SystemClock.boot.milliseconds)
        worker.onNews = { Self.log($0, in: log) }
        let report = worker.report
        metrics = { report.metrics }
        place = try DeliveryPlace(worker, kind, hasThread: own.hasThread, own.store, sender, log)
    }

    /// Returns nil without `--otlp`. Throws the first mistake of the options.
    static func settings(_ arguments: Arguments) throws(UsageError) -> OTLPSettings? {
        let title = arguments.command.title
        let headers = try arguments.file("otlp-headers")
        let authorities = try arguments.file("otlp-ca")
        guard let url = arguments.text("otlp"), !url.isEmpty else {
            guard headers == nil, authorities == nil else {
                throw UsageError("\(title): --otlp-headers and --otlp-ca need --otlp")
            }
            return nil
        }
        guard try SettingsOptions.trace(arguments) != .off else {
            throw UsageError("\(title): --otlp sends timelines, and --trace off keeps none")
        }
        let receiver = try DeliveryOptions.settings("--otlp", title) { () throws(SettingsError) in
            try OTLPSettings(url: url)
        }
        guard let headers else { return receiver }
        return try DeliveryOptions.settings("--otlp-headers", title) { () throws(SettingsError) in
            try OTLPSettings(url: url, headersFile: headers)
        }
    }

    /// Has a coordinator tell this worker of ended calls.
    func configure(_ configuration: inout Coordinator.Configuration) {
        configuration.onTimelineEnd = { [ended] in ended.add($0) }
    }

    private static func log(_ news: SpanNews, in log: Log) {
        switch news {
        case .refuses(let reason):
            log(.warning, "the receiver of spans does not accept spans; no call waits for it", ["reason": reason])
        case .takes: log(.info, "the receiver of spans accepts spans again")
        case .rejected(let count, let reason):
            log(.warning, "the receiver of spans has rejected spans", ["spans": "\(count)", "reason": reason])
        }
    }

    /// Sends what is left, for a bounded time. To be called after the coordinator has ended.
    func stop() {
        if place.companion != nil {
            let end = SystemClock.boot.milliseconds + Self.patience
            worker.stop()
            repeat {
                worker.turn(SystemClock.boot.milliseconds)
                if worker.hasStopped { break }
                _ = poll(nil, 0, 20)
            } while SystemClock.boot.milliseconds < end
        }
        place.stop()
    }
}
