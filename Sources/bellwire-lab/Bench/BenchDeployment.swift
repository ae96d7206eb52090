import BellwireCommands
import Glibc
import MQTTClient

/// The brokers, store and coordinators of a measurement, each a process of its own on loopback. The brokers may also be
/// there already, anywhere.
final class BenchDeployment {
    enum Store: String, CaseIterable { case redis, sqlite, memory }

    /// The brokers that this measurement has started.
    let brokers: [BrokerProcess]
    let addresses: [BrokerAddress]
    let storeAddress: StoreAddress
    private(set) var redis: ChildProcess?
    private(set) var coordinators: [(process: ChildProcess, http: Int)] = []
    private let bellwire: String
    private let directory: String
    /// The brokers' addresses as `--broker` takes them, with credentials.
    private let brokerList: String

    /// `existing`: brokers that are there already, `list` as `--broker` named them; without these, `count` brokers
    /// start.
    init(_ store: Store, bellwire: String, brokers count: Int, _ existing: [BrokerAddress], _ list: String)
        throws(DeploymentError)
    {
        self.bellwire = bellwire
        var template = Array("/tmp/bellwire-bench-XXXXXX".utf8CString)
        guard mkdtemp(&template) != nil else {
            throw DeploymentError("no directory: \(String(cString: strerror(errno)))")
        }
        directory = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        var brokers: [BrokerProcess] = []
        var addresses = existing
        for number in 0..<(existing.isEmpty ? count : 0) {
            let port = try Loopback.freePort()
            let own = "\(directory)/broker-\(number)"
            guard mkdir(own, 0o700) == 0 else {
                throw DeploymentError("\(own): \(String(cString: strerror(errno)))")
            }
            brokers.append(try BrokerProcess(port: port, webSocketPort: try Loopback.freePort(), directory: own))
            addresses.append(BrokerAddress(host: "127.0.0.1", port: port))
        }
        (self.brokers, self.addresses) = (brokers, addresses)
        brokerList = existing.isEmpty ? addresses.map(\.description).joined(separator: ",") : list
        switch store {
        case .redis:
            let port = try Loopback.freePort()
            redis = try Self.startRedis(port, directory)
            storeAddress = StoreAddress("redis://127.0.0.1:\(port)")!
        case .sqlite: storeAddress = StoreAddress("sqlite:\(directory)/bellwire.db")!
        case .memory: storeAddress = .memory
        }
    }

    /// Starts Redis with `appendfsync everysec` (docs/performance.md): the log of each write is on disk within a second.
    /// Redis does not rewrite a log that has doubled: with a million calls that takes half a minute and a core, and
    /// would fall into some measurements and not into others.
    private static func startRedis(_ port: Int, _ directory: String) throws(DeploymentError) -> ChildProcess {
        let process = try ChildProcess(
            "redis-server", try ChildProcess.find("redis-server"),
            [
                "--port", "\(port)", "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync",
                "everysec", "--auto-aof-rewrite-percentage", "0", "--dir", directory,
            ], logPath: directory + "/redis.log")
        try process.waitUntil("listens on port \(port)") {
            Loopback.connected(to: port).map { close($0) } != nil
        }
        return process
    }

    func startCoordinators(_ count: Int, qos: Int, _ options: [String] = []) throws(DeploymentError) {
        for number in 1...count {
            let http = try Loopback.freePort()
            let process = try ChildProcess(
                "coordinator \(number)", bellwire,
                [
                    "serve", "--broker", brokerList, "--store", "\(storeAddress)", "--id",
                    "coordinator-\(number)", "--publish-qos", "\(qos)", "--http", "127.0.0.1:\(http)", "--log-level",
                    "warning", "--trace", "off", "--request-rate", "0/0", "--device-rate", "0/0", "--pair-rate", "0/0",
                    "--callee-rate", "0/0", "--invite-rate", "0/0", "--sent-bytes-rate", "0/0", "--live-invitations",
                    "1000000", "--stored-bytes", "1000000000000", "--pair-invitations", "1000000", "--pair-bytes-rate",
                    "0/0", "--callee-bytes-rate", "0/0",
                ] + options, logPath: directory + "/coordinator-\(number).log")
            coordinators.append((process, http))
        }
        for (process, http) in coordinators {
            // A coordinator is ready with a single broker, and the measurement needs all of them.
            try process.waitUntil("serves all brokers") {
                let page = Loopback.get("/readyz", port: http) ?? ""
                return page.hasPrefix("HTTP/1.1 200") && page.split(separator: ":\"serving\"").count > addresses.count
            }
        }
    }

    func startRelay(qos: Int) throws(DeploymentError) -> ChildProcess {
        try ChildProcess(
            "relay", "/proc/self/exe",
            ["bench", "--relay", String(brokerList.split(separator: ",")[0]), "--qos", "\(qos)"],
            logPath: directory + "/relay.log")
    }

    /// Returns the sum of a metric over all coordinators and all labels.
    func metric(_ name: String) -> Double {
        coordinators.reduce(0) { sum, coordinator in
            let lines = (Loopback.get("/metrics", port: coordinator.http) ?? "").split(separator: "\n")
            return sum
                + lines.filter { $0.hasPrefix(name + " ") || $0.hasPrefix(name + "{") }
                .compactMap { $0.split(separator: " ").last.flatMap { Double($0) } }.reduce(0, +)
        }
    }

    /// The failure of a process that ended by itself; nil when all processes run.
    var failure: String? {
        brokers.lazy.compactMap(\.failure).first ?? redis?.failure
            ?? coordinators.lazy.compactMap(\.process.failure).first
    }

    func stop() {
        for (process, _) in coordinators { process.stop() }
        for broker in brokers { broker.stop() }
        redis?.stop()
        removeFiles(in: directory)
    }
}

/// Removes a directory with its files and subdirectories: Redis has a subdirectory for its log.
private func removeFiles(in directory: String) {
    guard let stream = opendir(directory) else { return }
    var names: [String] = []
    while let entry = readdir(stream) { names.append(entry.name) }
    closedir(stream)
    for name in names where name != "." && name != ".." {
        let path = "\(directory)/\(name)"
        if unlink(path) != 0 { removeFiles(in: path) }
    }
    rmdir(directory)
}

extension UnsafeMutablePointer<dirent> {
    var name: String {
        withUnsafePointer(to: &pointee.d_name) { pointer in
            pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
        }
    }
}
