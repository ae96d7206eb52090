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
    static let options = [
        Option("webhooks", "FILE", default: "", "the endpoints of webhooks (docs/webhooks.md)"),
        Option(
            "deliver", "true|false", default: "true",
            "send webhooks and pushes; false: leave sending to other processes"
        ),
    ]

    static func delivers(_ arguments: Arguments) throws(UsageError) -> Bool {
        try arguments.required("deliver", "true or false") { ["true": true, "false": false][$0] }
    }

    /// The worker in the coordinator's thread; nil if the worker has a thread of its own.
    var companion: Deliverer? { place.companion }
    /// The endpoints in the settings file.
    let endpoints: [KeptEndpoint]
    /// The function that must be called with the ids of records that have webhook events.
    var onOutboxEntries: ([RecordID]) -> Void { place.committed }
    /// Returns the metrics in the Prometheus text format.
    let metrics: @Sendable () -> String
    private let place: DeliveryPlace<Deliverer>

    /// Returns nil without `--webhooks`. `store`: the coordinator's store; nil in a process without a coordinator.
    /// `another`: opens the same store again, for a thread.
    init?(
        _ arguments: Arguments, _ command: String, beside store: (any CallStore)? = nil, log: Log,
        another: () throws -> any CallStore
    ) throws {
        let delivers = try Self.delivers(arguments)
        guard let file = try arguments.file("webhooks") else { return nil }
        let settings = try Self.settings(file, command)
        let kind = DeliveryPlace<Deliverer>.Kind(
            flag: "--webhooks", waits: "webhooks wait: the store fails", goesOn: "webhooks go on: the store is back",
            command: command)
        let sender = try DeliveryPlace<Deliverer>.sender(trusting: settings.certificateAuthorityFile, file, kind)
        endpoints = settings.endpoints.compactMap { KeptEndpoint($0) }
        let hasThread = DeliveryPlace<Deliverer>.hasThread(beside: store)
        let own = try hasThread ? another() : store!
        guard let outbox = own as? any OutboxStore else {
            throw UsageError("\(command): --webhooks: this store keeps no webhooks")
        }
        let deliverer = Deliverer(
            outbox, settings.endpoints, sender: sender, delivers: delivers,
            // In a store that another process serves, the worker takes small steps, so that the other process does not
            // wait.
            inOneStep: store == nil && !own.isShared ? 1 : 64, now: SystemClock.boot.milliseconds
        ) { "w" + randomHex(bytes: 8) }
        guard let deliverer else { throw UsageError("\(command): --webhooks \(file): unusable endpoints") }
        deliverer.onNews = { name, news in Self.log(news, of: name, in: log) }
        let report = deliverer.report
        metrics = { report.metrics }
        place = try DeliveryPlace(deliverer, kind, hasThread: hasThread, outbox, sender, log)
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

    private static func settings(_ file: String, _ command: String) throws(UsageError) -> WebhookSettings {
        let settings: WebhookSettings
        do throws(SettingsError) {
            settings = try WebhookSettings(path: file)
        } catch {
            throw UsageError("\(command): --webhooks \(error.description)")
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

extension Deliverer: Companion {
    package var descriptor: Int32 { requests.descriptor }
}
