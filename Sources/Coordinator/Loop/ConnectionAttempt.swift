import MQTTClient
import Support
import Synchronization

/// A connection that a thread of its own makes: a host that does not answer must not delay the messages of other
/// brokers. A host name and each address are tried for at most a second.
final class ConnectionAttempt: Sendable {
    enum Outcome {
        case connecting
        case made(MQTTConnection)
        case failed(MQTTError)
    }

    private let lock = Mutex(())
    // Only the connecting thread uses the connection until the outcome is set, and only the loop afterwards.
    nonisolated(unsafe) private var result = Outcome.connecting

    var outcome: Outcome { lock.withLock { _ in result } }

    /// Begins to connect. `wakeUp` ends the wait of the loop once there is an outcome.
    init(_ options: MQTTConnection.Configuration, _ wakeUp: WakeUp) throws(MQTTError) {
        let isStarted = startDetachedThread {
            let outcome: Outcome
            do throws(MQTTError) {
                outcome = .made(try Self.connection(options))
            } catch {
                outcome = .failed(error)
            }
            nonisolated(unsafe) let result = outcome
            self.lock.withLock { _ in self.result = result }
            wakeUp.wake()
        }
        guard isStarted else { throw MQTTError(kind: .unreachable, message: "the system refuses a thread") }
    }

    static func connection(_ options: MQTTConnection.Configuration) throws(MQTTError) -> MQTTConnection {
        let connection = try MQTTConnection(options)
        try connection.connect()
        return connection
    }
}
