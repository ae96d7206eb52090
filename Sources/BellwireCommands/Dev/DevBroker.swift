import Support

/// The broker of `bellwire dev`, which is started again when it dies.
final class DevBroker {
    /// Who dies more often than that within a minute will go on dying.
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

    /// Why it is not there; nil while it runs.
    var failure: String? { process.failure }

    /// Starts it again if it has died. An error when it does not stay.
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
