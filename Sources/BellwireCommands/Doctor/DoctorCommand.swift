import CallStore
import MQTTClient
import SignalingProtocol

/// `bellwire doctor`: tries what a deployment needs of its broker and its store (docs/deployment.md).
package enum DoctorCommand {
    static let command = Command(
        name: "doctor", arguments: "",
        summary: """
            Tries what Bellwire needs of a running broker and store: one line a check, with the command or setting that
            mends a fault. The broker is tried on topics below {topic root}/doctor. Exit 0, 1 for warnings, 2 for faults.
            """,
        options: [
            ConfigFile.option,
            Option(
                "broker", "URL", default: "mqtt://127.0.0.1:1883", isSecret: true,
                "mqtt://[user[:password]@]host:port, or mqtts://"),
            Option("broker-ca", "FILE", default: "", "certificate authorities to trust with mqtts://"),
            Option("broker-cert", "FILE", default: "", "a coordinator's certificate, where the broker asks for one"),
            Option("broker-key", "FILE", default: "", "the certificate's private key"),
            Option("token-file", "FILE", default: "", "a file with the token of a coordinator or a server"),
            SettingsOptions.topicRoot,
        ] + StoreOptions.examined + [Option(switch: "json", "print the checks as JSON")],
        positionals: 0...0)

    package static func run(_ words: [String]) throws -> Int32 {
        let arguments = try Arguments(command, words)
        return try arguments.placing { try examine($0) }
    }

    /// Returns the checks of the broker and of the store, for arguments with the options of `doctor`.
    static func checks(_ arguments: Arguments) throws -> [Check] {
        let root = try arguments.required("topic-root", Topics.rootForm, Topics.init(root:)).root
        let store = try StoreOptions.openForExamination(arguments)
        var checks = BrokerExamination(try configuration(arguments), root: root).checks()
        if let store { checks += StoreExamination(store).checks() }
        return checks
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

    private static func configuration(_ arguments: Arguments) throws -> MQTTConnection.Configuration {
        let broker = try arguments.required(
            "broker", "mqtt://[user[:password]@]host:port or mqtts://…", BrokerAddress.init(url:))
        var configuration = MQTTConnection.Configuration(broker: broker, clientID: "doctor")
        configuration.certificateAuthorityFile = try arguments.file("broker-ca")
        configuration.certificateFile = try arguments.file("broker-cert")
        configuration.certificateKeyFile = try arguments.file("broker-key")
        guard (configuration.certificateFile == nil) == (configuration.certificateKeyFile == nil) else {
            throw UsageError("bellwire doctor: --broker-cert and --broker-key go together")
        }
        if let file = try arguments.file("token-file") {
            do throws(MQTTError) {
                try configuration.readToken(from: file)
            } catch {
                throw UsageError("bellwire doctor: \(error)")
            }
        }
        return configuration
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
