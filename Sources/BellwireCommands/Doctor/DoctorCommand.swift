import CallStore
import MQTTClient
import SignalingProtocol

/// `bellwire doctor`: tries what a deployment needs (docs/deployment.md).
package enum DoctorCommand {
    static let command = Command(
        name: "doctor", arguments: "",
        summary: """
            Tries what a deployment needs, with the options of serve and gateway: running brokers and a store, endpoints
            of webhooks, providers of pushes, media servers, and certificates. Prints one line a check, with the command
            or setting that mends a fault. Brokers are tried on topics below {topic root}/doctor. Of a settings file, the
            object serve counts before the object gateway; brokers are tried as both when their settings differ. Exit 0,
            1 for warnings, 2 for faults.
            """,
        options: options + [Option(switch: "json", "print the checks as JSON")],
        positionals: 0...0, configObjects: configObjects)

    /// The objects of a settings file that count for commands that examine a deployment.
    static let configObjects = [ServeCommand.command.name, GatewayCommand.command.name]

    /// The options of `serve` and `gateway`. A store is tried only when it is named.
    static let options: [Option] = {
        var options = StoreOptions.examined
        for option in ServeCommand.command.options + GatewayCommand.command.options
        where !options.contains(where: { $0.name == option.name }) { options.append(option) }
        return options
    }()

    package static func run(_ words: [String]) throws -> Int32 {
        let arguments = try Arguments(command, words)
        return try arguments.placing { try examine($0) }
    }

    /// Returns all checks, for arguments with `options`. `reachesServers`: whether endpoints, providers and media
    /// servers are asked.
    static func checks(_ arguments: Arguments, reachesServers: Bool = true) throws -> [Check] {
        let root = try arguments.required("topic-root", Topics.rootForm, Topics.init(root:)).root
        let connections = try connections(arguments)
        // The mode comes first: opening the store makes its file private.
        let mode = StoreOptions.sqlitePath(arguments).flatMap(FileModeExamination.check)
        let store = try StoreOptions.openForExamination(arguments)
        var checks: [Check] = []
        for (place, configuration) in connections {
            checks += BrokerExamination(configuration, root: root).checks().map { $0.named($0.name + place) }
        }
        if let store { checks += StoreExamination(store).checks() + (mode.map { [$0] } ?? []) }
        checks += DeliveryExamination(arguments: arguments, reachesServers: reachesServers).checks()
        return checks + CertificateExamination(arguments: arguments).checks()
    }

    private static func examine(_ arguments: Arguments) throws -> Int32 {
        let checks = try checks(arguments)
        if arguments.isSet("json") {
            writeOutput(json(checks))
        } else {
            for line in lines(of: checks) { writeOutput(line) }
        }
        if checks.contains(where: { $0.verdict == .fail }) { return 2 }
        return checks.contains { $0.verdict == .warn } ? 1 : 0
    }

    static func lines(of checks: [Check]) -> [String] {
        checks.flatMap { check in
            ["\(check.verdict.rawValue.padded(to: 5))\(check.name): \(check.seen)"]
                + (check.mend.map { ["     → \($0)"] } ?? [])
        }
    }

    /// Returns the connection's settings for each broker, with the end of the names of its checks: of each object in
    /// the settings file, without the gateway's connections that the coordinator has as well.
    private static func connections(
        _ arguments: Arguments
    ) throws -> [(place: String, MQTTConnection.Configuration)] {
        let roles = configObjects.filter(arguments.hasConfigObject).map { arguments.reading([$0]) }
        var connections: [(String, MQTTConnection.Configuration)] = []
        for (place, role) in (roles.isEmpty ? [arguments] : roles).enumerated() {
            let all = try configurations(role)
            for own in all where !connections.contains(where: { $0.1.connects(like: own) }) {
                let broker = all.count == 1 ? "" : "@\(own.broker.name)"
                connections.append(((place == 0 ? "" : "@gateway") + broker, own))
            }
        }
        return connections
    }

    /// Returns the connection's settings for each broker of `--broker`.
    private static func configurations(_ arguments: Arguments) throws -> [MQTTConnection.Configuration] {
        try BrokerList.addresses(arguments).map { broker in
            var configuration = MQTTConnection.Configuration(broker: broker, clientID: "doctor")
            configuration.certificateAuthorityFile = try arguments.file("broker-ca")
            configuration.certificateFile = try arguments.file("broker-cert")
            configuration.certificateKeyFile = try arguments.file("broker-key")
            guard (configuration.certificateFile == nil) == (configuration.certificateKeyFile == nil) else {
                throw UsageError("\(arguments.command.title): --broker-cert and --broker-key go together")
            }
            if let file = try arguments.file("token-file") {
                do throws(MQTTError) {
                    try configuration.readToken(from: file)
                } catch {
                    throw UsageError("\(arguments.command.title): \(error)")
                }
            }
            return configuration
        }
    }

    private static func json(_ checks: [Check]) -> String {
        let bytes = JSONWriter.object { writer in
            writer.array("checks") { writer in
                for check in checks {
                    writer.object { writer in
                        writer.field("name", check.name)
                        writer.field("verdict", check.verdict.rawValue)
                        writer.field("seen", check.seen)
                        writer.field("mend", check.mend)
                    }
                }
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}

extension MQTTConnection.Configuration {
    /// Whether both connect to the same broker with the same credentials.
    fileprivate func connects(like other: MQTTConnection.Configuration) -> Bool {
        broker == other.broker && certificateAuthorityFile == other.certificateAuthorityFile
            && certificateFile == other.certificateFile && certificateKeyFile == other.certificateKeyFile
    }
}
