import CallCore
import CallStore
import Coordinator
import Glibc
import MQTTClient
import SignalingProtocol

/// `bellwire serve`: runs a coordinator.
package enum ServeCommand {
    package static let command = Command(
        name: "serve", arguments: "",
        summary: "Runs a coordinator, which serves its share of the requests at the broker and rings phones.",
        options: connectionOptions + StoreOptions.all + DeliveryOptions.all + TurnOptions.all + SpanDelivery.options
            + SettingsOptions.all,
        positionals: 0...0)

    private static let connectionOptions = [
        ConfigFile.option,
        Option(
            "broker", "URL", default: "mqtt://127.0.0.1:1883", isSecret: true,
            "mqtt://[user[:password]@]host:port, or mqtts://; several brokers with commas"),
        Option("broker-ca", "FILE", default: "", "certificate authorities to trust with mqtts://"),
        Option("broker-cert", "FILE", default: "", "this coordinator's certificate, where the broker asks for one"),
        Option("broker-key", "FILE", default: "", "the certificate's private key"),
        Option("devices-cert", "FILE", default: "", "the certificate that devices see: /metrics shows its end"),
        Option("token-file", "FILE", default: "", "a file with this coordinator's token; read for each connection"),
        Option("group", "NAME", default: "coordinators", "share group: coordinators of one group share the load"),
        Option("id", "ID", default: "", "MQTT client id, unique among the coordinators; random when empty"),
        Option("publish-qos", "0|1", default: "0", "QoS of messages to devices"),
        Option("http", "HOST:PORT", default: "", "serve /healthz, /readyz and /metrics there"),
        LogOptions.level, LogOptions.format,
    ]

    package static func run(_ words: [String]) throws { try run(try Arguments(command, words)) { $0 } }

    /// Runs the command. `arguments`: the arguments of this command, or of a variant with more options. `served`:
    /// returns the store that the coordinator uses.
    package static func run(_ arguments: Arguments, _ served: (any CallStore) throws -> any CallStore) throws {
        try arguments.placing { try start($0, served) }
    }

    /// Throws the first mistake of the settings, and starts nothing.
    static func check(_ arguments: Arguments) throws {
        let configuration = try coordinatorConfiguration(arguments)
        _ = try LogOptions.read(arguments)
        _ = try StoreOptions.address(arguments, configuration.settings)
        _ = try ListenAddress(arguments)
        try DeliveryOptions.check(arguments)
        _ = try SpanDelivery.settings(arguments)
    }

    private static func start(_ arguments: Arguments, _ served: (any CallStore) throws -> any CallStore) throws {
        // The memory holds a token and messages of users, which must not be written to a disk: the process makes no
        // core dump.
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
        // Signals are blocked before the process starts other threads.
        let signals = ProcessSignals(reloads: true)
        var configuration = try coordinatorConfiguration(arguments)
        let (level, format) = try LogOptions.read(arguments)
        let log = Log(level: level, format: format, coordinator: configuration.id)
        let store = try served(try StoreOptions.open(arguments, configuration.settings))
        let settings = configuration.settings
        let delivery = try WebhookDelivery(arguments, "bellwire serve", beside: store, log: log) {
            try StoreOptions.open(arguments, settings)
        }
        configuration.endpoints = delivery?.endpoints ?? []
        let push = try PushDelivery(
            try arguments.file("push"),
            PushDelivery.Surroundings(
                command: "bellwire serve", name: configuration.id, lease: settings.presence.lease,
                traces: settings.trace, traceLife: settings.historyRetention,
                delivers: try DeliveryOptions.delivers(arguments), log: log),
            beside: store
        ) { try StoreOptions.open(arguments, settings) }
        let media = try MediaDelivery(
            try arguments.file("media"), "bellwire serve", delivers: try DeliveryOptions.delivers(arguments),
            beside: store, log: log
        ) { try StoreOptions.open(arguments, settings) }
        media?.configure(&configuration)
        let spans = try SpanDelivery(arguments, beside: store, log: log) { try StoreOptions.open(arguments, settings) }
        spans?.configure(&configuration)
        let status = CoordinatorStatus(brokerNames: configuration.brokers.map(\.name))
        let expiry = try ExpiryMetrics(
            arguments, ["broker-ca", "broker-cert", "devices-cert", "redis-ca", "otlp-ca"])
        status.alsoShow(allMetrics(delivery, push, media, spans, expiry))
        let server = try statusServer(arguments, status)

        signals.onSignal(end: { status.stop() }) {
            log(.info, "SIGHUP: nothing to be done, since each new connection reads certificates and tokens again")
        }
        let coordinator = Coordinator(
            configuration: configuration, store: store, status: status, log: log,
            companions: companions(delivery, push, media, spans),
            onOutboxEntries: delivery?.onOutboxEntries ?? { _ in },
            onRooms: media?.onRooms ?? { _ in }, onPushes: push?.onPushes ?? { _ in })
        // The loop blocks this thread for the life of the process.
        coordinator.run()
        delivery?.stop()
        push?.stop()
        media?.stop()
        spans?.stop()
        withExtendedLifetime(server) {}
    }

    private static func coordinatorConfiguration(_ arguments: Arguments) throws(UsageError) -> Coordinator.Configuration
    {
        let brokers = try BrokerList.addresses(arguments)
        let id = arguments.text("id").flatMap { $0.isEmpty ? nil : $0 } ?? "coordinator-" + randomHex(bytes: 6)
        guard StoreOptions.isName(id) else {
            throw UsageError("bellwire serve: --id \(id): expected 1 to 64 of A-Z a-z 0-9 . _ -")
        }
        var configuration = Coordinator.Configuration(brokers: brokers, id: id)
        configuration.group = try arguments.required("group", "1 to 64 of A-Z a-z 0-9 . _ -") {
            StoreOptions.isName($0) ? $0 : nil
        }
        configuration.publishQoS = try arguments.required("publish-qos", "0 or 1") { Int32($0).flatMap(QoS.init) }
        configuration.certificateAuthorityFile = try arguments.file("broker-ca")
        configuration.certificateFile = try arguments.file("broker-cert")
        configuration.certificateKeyFile = try arguments.file("broker-key")
        guard (configuration.certificateFile == nil) == (configuration.certificateKeyFile == nil) else {
            throw UsageError("bellwire serve: --broker-cert and --broker-key go together")
        }
        let cause = RefusalCause(client: .coordinator(hasCertificate: configuration.certificateFile != nil))
        configuration.cause = { cause($0, $1) }
        configuration.tokenFile = try arguments.file("token-file")
        configuration.settings = try SettingsOptions.settings(arguments)
        configuration.turn = try TurnOptions.servers(arguments)
        return configuration
    }

    private static func statusServer(_ arguments: Arguments, _ status: CoordinatorStatus) throws -> StatusServer? {
        guard let address = try ListenAddress(arguments) else { return nil }
        return try StatusServer(host: address.host, port: address.port, status: status)
    }
}

func randomHex(bytes count: Int) -> String {
    var text = ""
    for _ in 0..<count {
        let byte = String(UInt8.random(in: 0...255), radix: 16)
        text += byte.count == 1 ? "0" + byte : byte
    }
    return text
}
