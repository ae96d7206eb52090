import CallCore
import CallStore
import Coordinator
import Delivery
import HTTPSending
import SignalingProtocol
import Support

/// The webhook worker of a coordinator. The worker runs in the coordinator's thread if the store has a single writer,
/// else in a thread of its own.
struct WebhookDelivery {
    /// The worker in the coordinator's thread; nil if the worker has a thread of its own.
    var companion: (any Companion)? { place.companion }
    /// The endpoints in the settings file.
    let endpoints: [KeptEndpoint]
    /// The function that must be called with the ids of records that have webhook events.
    var onOutboxEntries: ([RecordID]) -> Void { place.committed }
    /// Returns the metrics in the Prometheus text format.
    let metrics: @Sendable () -> String
    private let place: DeliveryPlace

    /// Returns nil without `--webhooks`. `store`: the coordinator's store; nil in a process without a coordinator.
    /// `another`: opens the same store again, for a thread.
    init?(
        _ arguments: Arguments, _ command: String, beside store: (any CallStore)? = nil, log: Log,
        another: () throws -> any CallStore
    ) throws {
        let delivers = try DeliveryOptions.delivers(arguments)
        guard let file = try arguments.file("webhooks") else { return nil }
        let settings = try Self.settings(file, command)
        let kind = DeliveryKind(
            flag: "--webhooks", deliveries: "webhooks", waits: "webhooks wait: the store fails",
            goesOn: "webhooks go on: the store is back", command: command)
        let sender = try DeliveryPlace.sender(trusting: settings.certificateAuthorityFile, file, kind)
        endpoints = settings.endpoints.compactMap { KeptEndpoint($0) }
        let own = try DeliveryStore<any OutboxStore>(kind, beside: store, another: another) { $0 as? any OutboxStore }
        let deliverer = Deliverer(
            own.store, settings.endpoints, sender: sender, delivers: delivers, inOneStep: own.inOneStep,
            now: SystemClock.boot.milliseconds
        ) { "w" + randomHex(bytes: 8) }
        guard let deliverer else { throw UsageError("\(command): --webhooks \(file): unusable endpoints") }
        deliverer.onNews = { name, news in Self.log(news, of: name, in: log) }
        let report = deliverer.report
        metrics = { report.metrics }
        place = try DeliveryPlace(deliverer, kind, hasThread: own.hasThread, own.store, sender, log)
    }

    private static func log(_ news: EndpointNews, of name: EndpointName, in log: Log) {
        switch news {
        case .refuses(let reason):
            log(
                .warning, "a webhook endpoint refuses its events: they are tried again",
                ["endpoint": name.string, "reason": reason])
        case .takes: log(.info, "a webhook endpoint accepts its events again", ["endpoint": name.string])
        case .off:
            log(
                .warning,
                """
                a webhook endpoint has answered 410 and is off: its events become dead letters. When it is back, \
                `bellwire webhooks on` turns it on, and `bellwire webhooks replay` sends them
                """, ["endpoint": name.string])
        case .on: log(.info, "a webhook endpoint has been turned on again", ["endpoint": name.string])
        }
    }

    static func settings(_ file: String, _ command: String) throws(UsageError) -> WebhookSettings {
        let settings = try DeliveryOptions.settings("--webhooks", command) { () throws(SettingsError) in
            try WebhookSettings(path: file)
        }
        for (place, endpoint) in settings.endpoints.enumerated() {
            for network in endpoint.allowedNetworks where Network(network) == nil {
                throw UsageError(
                    "\(command): --webhooks \(file): endpoints[\(place)].allowedNetworks: \(network): expected a network"
                        + " like 10.0.0.0/8, with no bit set beyond its length")
            }
        }
        return settings
    }

    func stop() { place.stop() }
}
