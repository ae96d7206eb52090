import CallCore
import CallStore
import Coordinator
import Delivery
import HTTPSending
import SignalingProtocol
import Support

/// The push worker of a coordinator or a gateway. The worker runs in the coordinator's thread if the store has a single
/// writer, else in a thread of its own.
struct PushDelivery {
    /// The properties of the process and the service that the worker needs.
    struct Surroundings {
        /// The name of the command in error messages.
        let command: String
        /// The name of the process in timelines.
        let name: String
        let lease: Milliseconds
        let traces: TracePolicy
        let traceLife: Milliseconds
        let delivers: Bool
        let log: Log
    }

    /// The worker in the coordinator's thread; nil if the worker has a thread of its own.
    var companion: (any Companion)? { place.companion }
    /// The function that must be called with the ids of calls that may need pushes.
    let onPushes: ([CallID]) -> Void
    /// Returns the metrics in the Prometheus text format.
    let metrics: @Sendable () -> String
    private let place: DeliveryPlace

    /// Returns nil without `file`, which `--push` names. `store`: the coordinator's store; nil in a process without a
    /// coordinator. `another`: opens the same store again, for a thread.
    init?(
        _ file: String?, _ surroundings: Surroundings, beside store: (any CallStore)? = nil,
        another: () throws -> any CallStore
    ) throws {
        guard let file else { return nil }
        let (command, log) = (surroundings.command, surroundings.log)
        let settings = try Self.settings(file, command)
        let sender = try Self.sender(settings, file, command)
        let kind = Self.kind(command)
        let own = try DeliveryStore<any PushStore>(kind, beside: store, another: another) { $0 as? any PushStore }
        var pusher = PusherSettings(
            settings, lease: surroundings.lease, name: surroundings.name, traceLife: surroundings.traceLife)
        pusher.traces = surroundings.traces
        pusher.delivers = surroundings.delivers
        pusher.inOneStep = own.inOneStep
        let worker = Pusher(
            own.store, pusher, sender: sender, clock: { SystemClock.boot.milliseconds },
            newName: { "p" + randomHex(bytes: 8) })
        worker.onNews = { Self.log($0, in: log) }
        let report = worker.report
        metrics = { report.metrics }
        let place = try DeliveryPlace(worker, kind, hasThread: own.hasThread, own.store, sender, log)
        onPushes = { place.committed($0.map { .call($0) }) }
        self.place = place
    }

    private static func log(_ news: PushNews, in log: Log) {
        log(
            .warning, "a push service takes no push",
            [
                "platform": news.platform.rawValue, "outcome": news.outcome.rawValue,
                "status": news.status.map { "\($0)" } ?? "", "reason": news.reason ?? "",
            ])
    }

    /// Reads the settings. Throws on a mistake in the file, so that the process does not start.
    static func settings(_ file: String, _ command: String) throws(UsageError) -> PushSettings {
        try DeliveryOptions.settings("--push", command) { () throws(SettingsError) in try PushSettings(file: file) }
    }

    static func sender(_ settings: PushSettings, _ file: String, _ command: String) throws(UsageError) -> HTTPSender {
        try DeliveryPlace.sender(trusting: settings.certificateAuthorityFile, file, kind(command))
    }

    private static func kind(_ command: String) -> DeliveryKind {
        DeliveryKind(
            flag: "--push", deliveries: "pushes", waits: "pushes wait: the store fails",
            goesOn: "pushes go on: the store is back", command: command)
    }

    func stop() { place.stop() }
}

/// Returns the delivery workers that run in the coordinator's thread.
func companions(
    _ webhooks: WebhookDelivery?, _ push: PushDelivery?, _ media: MediaDelivery?, _ spans: SpanDelivery?
) -> [any Companion] {
    let all: [(any Companion)?] = [webhooks?.companion, push?.companion, media?.companion, spans?.companion]
    return all.compactMap(\.self)
}

/// Returns the metrics of all workers and of the process, in the Prometheus text format.
func allMetrics(
    _ webhooks: WebhookDelivery?, _ push: PushDelivery?, _ media: MediaDelivery?, _ spans: SpanDelivery?,
    _ expiry: ExpiryMetrics? = nil
) -> @Sendable () -> String {
    let metrics = [webhooks?.metrics, push?.metrics, media?.metrics, spans?.metrics].compactMap(\.self)
    return { metrics.map { $0() }.joined() + (expiry?.text ?? "") + ProcessMetrics.text }
}
