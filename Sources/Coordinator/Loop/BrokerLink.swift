import CallCore
import Glibc
import MQTTClient
import SignalingProtocol
import Support

/// A coordinator's connection to one broker. The loop says when to connect, also after a connection is lost.
///
/// More than 200 lines: all messages to and from a broker end, or begin anew, with one connection.
final class BrokerLink {
    private enum LinkBounds {
        /// The bound on messages that are not sent yet, or, at QoS 1, not acknowledged; at the bound, outbound messages
        /// are dropped.
        static let mostBacklog = 50_000
        /// The longest time between two looks at a quiet connection, which has to be kept alive, in milliseconds.
        static let longestQuiet: Int64 = 200
        /// With QoS 0 a broker refuses in silence. A message in this time, in milliseconds, has QoS 1 all the same, so
        /// that a refusal shows.
        static let acknowledgedInterval: Int64 = 1_000
        /// How long the broker keeps a canary, in seconds.
        static let canaryExpiry: UInt32 = 5
    }

    let broker: BrokerIndex
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

    /// The connection that is being made.
    private var attempt: ConnectionAttempt?
    /// Ends the wait of the loop when a connection was made.
    private let wakeUp: WakeUp
    private var lastReceived: Int64 = 0
    /// The time at which a message was last sent with QoS 1, by the boot clock, in milliseconds.
    private var lastAcknowledged = Int64.min / 2
    /// The time at which the last canary was sent, by the boot clock, in microseconds; nil when the canary has come
    /// back.
    private var canarySent: Int64?

    init(
        _ broker: BrokerIndex, _ configuration: Coordinator.Configuration, _ service: CallService, _ log: Log,
        _ wakeUp: WakeUp
    ) {
        self.broker = broker
        self.wakeUp = wakeUp
        self.configuration = configuration
        self.service = service
        self.log = log
    }

    /// The number of consecutive refusals of publications; nil without a connection.
    var unauthorizedInARow: Int? { connection?.unauthorizedInARow }
    var backlog: Int { connection?.backlog ?? 0 }

    // MARK: Connecting

    /// Begins to connect.
    func connect() {
        var options = MQTTConnection.Configuration(broker: configuration.brokers[broker], clientID: configuration.id)
        options.certificateAuthorityFile = configuration.certificateAuthorityFile
        options.certificateFile = configuration.certificateFile
        options.certificateKeyFile = configuration.certificateKeyFile
        options.userProperties = [UserProperty.tokenExpiresAt]
        if configuration.onTimelineEnd != nil { options.userProperties.append(UserProperty.traceParent) }
        do throws(MQTTError) {
            if let file = configuration.tokenFile { try options.readToken(from: file) }
            password = options.broker.password
            attempt = try ConnectionAttempt(options, wakeUp)
        } catch {
            lost(error)
        }
    }

    private func take(_ connection: MQTTConnection) {
        self.connection = connection
        isConnecting = true
        lastReceived = SystemClock.boot.milliseconds
    }

    /// Takes the connection that was being made, once the attempt has ended.
    private func takeAttempt() {
        guard let attempt else { return }
        switch attempt.outcome {
        case .connecting: return
        case .made(let connection):
            self.attempt = nil
            take(connection)
        case .failed(let error): lost(error)
        }
    }

    func disconnect() { connection?.disconnect() }

    /// Drops the connection and all messages that were queued for the connection.
    func forget() {
        connection = nil
        attempt = nil
        isConnecting = false
        receipts = [:]
        refusalsTold = []
        asked = []
        canarySent = nil
    }

    private func lost(_ error: MQTTError) {
        log(
            .warning, "broker connection lost",
            [
                "broker": configuration.brokers[broker].description,
                "reason": error.because(configuration.cause(error, password)).message,
            ])
        forget()
        onLost()
    }

    func subscribe() {
        ask { connection, filter throws(MQTTError) in try connection.subscribe(filter, qos: .atLeastOnce) }
        subscribeIfPermitted(topics.canary(of: configuration.id))
        subscribeIfPermitted("$share/\(configuration.group)/\(topics.sharedCanary)")
        sendDisabledUsers()
    }

    /// Tells the broker's plugin the disabled users. A broker without a plugin delivers the message to nobody.
    func sendDisabledUsers() {
        guard connection?.state == .connected, let users = service.disabledUsers else { return }
        perform { connection throws(MQTTError) in
            do throws(MQTTError) {
                _ = try connection.publish(
                    MQTTMessage(topic: topics.disabledUsers, payload: DisabledUsers(users).payload, qos: .atMostOnce))
            } catch {
                // A broker with a smaller bound on packets: coordinators refuse the users all the same.
                guard error.kind == .invalid else { throw error }
                log(.error, "cannot send the list of disabled users to the broker", ["reason": error.message])
            }
        }
    }

    /// Subscribes to the messages that this coordinator is to publish at the broker `served` for other coordinators.
    func subscribeRelay(_ served: BrokerName) { subscribeIfPermitted(relayFilter(served)) }

    func unsubscribeRelay(_ served: BrokerName) {
        perform { connection throws(MQTTError) in _ = try connection.unsubscribe(relayFilter(served)) }
    }

    private func relayFilter(_ served: BrokerName) -> String {
        "$share/\(configuration.group)/\(topics.relay(to: served))"
    }

    /// Subscribes to messages that the coordinator can do without. A broker with the access rules of an older version
    /// may refuse the subscription.
    private func subscribeIfPermitted(_ filter: String) {
        perform { connection throws(MQTTError) in
            _ = try connection.subscribe(filter, qos: .atMostOnce, isOptional: true)
        }
    }

