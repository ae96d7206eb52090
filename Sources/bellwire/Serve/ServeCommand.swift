import CallCore
import CallDeciding
import CallStore
import Coordinator
import Glibc
import MQTTClient
import SignalingProtocol

/// `bellwire serve`: one coordinator.
enum ServeCommand {
    static let command = Command(
        name: "serve", arguments: "",
        summary: "Runs a coordinator: it takes its share of the requests at the broker and rings phones.",
        options: connectionOptions + WebhookDelivery.options + SettingsOptions.all + faultOptions, positionals: 0...0)

    private static let connectionOptions = [
        Option(
            "broker", "URL", default: "mqtt://127.0.0.1:1883", isSecret: true,
            "mqtt://[user[:password]@]host:port, or mqtts://"),
        Option("broker-ca", "FILE", default: "", "certificate authorities to trust with mqtts://"),
        Option("broker-cert", "FILE", default: "", "this coordinator's certificate, where the broker asks for one"),
        Option("broker-key", "FILE", default: "", "and its key"),
        Option("token-file", "FILE", default: "", "where this coordinator's token stands; read for each connection"),
        Option(
            "store", "STORE", default: "sqlite:bellwire.db", isSecret: true,
            "memory:, sqlite:PATH or redis://[user:password@]host:port[/db]"),
        Option("sqlite-synchronous", "MODE", default: "normal", "normal, or full: a power cut loses nothing answered"),
        Option("redis-password-file", "FILE", default: "", "where the password of Redis stands, if not in --store"),
        Option("redis-prefix", "NAME", default: "bellwire", "what all Redis keys begin with"),
        Option("redis-wait-replicas", "N", default: "0", "how many Redis replicas must have a write before it counts"),
        SettingsOptions.takeOverStore,
        Option("group", "NAME", default: "coordinators", "share group: coordinators of one group share the load"),
        Option("id", "ID", default: "", "MQTT client id, unique among the coordinators; random when empty"),
        Option("publish-qos", "0|1", default: "1", "QoS of what is sent to devices"),
        Option("http", "HOST:PORT", default: "", "serve /healthz, /readyz and /metrics there"),
        Option("log-level", "LEVEL", default: "info", "debug, info, warning or error"),
        Option("log-format", "FORMAT", default: "text", "text or json"),
    ]

    #if BELLWIRE_FAULTS
        private static let faultOptions = [
            Option("fault", "FAULT", default: "", "break the store on purpose, to test the tests")
        ]

        private static func withFault(_ store: any CallStore, _ arguments: Arguments) throws -> any CallStore {
            guard let text = arguments.text("fault"), !text.isEmpty else { return store }
            let forms = FaultyCallStore.Fault.allCases.map(\.rawValue).joined(separator: ", ")
            let fault = try arguments.required("fault", forms, FaultyCallStore.Fault.init(rawValue:))
            return FaultyCallStore(store, fault: fault)
        }
    #else
        private static let faultOptions: [Option] = []

        private static func withFault(_ store: any CallStore, _: Arguments) throws -> any CallStore { store }
    #endif

    static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        // Its memory holds a token, and what users say to each other: none of it belongs on a disk.
        var none = rlimit(rlim_cur: 0, rlim_max: 0)
        setrlimit(__rlimit_resource_t(RLIMIT_CORE.rawValue), &none)
        // Before any other thread exists.
        let signals = TerminationSignals()
        var configuration = try coordinatorConfiguration(arguments)
        let log = Log(
            level: try arguments.required("log-level", "debug, info, warning or error", Log.Level.init(rawValue:)),
            format: try arguments.required("log-format", "text or json", Log.Format.init(rawValue:)),
            coordinator: configuration.id)
        let store = try withFault(try openStore(arguments, configuration.settings), arguments)
        let settings = configuration.settings
        let delivery = try WebhookDelivery(arguments, "bellwire serve", beside: store, log: log) {
            try openStore(arguments, settings)
        }
        configuration.endpoints = delivery?.endpoints ?? []
        let status = CoordinatorStatus()
        if let metrics = delivery?.metrics { status.alsoShow(metrics) }
        let server = try statusServer(arguments, status)

        signals.onSignal { status.stop() }
        let coordinator = Coordinator(
            configuration: configuration, store: store, status: status, log: log, companion: delivery?.companion,
            owes: delivery?.owes ?? { _ in })
        // The loop blocks this thread for the life of the process; nothing else waits for it.
        coordinator.run()
        delivery?.stop()
        withExtendedLifetime(server) {}
    }

    private static func coordinatorConfiguration(_ arguments: Arguments) throws(UsageError) -> Coordinator.Configuration
    {
        let broker = try arguments.required(
            "broker", "mqtt://[user[:password]@]host:port or mqtts://…", BrokerAddress.init(url:))
        let id = arguments.text("id").flatMap { $0.isEmpty ? nil : $0 } ?? "coordinator-" + randomHex(bytes: 6)
        guard isName(id) else { throw UsageError("bellwire serve: --id \(id): expected 1 to 64 of A-Z a-z 0-9 . _ -") }
        var configuration = Coordinator.Configuration(broker: broker, id: id)
        configuration.group = try arguments.required("group", "1 to 64 of A-Z a-z 0-9 . _ -") { isName($0) ? $0 : nil }
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
        return configuration
    }

    private static func isName(_ text: String) -> Bool { DeviceID(text) != nil && !text.contains("~") }

    private static func openStore(_ arguments: Arguments, _ settings: ServiceSettings) throws -> any CallStore {
        var options = StoreAddress.Options()
        options.synchronous = try arguments.required(
            "sqlite-synchronous", "normal or full", SQLiteCallStore.Synchronous.init(rawValue:))
        options.historyPerUser = try arguments.integer("history-per-user", in: SettingsOptions.historyPerUser)
        options.redisPrefix = try arguments.required("redis-prefix", "1 to 64 of A-Z a-z 0-9 . _ -") {
            isName($0) ? $0 : nil
        }
        options.stamp = SettingsOptions.stamp(arguments, settings)
        options.waitReplicas = try arguments.integer("redis-wait-replicas", in: 0...10)
        var address = try arguments.required("store", StoreAddress.forms, StoreAddress.init)
        if let file = try arguments.file("redis-password-file"), case .redis(var redis) = address {
            guard let password = readSecret(file) else {
                throw UsageError("bellwire serve: --redis-password-file \(file): no password in it")
            }
            redis.password = password
            address = .redis(redis)
        }
        return try address.open(options, settings)
    }

    private static func statusServer(_ arguments: Arguments, _ status: CoordinatorStatus) throws -> StatusServer? {
        guard let text = arguments.text("http"), !text.isEmpty else { return nil }
        guard let colon = text.lastIndex(of: ":"), colon != text.startIndex,
            let port = Int(text[text.index(after: colon)...]), (0...65535).contains(port)
        else { throw UsageError("bellwire serve: --http \(text): expected HOST:PORT") }
        let host = text[..<colon].trimmingBrackets
        return try StatusServer(host: host, port: port, status: status)
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

extension Substring {
    /// `[::1]` as `::1`.
    fileprivate var trimmingBrackets: String {
        hasPrefix("[") && hasSuffix("]") ? String(dropFirst().dropLast()) : String(self)
    }
}
