import CallCore
import CallStore
import Coordinator
import Delivery
import HTTPSending
import SignalingProtocol
import Support

/// The worker beside a coordinator or a gateway that wakes phones: in the coordinator's thread where the store has one writer, else in one of
/// its own.
struct PushDelivery {
    static let options = [
        Option("push", "FILE", default: "", "how sleeping phones are woken (docs/push.md)")
    ]

    /// What of the process and of the service matters here.
    struct Surroundings {
        /// As it is named in errors.
        let command: String
        /// As timelines show it.
        let name: String
        let lease: Milliseconds
        let traces: TracePolicy
        let traceLife: Milliseconds
        let delivers: Bool
        let log: Log
    }

    /// In the coordinator's thread; nil when it has its own.
    var companion: Pusher? { place.companion }
    /// To be told of the calls because of which somebody may have to be woken.
    let owesPushes: ([CallID]) -> Void
    /// In the Prometheus text format.
    let metrics: @Sendable () -> String
    private let place: DeliveryPlace<Pusher>

    /// Nil without `file`, which `--push` names. `store`: the coordinator's; nil in a process without one. `another`: opens the same store once
    /// more, for a thread.
    init?(
        _ file: String?, _ surroundings: Surroundings, beside store: (any CallStore)? = nil,
        another: () throws -> any CallStore
    ) throws {
        guard let file else { return nil }
        let (command, log) = (surroundings.command, surroundings.log)
        let settings = try Self.settings(file, command)
        let sender = try Self.sender(settings, file, command)
        let hasThread = DeliveryPlace<Pusher>.hasThread(beside: store)
        let own = try hasThread ? another() : store!
        guard let pushes = own as? any PushStore else {
            throw UsageError("\(command): --push: this store keeps no pushes")
        }
        var pusher = PusherSettings(
            settings, lease: surroundings.lease, name: surroundings.name, traceLife: surroundings.traceLife)
        pusher.traces = surroundings.traces
        pusher.delivers = surroundings.delivers
        // Who visits a store that another process serves keeps nobody waiting.
        if store == nil, !own.isShared { pusher.inOneStep = 1 }
        let worker = Pusher(
            pushes, pusher, sender: sender, clock: { SystemClock.boot.milliseconds },
            newName: { "p" + randomHex(bytes: 8) })
        let report = worker.report
        metrics = { report.metrics }
        let place = try DeliveryPlace(worker, Self.kind(command), hasThread: hasThread, pushes, sender, log)
        owesPushes = { place.committed($0.map { .call($0) }) }
        self.place = place
    }

    /// A mistake in the file stops the start.
    static func settings(_ file: String, _ command: String) throws(UsageError) -> PushSettings {
        do throws(SettingsError) {
            return try PushSettings(file: file)
        } catch {
            throw UsageError("\(command): --push \(error.description)")
        }
    }

    static func sender(_ settings: PushSettings, _ file: String, _ command: String) throws(UsageError) -> HTTPSender {
        try DeliveryPlace<Pusher>.sender(trusting: settings.certificateAuthorityFile, file, kind(command))
    }

    private static func kind(_ command: String) -> DeliveryPlace<Pusher>.Kind {
        DeliveryPlace<Pusher>.Kind(
            flag: "--push", waits: "pushes wait: the store fails", goesOn: "pushes go on: the store is back",
            command: command)
    }

    func stop() { place.stop() }
}

extension Pusher: Companion {
    package var descriptor: Int32 { requests.descriptor }
}

/// What hands something over in a coordinator's thread.
func companions(_ webhooks: WebhookDelivery?, _ push: PushDelivery?) -> [any Companion] {
    let both: [(any Companion)?] = [webhooks?.companion, push?.companion]
    return both.compactMap(\.self)
}

/// What both tell of themselves, in the Prometheus text format.
func allMetrics(_ webhooks: WebhookDelivery?, _ push: PushDelivery?) -> @Sendable () -> String {
    let metrics = [webhooks?.metrics, push?.metrics].compactMap(\.self)
    return { metrics.map { $0() }.joined() }
}