    /// Publishes messages that the broker is to deliver: to this coordinator, and to a coordinator of the share group.
    func sendCanary() {
        perform { connection throws(MQTTError) in
            try connection.together { () throws(MQTTError) in
                for topic in [topics.canary(of: configuration.id), topics.sharedCanary] {
                    _ = try connection.publish(
                        MQTTMessage(topic: topic, payload: [], qos: .atMostOnce, expirySeconds: LinkBounds.canaryExpiry)
                    )
                }
            }
        }
        canarySent = SystemClock.boot.microseconds
    }

    private var topics: Topics { configuration.settings.topics }

    private func perform(_ operation: (MQTTConnection) throws(MQTTError) -> Void) {
        guard let connection else { return }
        do throws(MQTTError) {
            try operation(connection)
        } catch {
            lost(error)
        }
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

    private func inbound(_ message: MQTTMessage) -> InboundMessage {
        InboundMessage(
            topic: message.topic, payload: message.payload, correlationData: message.correlationData,
            responseTopic: message.responseTopic, isRetained: message.retain,
            tokenExpiresAt: message.userProperties[UserProperty.tokenExpiresAt].flatMap { Int64($0) },
            traceParent: message.userProperties[UserProperty.traceParent].flatMap(TraceParent.init),
            expirySeconds: message.expirySeconds, broker: broker)
    }

    /// Returns the descriptor to wait for.
    func prepareToWait(reads: Bool) -> pollfd {
        takeAttempt()
        guard let connection else { return pollfd(fd: -1, events: 0, revents: 0) }
        do throws(MQTTError) {
            return try connection.prepareToWait(reads: reads)
        } catch {
            lost(error)
            return pollfd(fd: -1, events: 0, revents: 0)
        }
    }

    func hasWork(reads: Bool) -> Bool { connection?.hasWork(reads: reads) ?? false }

    /// Returns the messages that have arrived. `events` are the events of the descriptor of `prepareToWait`.
    func receive(_ events: Int16, reads: Bool) -> [InboundMessage] {
        guard let connection else { return [] }
        let now = SystemClock.boot.milliseconds
        guard events != 0 || connection.hasWork(reads: reads) || now - lastReceived >= LinkBounds.longestQuiet else {
            return []
        }
        lastReceived = now
        do throws(MQTTError) {
            let messages = try connection.receive(events, reads: reads).map(inbound)
            measureRoundTrip(messages)
            return messages
        } catch {
            lost(error)
            return []
        }
    }

    /// Measures how long the broker took to deliver the last canary.
    private func measureRoundTrip(_ messages: [InboundMessage]) {
        guard let canarySent, !messages.isEmpty else { return }
        let canary = topics.canary(of: configuration.id)
        guard messages.contains(where: { $0.topic == canary }) else { return }
        self.canarySent = nil
        service.add(
            .brokerRoundTrip, SystemClock.boot.microseconds - canarySent, configuration.brokers[broker].name)
    }

    /// Returns the broker's answers to the loop's requests.
    func takeAnswers() -> [CoordinatorLoop.Event] {
        guard let connection else { return [] }
        var answers: [CoordinatorLoop.Event] = []
        if isConnecting, connection.state == .connected {
            isConnecting = false
            answers.append(.connected(broker))
        }
        guard !asked.isEmpty else { return answers }
        asked.subtract(connection.acknowledged)
        if asked.isEmpty { answers.append(.answered(broker)) }
        return answers
    }
}

// MARK: Publishing

extension BrokerLink {
    /// Publishes messages. After `deadline` (boot clock, in milliseconds) the messages are stale and are dropped.
    func publish(_ messages: [OutboundMessage], by deadline: Int64) {
        let now = SystemClock.boot.milliseconds
        guard let connection, connection.backlog < LinkBounds.mostBacklog, now < deadline else {
            service.count(.publicationsDropped, messages.count)
            return
        }
        do throws(MQTTError) {
            try connection.together { () throws(MQTTError) in
                for message in messages { try publish(message, connection, now) }
            }
        } catch {
            lost(error)
        }
    }

    /// Chooses the QoS of the next message. A receipt is never sent again once the broker has acknowledged the receipt,
    /// so each receipt has QoS 1. After a refusal the broker has to acknowledge each message, until the broker takes
    /// one.
    private func qos(of message: OutboundMessage, _ connection: MQTTConnection, _ now: Int64) -> QoS {
        let mustBeAcknowledged =
            configuration.publishQoS == .atLeastOnce || message.receiptOf != nil || connection.unauthorizedInARow > 0
            || now - lastAcknowledged >= LinkBounds.acknowledgedInterval
        if mustBeAcknowledged { lastAcknowledged = now }
        return mustBeAcknowledged ? .atLeastOnce : .atMostOnce
    }

    private func publish(
        _ message: OutboundMessage, _ connection: MQTTConnection, _ now: Int64
    ) throws(MQTTError) {
        do throws(MQTTError) {
            let identifier = try connection.publish(
                MQTTMessage(
                    topic: message.topic, payload: message.payload, qos: qos(of: message, connection, now),
                    correlationData: message.correlationData, responseTopic: message.responseTopic,
                    expirySeconds: message.expirySeconds),
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
            log(
                .error, "the broker refuses publications",
                ["broker": configuration.brokers[broker].description, "reason": reason])
        }
    }
}
