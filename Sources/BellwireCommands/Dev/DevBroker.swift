import Support

/// The broker of `bellwire dev`. A broker that has died is started again.
final class DevBroker {
    /// A broker that was started more often than this within `interval` milliseconds is not started again.
    private static let mostStarts = 5
    private static let interval: Int64 = 60_000

    private let start: () throws(DeploymentError) -> BrokerProcess
    private var process: BrokerProcess
    private var starts: [Int64]

    init(port: Int, webSocketPort: Int, directory: String) throws(DeploymentError) {
        start = { () throws(DeploymentError) in
            try BrokerProcess(port: port, webSocketPort: webSocketPort, directory: directory)
        }
        starts = [SystemClock.boot.milliseconds]
        process = try start()
    }

    /// The reason why the broker ended; nil while the broker runs.
    var failure: String? { process.failure }

    /// Starts a dead broker again. Throws if the broker dies too often.
    func keepRunning() throws(DeploymentError) {
        guard let failure = process.failure else { return }
        let now = SystemClock.boot.milliseconds
        starts = starts.filter { $0 > now - Self.interval } + [now]
        guard starts.count <= Self.mostStarts else { throw DeploymentError(failure) }
        writeError("bellwire dev: \(failure); it is started again")
        process = try start()
    }

    func stop() { process.stop() }
}
