import CallCore
import Glibc
import MQTTClient
import SignalingProtocol
import Support

/// A coordinator's connection to the broker. The loop says when to connect, also after a connection is lost.
final class BrokerLink {
    /// The bound on messages that the broker has not acknowledged; at the bound, outbound messages are dropped.
    private static let mostBacklog = 50_000

    private let configuration: Coordinator.Configuration
    private let service: CallService
    private let log: Log
    /// Called when the connection is lost or could not be made.
    var onLost: () -> Void = {}
    private var connection: MQTTConnection?
    /// The password that was sent to the broker.
    private var password: String?
    /// The subscribe and unsubscribe requests that the broker has not answered.
    private var asked: Set<Int32> = []
    private var isConnecting = false
    /// The receipts that the broker has not acknowledged. Receipts that are lost with the connection are sent again.
    private var receipts: [Int32: OutboundMessage] = [:]
    /// The broker's reasons for refusals on this connection. Each reason is logged once.
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

    /// Drops the connection and all messages that were queued for the connection.
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

    // MARK: Receiving

    /// Waits for messages, or for a descriptor in `others`.
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

    /// Returns the broker's answers to the loop's requests.
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

    // MARK: Publishing

    /// Publishes messages. After `deadline` (boot clock, in milliseconds) the messages are stale and are dropped.
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

    /// Takes out the receipts that the broker has acknowledged.
    func takeConfirmed() -> [OutboundMessage] {
        var confirmed: [OutboundMessage] = []
        for (identifier, isTaken) in connection?.takeAnswered() ?? [] {
            guard let receipt = receipts.removeValue(forKey: identifier) else { continue }
            // A receipt that the broker refuses is sent again at its deadline.
            if isTaken { confirmed.append(receipt) } else { service.count(.publicationsDropped) }
        }
        return confirmed
    }

    /// Counts the messages that the broker refused, and logs each new reason. Resends cover a refused message as they
    /// cover a lost message, but an operator has to learn of the refusal.
    func countRefusals() {
        for (reason, count) in connection?.takeRefused() ?? [:] {
            service.count(.publicationsRefused, reason, count)
            guard refusalsTold.insert(reason).inserted else { continue }
            log(.error, "the broker refuses publications", ["reason": reason])
        }
    }
}
