import CallCore
import CallStore
import Coordinator
import Delivery
import HTTPSending
import SystemClocks
import Webhooks

/// The worker beside a coordinator that hands webhooks over: in its thread where the store has one writer, else in one of its own.
struct WebhookDelivery {
    static let options = [
        Option("webhooks", "FILE", default: "", "endpoints that webhooks go to (docs/webhooks.md)"),
        Option("deliver", "true|false", default: "true", "hand webhooks over; false: leave that to other processes"),
    ]

    /// In the coordinator's thread; nil when it has its own.
    let companion: Deliverer?
    /// Those of the file.
    let endpoints: [KeptEndpoint]
    /// To be told of the records of which something is owed.
    let owes: ([RecordID]) -> Void
    /// In the Prometheus text format.
    let metrics: @Sendable () -> String
    private let thread: DeliveryThread?
    private let sender: HTTPSender

    /// Nil without `--webhooks`. `store`: the coordinator's; nil in a process without one. `another`: opens the same store once more, for a
    /// thread.
    init?(
        _ arguments: Arguments, _ command: String, beside store: (any CallStore)? = nil, log: Log,
        another: () throws -> any CallStore
    ) throws {
        let delivers = try arguments.required("deliver", "true or false") { ["true": true, "false": false][$0] }
        guard let file = try arguments.file("webhooks") else { return nil }
        let settings = try Self.settings(file, command)
        do throws(HTTPSender.SetupError) {
            sender = try HTTPSender(
                certificateAuthorityFile: settings.certificateAuthorityFile, userAgent: "bellwire/\(Main.version)")
        } catch {
            throw UsageError("\(command): --webhooks \(file): \(error.description)")
        }
        endpoints = settings.endpoints.compactMap { KeptEndpoint($0) }
        let hasThread = store?.isShared ?? true
        let own = try hasThread ? another() : store!
        guard let outbox = own as? any OutboxStore else {
            throw UsageError("\(command): --webhooks: this store keeps no webhooks")
        }
        let deliverer = Deliverer(
            outbox, settings.endpoints, sender: sender, delivers: delivers,
            // Who visits a store that another process serves keeps nobody waiting.
            inOneStep: store == nil && !own.isShared ? 1 : 64, now: SystemClock.boot.milliseconds
        ) { "w" + randomHex(bytes: 8) }
        guard let deliverer else { throw UsageError("\(command): --webhooks \(file): unusable endpoints") }
        deliverer.onFailure = { reason in
            if let reason {
                log(.warning, "webhooks wait: the store fails", ["reason": reason])
            } else {
                log(.info, "webhooks go on: the store is back")
            }
        }
        let report = deliverer.report
        metrics = { report.metrics }
        if hasThread {
            guard let thread = DeliveryThread(deliverer, outbox, sender) else {
                throw UsageError("\(command): --webhooks: there is no thread for them")
            }
            self.thread = thread
            companion = nil
            owes = thread.committed
        } else {
            thread = nil
            companion = deliverer
            owes = deliverer.committed
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

    func stop() {
        thread?.stop()
        sender.stop()
    }
}

extension Deliverer: Companion {
    package var descriptor: Int32 { requests.descriptor }
}
