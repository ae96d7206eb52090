import BellwireCommands
import Glibc
import MQTTClient

/// `bellwire-lab bench`: measures how many full calls a deployment on this machine sets up, what each call costs, and
/// how the deployment compares with a process that only passes messages on (docs/performance.md).
enum BenchCommand {
    static let command = Command(
        program: "bellwire-lab", name: "bench", arguments: "",
        summary: """
            Measures full calls (invite, ring, ack, accept, end) through a broker, a store and coordinators of its own on this
            machine, and in the same run its limit: a bare relay that passes on as many messages of the same size.
            """,
        options: [
            Option("store", "STORE", default: "redis", "redis, sqlite or memory"),
            Option("coordinators", "N", default: "1", "the number of coordinators; 1 with memory"),
            Option("brokers", "N", default: "1", "the number of brokers that are started"),
            Option(
                "broker", "URL", default: "", isSecret: true,
                "brokers that are there already, with commas, without token checks; nobody else may use them meanwhile"),
            Option("seconds", "N", default: "10", "the duration at the highest rate"),
            Option("rate", "N|max", default: "max", "offered calls per second, or as many as possible"),
            Option("at-once", "N", default: "128", "the greatest number of calls at the same time"),
            Option("qos", "0|1", default: "0", "the QoS of all messages"),
            Option("live", "N", default: "0", "live calls in the store before the measurement"),
            Option("members", "N", default: "2", "users in each call, including the inviter"),
            Option("devices", "N", default: "1", "devices of each user"),
            Option(switch: "soak", "only make calls, and record every minute how memory grows"),
            Option(switch: "json", "print JSON instead of a table"),
            Option("plot", "FILE.svg", default: "", "draw latency against offered rate, up to the knee"),
            Option("bin", "FILE", default: "", "the bellwire to measure; by default next to bellwire-lab"),
            Option(
                "relay", "URL", default: "", isSecret: true, "run as the bare relay of a measurement: for bench itself"),
        ], positionals: 0...0)

    static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        var bench = Bench()
        bench.qos = try arguments.required("qos", "0 or 1") { Int32($0).flatMap(QoS.init) }
        if let broker = arguments.text("relay").flatMap(BrokerAddress.init(url:)) {
            try BareRelay.run(broker: broker, qos: bench.qos)
        }
        bench.store = try arguments.required("store", "redis, sqlite or memory", BenchDeployment.Store.init)
        bench.coordinators = try arguments.integer("coordinators", in: 1...16)
        bench.brokers = try arguments.integer("brokers", in: 1...8)
        if let list = arguments.text("broker"), !list.isEmpty {
            bench.existing = try BrokerList.addresses(arguments)
            bench.existingList = list
        }
        bench.seconds = Double(try arguments.integer("seconds", in: 1...86_400))
        bench.rate = try arguments.required("rate", "a number above 0, or max") { text -> Double?? in
            text == "max" ? .some(nil) : Double(text).flatMap { $0 > 0 && $0 <= 1_000_000 ? .some($0) : nil }
        }
        bench.atOnce = try arguments.integer("at-once", in: 1...10_000)
        bench.live = try arguments.integer("live", in: 0...10_000_000)
        bench.shape.members = try arguments.integer("members", in: 2...10)
        bench.shape.devices = try arguments.integer("devices", in: 1...10)
        bench.plot = arguments.text("plot").flatMap { $0.isEmpty ? nil : $0 }
        bench.isSoak = arguments.isSet("soak")
        if bench.store == .memory {
            guard bench.coordinators == 1, bench.live == 0 else {
                throw UsageError("bellwire-lab bench: --store memory has one coordinator and no live calls")
            }
        }
        bench.bellwire = try measured(arguments)
        let report = try bench.run()
        print(arguments.isSet("json") ? report.json : report.table, terminator: "")
        exit(report.failedCalls == 0 ? 0 : 1)
    }

    /// Returns the path of the program that runs the measured coordinators.
    private static func measured(_ arguments: Arguments) throws(DeploymentError) -> String {
        let named = arguments.text("bin") ?? ""
        let path = named.isEmpty ? ownDirectory() + "/bellwire" : named
        guard access(path, X_OK) == 0 else {
            throw DeploymentError(
                "\(path): \(String(cString: strerror(errno))): build it (swift build -c release --product bellwire), "
                    + "or name another with --bin or BELLWIRE_BIN")
        }
        return path
    }

    /// Returns the directory of this program.
    private static func ownDirectory() -> String {
        var path = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = readlink("/proc/self/exe", &path, path.count)
        let bytes = path.prefix(max(0, count)).map { UInt8(bitPattern: $0) }
        return String(decoding: bytes[..<(bytes.lastIndex(of: UInt8(ascii: "/")) ?? 0)], as: UTF8.self)
    }
}
