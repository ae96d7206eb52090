import CallCore
import CallStore
import Coordinator
import Glibc
import MQTTClient
import SQLiteStore
import Support
import Synchronization

/// `bellwire dev`: runs a broker, a coordinator and a demonstration call on this machine.
package enum DevCommand {
    static let command = Command(
        name: "dev", arguments: "",
        summary: """
            Runs a broker, a coordinator and a gateway on this machine, shows a call between two devices, and stays up.
            """,
        options: [
            ConfigFile.option,
            Option("port", "PORT", default: "1883", "the MQTT port on 127.0.0.1"),
            Option("websocket-port", "PORT", default: "8083", "the port of MQTT over WebSocket on 127.0.0.1"),
            Option(
                "gateway-port", "PORT", default: "8080", "the port of REST for backends on 127.0.0.1; any when 0"),
            Option("data", "DIRECTORY", default: ".bellwire", "the directory of the store and the broker's files"),
            Option("http", "PORT", default: "0", "the port of /healthz, /readyz and /metrics; any when 0"),
            Option("rounds", "N", default: "200", "how many calls the demonstration measures"),
            Option("log-level", "LEVEL", default: "warning", "debug, info, warning or error"),
            Option(switch: "once", "exit after the demonstration, with status 1 if it failed"),
            PageOptions.page,
            SettingsOptions.takeOverStore,
        ] + DeliveryOptions.all + TurnOptions.all + SpanDelivery.options + SettingsOptions.all,
        positionals: 0...0)

    /// The state that other threads share with the main thread.
    private final class DevState: Sendable {
        let demonstration = Mutex<Result<Void, DeploymentError>?>(nil)
        let hasStopped = Atomic<Bool>(false)
    }

    package static func run(_ words: [String]) throws {
        try Arguments(command, words).placing(start)
    }

    /// Throws the first mistake of the settings, and starts nothing.
    static func check(_ arguments: Arguments) throws {
        _ = try ports(arguments)
        _ = try arguments.integer("rounds", in: mostRounds)
        _ = try arguments.integer("http", in: anyPort)
        _ = try SettingsOptions.settings(arguments)
        _ = try arguments.integer("history-per-user", in: SettingsOptions.historyPerUser)
        _ = try TurnOptions.servers(arguments)
        _ = try SpanDelivery.settings(arguments)
        _ = try LogOptions.level(arguments)
        try DeliveryOptions.check(arguments)
    }

    /// A port, or 0 for any free port.
    private static let anyPort = 0...65535
    private static let mostRounds = 0...10_000

    private static func ports(
        _ arguments: Arguments
    ) throws(UsageError) -> (mqtt: Int, webSocket: Int, gateway: Int) {
        let ports = 1...65535
        let mqtt = try arguments.integer("port", in: ports)
        let webSocket = try arguments.integer("websocket-port", in: ports)
        guard mqtt != webSocket else { throw UsageError("bellwire dev: --port and --websocket-port must differ") }
        return (mqtt, webSocket, try arguments.integer("gateway-port", in: anyPort))
    }

    private static func start(_ arguments: Arguments) throws {
        // A mistake in the settings is told before the first port is taken.
        try check(arguments)
        let (port, webSocketPort, gatewayPort) = try ports(arguments)
        let rounds = try arguments.integer("rounds", in: mostRounds)
        let directory = arguments.text("data") ?? ".bellwire"
        let page = try PageOptions.devPage(arguments, webSocketPort: webSocketPort)
        var configuration = Coordinator.Configuration(
            brokers: [BrokerAddress(host: "127.0.0.1", port: port)], id: "coordinator-dev")
        configuration.settings = try SettingsOptions.settings(arguments)
        configuration.turn = try TurnOptions.servers(arguments)
        let log = Log(level: try LogOptions.level(arguments), coordinator: configuration.id)
        let httpPort = try arguments.integer("http", in: anyPort)

        guard mkdir(directory, 0o755) == 0 || errno == EEXIST else {
            throw DeploymentError("\(directory): \(String(cString: strerror(errno)))")
        }
        let status = CoordinatorStatus(brokerNames: configuration.brokers.map(\.name))
        let signals = ProcessSignals(reloads: false)
        signals.onSignal(end: { status.stop() })
        let store = directory + "/bellwire.db"
        let server = try StatusServer(host: "127.0.0.1", port: httpPort, status: status)
        // Created in the main thread: the broker lives as long as the thread that started the broker.
        let broker = try DevBroker(port: port, webSocketPort: webSocketPort, directory: directory)
        defer { broker.stop() }
        let state = DevState()
        let opened = try SQLiteCallStore(
            path: store, stamp: SettingsOptions.stamp(arguments, configuration.settings),
            historyPerUser: try arguments.integer("history-per-user", in: SettingsOptions.historyPerUser),
            lease: configuration.settings.presence.lease)
        let webhooks = try WebhookDelivery(arguments, "bellwire dev", beside: opened, log: log) { opened }
        defer { webhooks?.stop() }
        configuration.endpoints = webhooks?.endpoints ?? []
        let settings = configuration.settings
        let delivers = try DeliveryOptions.delivers(arguments)
        let push = try PushDelivery(
            try arguments.file("push"),
            PushDelivery.Surroundings(
                command: "bellwire dev", name: configuration.id, lease: settings.presence.lease,
                traces: settings.trace, traceLife: settings.historyRetention, delivers: delivers, log: log),
            beside: opened
        ) { opened }
        defer { push?.stop() }
        let media = try MediaDelivery(
            try arguments.file("media"), "bellwire dev", delivers: delivers, beside: opened, log: log
        ) { opened }
        defer { media?.stop() }
        media?.configure(&configuration)
        let spans = try SpanDelivery(arguments, beside: opened, log: log) { opened }
        defer { spans?.stop() }
        spans?.configure(&configuration)
        status.alsoShow(allMetrics(webhooks, push, media, spans))
        startCoordinator(configuration, opened, webhooks, push, media, spans, status, log, state)
        defer { waitForCoordinator(status, state) }

        writeOutput("broker       mqtt://127.0.0.1:\(port)  ws://127.0.0.1:\(webSocketPort)")
        writeOutput("coordinator  store sqlite:\(store)  http://127.0.0.1:\(server.port)/metrics")
        try waitUntilListening(status, broker)
        guard !status.isStopRequested else { return }
        let topics = configuration.settings.topics
        let gateway = try DevGateway(
            port: gatewayPort, directory: directory, store: store, broker: configuration.brokers[0], topics: topics,
            lease: configuration.settings.presence.lease, page: page)
        defer { gateway.stop() }
        writeOutput("gateway      http://127.0.0.1:\(gateway.port)  token \(gateway.token)")
        writeOutput(
            page == nil
                ? "call page    not built: scripts/run builds it where nodejs, esbuild and node-typescript are installed"
                : "call page    http://127.0.0.1:\(gateway.port)/  open it in two tabs")
        demonstrate(Demonstration(broker: configuration.brokers[0], topics: topics, rounds: rounds), state)
        try withExtendedLifetime(server) {
            let howTo = HowToConnect.text(port: port, topics: topics, gateway)
            try supervise(status, broker, state, isOnce: arguments.isSet("once"), howTo: howTo)
        }
    }

    private static func startCoordinator(
        _ configuration: Coordinator.Configuration, _ store: SQLiteCallStore, _ webhooks: WebhookDelivery?,
        _ push: PushDelivery?, _ media: MediaDelivery?, _ spans: SpanDelivery?, _ status: CoordinatorStatus, _ log: Log,
        _ state: DevState
    ) {
        // From here on only the coordinator's thread uses the store.
        nonisolated(unsafe) let coordinator = Coordinator(
            configuration: configuration, store: store, status: status, log: log,
            companions: companions(webhooks, push, media, spans),
            onOutboxEntries: webhooks?.onOutboxEntries ?? { _ in },
            onRooms: media?.onRooms ?? { _ in }, onPushes: push?.onPushes ?? { _ in })
        startDetachedThread {
            coordinator.run()
            state.hasStopped.store(true, ordering: .releasing)
        }
    }

    /// Stops the coordinator, and waits for its end for at most 5 s: the broker must outlive the coordinator, which
    /// disconnects from the broker.
    private static func waitForCoordinator(_ status: CoordinatorStatus, _ state: DevState) {
        status.stop()
        for _ in 0..<250 where !state.hasStopped.load(ordering: .acquiring) { _ = poll(nil, 0, 20) }
    }

    private static func waitUntilListening(_ status: CoordinatorStatus, _ broker: DevBroker) throws {
        for _ in 0..<500 {
            if status.snapshot.isListening || status.isStopRequested { return }
            if let failure = broker.failure { throw DeploymentError(failure) }
            _ = poll(nil, 0, 20)
        }
        throw DeploymentError("the coordinator did not reach the broker within 10 s")
    }

    private static func demonstrate(_ demonstration: Demonstration, _ state: DevState) {
        Task.detached {
            var result: Result<Void, DeploymentError> = .success(())
            do {
                try await demonstration.run()
            } catch {
                result = .failure(DeploymentError("the demonstration failed: \(error)"))
            }
            state.demonstration.withLock { $0 = result }
        }
    }

    /// Waits for the demonstration, and then for Ctrl-C.
    private static func supervise(
        _ status: CoordinatorStatus, _ broker: DevBroker, _ state: DevState, isOnce: Bool, howTo: String
    ) throws {
        var isShown = false
        while !status.isStopRequested {
            try broker.keepRunning()
            if state.hasStopped.load(ordering: .acquiring) { throw DeploymentError("the coordinator ended by itself") }
            if !isShown, let result = state.demonstration.withLock({ $0 }) {
                isShown = true
                if isOnce { return try result.get() }
                if case .failure(let error) = result { writeError("bellwire dev: \(error)") }
                writeOutput(howTo)
            }
            _ = poll(nil, 0, 20)
        }
        writeOutput("stopping")
    }
}
