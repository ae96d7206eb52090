import CallCore
import Glibc
import MQTTClient
import SignalingProtocol
import Support

/// A coordinator's connection to the broker, while there is one: made when the loop says so, and made anew when it is lost.
final class BrokerLink {
    /// Messages; beyond it publications are dropped until the broker has caught up.
    private static let mostBacklog = 50_000

    private let configuration: Coordinator.Configuration
    private let service: CallService
    private let log: Log
    /// There is no connection any more, or none could be made.
    var onLost: () -> Void = {}
    private var connection: MQTTConnection?
    /// What was shown as the password.
    private var password: String?
    /// Subscriptions, or their ends, that the broker has not answered.
    private var asked: Set<Int32> = []
    private var isConnecting = false
    /// Receipts that the broker has not acknowledged: what goes with the connection is sent again.
    private var receipts: [Int32: OutboundMessage] = [:]
    /// Why the broker has refused publications on this connection: each is told once.
    private var refusalsTold: Set<String> = []

    init(_ configuration: Coordinator.Configuration, _ service: CallService, _ log: Log) {
        self.configuration = configuration
        self.service = service
        self.log = log
    }

    var unauthorizedInARow: Int { connection?.unauthorizedInARow ?? 0 }
    var backlog: Int { connection?.backlog ?? 0 }

    // MARK: Connecting

    func connect() {
        var options = MQTTConnection.Configuration(broker: configuration.broker, clientID: configuration.id)
        options.certificateAuthorityFile = configuration.certificateAuthorityFile
        options.certificateFile = configuration.certificateFile
        options.certificateKeyFile = configuration.certificateKeyFile
        options.userProperty = UserProperty.tokenExpiresAt
        do throws(MQTTError) {
            if let file = configuration.tokenFile { try options.readToken(from: file) }
            password = options.broker.password
            let connection = try MQTTConnection(options)
            try connection.connect()
            self.connection = connection
            isConnecting = true
        } catch {
            lost(error)
        }
    }

    func disconnect() { connection?.disconnect() }

    /// The connection goes with all that was queued for it.
    func forget() {
        connection = nil
        isConnecting = false
        receipts = [:]
        refusalsTold = []
        asked = []
    }

    private func lost(_ error: MQTTError) {
        log(
            .warning, "broker connection lost",
            ["reason": error.because(configuration.cause(error, password)).message])
        forget()
        onLost()
    }

    func subscribe() {
        ask { connection, filter throws(MQTTError) in try connection.subscribe(filter, qos: .atLeastOnce) }
    }

    func unsubscribe() { ask { connection, filter throws(MQTTError) in try connection.unsubscribe(filter) } }

    private func ask(_ request: (MQTTConnection, String) throws(MQTTError) -> Int32) {
        guard let connection else { return }
        do throws(MQTTError) {
            for filter in configuration.settings.topics.sharedFilters(group: configuration.group) {
                asked.insert(try request(connection, filter))
            }
        } catch {
            lost(error)
        }
    }

    // MARK: What comes

    /// Waits for messages, or for `other`.
    func receive(
        milliseconds: Int32, reads: Bool, others: inout [pollfd]
    ) -> [InboundMessage] {
        guard let connection else {
            _ = poll(&others, nfds_t(others.count), milliseconds)
            return []
        }
        do throws(MQTTError) {
            return try connection.poll(milliseconds: milliseconds, reads: reads, others: &others, count: others.count)
                .map {
                    InboundMessage(
                        topic: $0.topic, payload: $0.payload, correlationData: $0.correlationData,
                        responseTopic: $0.responseTopic, isRetained: $0.retain,
                        tokenExpiresAt: $0.userProperty.flatMap { Int64($0) })
                }
        } catch {
            lost(error)
            return []
        }
    }

    /// What the broker has answered to what the loop asked for.
    func takeAnswers() -> [CoordinatorLoop.Event] {
        guard let connection else { return [] }
        var answers: [CoordinatorLoop.Event] = []
        if isConnecting, connection.state == .connected {
            isConnecting = false
            answers.append(.connected)
        }
        guard !asked.isEmpty else { return answers }
        asked.subtract(connection.acknowledged)
        if asked.isEmpty { answers.append(.answered) }
        return answers
    }

    // MARK: What goes

    /// What is not handed over by `deadline` is stale.
    func publish(_ messages: [OutboundMessage], by deadline: Int64) {
        guard let connection, connection.backlog < Self.mostBacklog, SystemClock.boot.milliseconds < deadline else {
            service.count(.publicationsDropped, messages.count)
            return
        }
        do throws(MQTTError) {
            try connection.together { () throws(MQTTError) in
                for message in messages { try publish(message, connection) }
            }
        } catch {
            lost(error)
        }
    }

    private func publish(_ message: OutboundMessage, _ connection: MQTTConnection) throws(MQTTError) {
        do throws(MQTTError) {
            let identifier = try connection.publish(
                MQTTMessage(
                    topic: message.topic, payload: message.payload, qos: configuration.publishQoS,
                    correlationData: message.correlationData, expirySeconds: message.expirySeconds),
                isAwaited: message.receiptOf != nil)
            if message.receiptOf != nil { receipts[identifier] = message }
        } catch {
            service.count(.publicationsDropped)
            guard error.kind == .invalid else { throw error }
            log(
                .error, "message cannot be published",
                ["topic": String(message.topic.prefix(200)), "reason": error.message])
        }
    }

    /// The receipts that the broker has.
    func takeConfirmed() -> [OutboundMessage] {
        var confirmed: [OutboundMessage] = []
        for (identifier, isTaken) in connection?.takeAnswered() ?? [] {
            guard let receipt = receipts.removeValue(forKey: identifier) else { continue }
            // One that the broker refuses is sent again when its time comes.
            if isTaken { confirmed.append(receipt) } else { service.count(.publicationsDropped) }
        }
        return confirmed
    }

    /// What the broker has refused to take is lost like a message on the way, and resends cover it; but somebody has to know.
    func countRefusals() {
        for (reason, count) in connection?.takeRefused() ?? [:] {
            service.count(.publicationsRefused, reason, count)
            guard refusalsTold.insert(reason).inserted else { continue }
            log(.error, "the broker refuses publications", ["reason": reason])
        }
    }
}
