import CallCore
import CallDeciding
import CallStore
import Glibc
import MQTTClient
import SignalingProtocol
import SystemClocks

/// Drives a `CoordinatorLoop` with a broker's connection and the clock: one thread that waits for the broker, the store and what is due.
///
/// One thread and no hand-over between threads keeps latency low and order certain; more load is served by more
/// coordinators.
package final class Coordinator {
    package struct Configuration: Sendable {
        package var broker: BrokerAddress
        /// The MQTT client id, unique among the coordinators.
        package var id: String
        /// The share group: the broker hands each message to one coordinator of the group.
        package var group = "coordinators"
        package var publishQoS = QoS.atLeastOnce
        package var certificateAuthorityFile: String?
        package var certificateFile: String?
        package var certificateKeyFile: String?
        /// Where the token stands that is this coordinator's password at the broker. Read for each connection, so that it may be
        /// replaced.
        package var tokenFile: String?
        /// Endpoints of webhooks that this coordinator's settings name.
        package var endpoints: [KeptEndpoint] = []
        /// What is known here of why a connection failed, beside the error; it is given what was shown as the password.
        package var cause: @Sendable (MQTTError, String?) -> String? = { _, _ in nil }
        package var settings = ServiceSettings()

        package init(broker: BrokerAddress, id: String) {
            self.broker = broker
            self.id = id
        }
    }

    /// The bounds of the driver, in milliseconds where nothing else is said.
    private enum Bounds {
        /// Who was not called for so much longer than was asked for stood still: what has arrived is stale.
        static let frozenAfter: Int64 = 500
        /// How old the counters in `/metrics` may be while there is much to do.
        static let countersInterval: Int64 = 100
        /// A turn with so many messages is a busy one.
        static let busyBatch = 8
        /// How long the store must have been answering before that is told, so that a failure that comes and goes is told once.
        static let answeringBeforeTold: Int64 = 2_000
        /// How long nobody looks whether the store is late, when nothing else happens.
        static let storePatience: Int64 = 20
        /// Messages; beyond it publications are dropped until the broker has caught up.
        static let brokerBacklog = 50_000
    }

    private let configuration: Configuration
    private let service: CallService
    private let loop: CoordinatorLoop
    private let status: CoordinatorStatus
    private let log: Log
    private let companion: (any Companion)?

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
    private var isBusy = false
    private var nextCounters: Int64 = 0
    private var toldFailure = false
    private var lastFailure: Int64 = 0
    private var knownClockSteps: Int?

    /// `owes`: is told of the records of which something is owed to endpoints.
    package init(
        configuration: Configuration, store: any CallStore, status: CoordinatorStatus, log: Log,
        companion: (any Companion)? = nil, owes: @escaping ([RecordID]) -> Void = { _ in }
    ) {
        self.companion = companion
        self.configuration = configuration
        self.status = status
        self.log = log
        var settings = configuration.settings
        settings.coordinator = configuration.id
        service = CallService(store: store, settings: settings)
        service.owes = owes
        service.name(configuration.endpoints)
        loop = CoordinatorLoop(service, now: SystemClock.boot.milliseconds) { Int64.random(in: $0) }
    }

    /// Serves until the status says stop, then drains: leaves the share group, finishes what it holds, and returns.
    package func run() {
        log(
            .info, "coordinator starts",
            [
                "id": configuration.id, "broker": configuration.broker.description, "group": configuration.group,
                "store": service.store.summary,
            ])
        handle(.tick, SystemClock.boot.milliseconds)
        var isDraining = false
        while !loop.hasEnded {
            if status.isStopRequested, !isDraining {
                isDraining = true
                status.update { $0.isDraining = true }
                handle(.stop, SystemClock.boot.milliseconds)
            } else {
                turn()
            }
        }
        connection?.disconnect()
        companion?.stop()
        companion?.turn(SystemClock.boot.milliseconds)
        log(.info, "coordinator stopped", ["id": configuration.id])
    }

    private func turn() {
        let before = SystemClock.boot.milliseconds
        let wait = max(0, min(loop.nextTick, companion?.nextTurn ?? .max) - before)
        let messages = receive(wait)
        let now = SystemClock.boot.milliseconds
        if now - before > wait + Bounds.frozenAfter {
            handle(.frozen, now)
        } else {
            tellAnswers(now)
            isBusy = messages.count >= Bounds.busyBatch
            handle(messages.isEmpty ? .tick : .received(messages), now)
            confirmReceipts(now)
        }
        companion?.turn(SystemClock.boot.milliseconds)
        countRefusals()
        report(now)
    }

    private func handle(_ event: CoordinatorLoop.Event, _ now: Int64) {
        for action in loop.handle(event, now: now) { perform(action) }
    }

    private func perform(_ action: CoordinatorLoop.Action) {
        switch action {
        case .connect: connect()
        case .disconnect: forget()
        case .subscribe:
            ask { connection, filter throws(MQTTError) in try connection.subscribe(filter, qos: .atLeastOnce) }
        case .unsubscribe: ask { connection, filter throws(MQTTError) in try connection.unsubscribe(filter) }
        case .publish(let messages, let by): publish(messages, by: by)
        case .note(let notice): tell(notice)
        case .end: break
        }
    }

    // MARK: The connection

    private func connect() {
        var options = MQTTConnection.Configuration(broker: configuration.broker, clientID: configuration.id)
        options.certificateAuthorityFile = configuration.certificateAuthorityFile
        options.certificateFile = configuration.certificateFile
        options.certificateKeyFile = configuration.certificateKeyFile
        options.userProperty = UserProperty.tokenExpiresAt
        do throws(MQTTError) {
            if let file = configuration.tokenFile {
                guard let token = readSecret(file) else {
                    throw MQTTError(kind: .refused, message: "no token can be read from \(file)")
                }
                options.broker.password = token
            }
            password = options.broker.password
            let connection = try MQTTConnection(options)
            try connection.connect()
            self.connection = connection
            isConnecting = true
        } catch {
            lost(error)
        }
    }

    /// Waits for messages, for the store, and no longer than `wait`.
    private func receive(_ wait: Int64) -> [InboundMessage] {
        let socket = service.store.socket
        // A companion is beside a store that answers at once.
        var other = pollfd(fd: socket?.descriptor ?? companion?.descriptor ?? -1, events: Int16(POLLIN), revents: 0)
        if socket?.waitsToSend ?? false { other.events |= Int16(POLLOUT) }
        var limit = wait
        // What the store does not answer is given up in time.
        if socket?.deadline != nil { limit = min(limit, Bounds.storePatience) }
        defer { if other.revents != 0 || socket?.deadline != nil && limit > 0 { service.store.receive() } }
        guard let connection else {
            _ = poll(&other, 1, Int32(clamping: limit))
            return []
        }
        do throws(MQTTError) {
            return try connection.poll(milliseconds: Int32(clamping: limit), reads: loop.takesMessages, other: &other)
                .map {
                    InboundMessage(
                        topic: $0.topic, payload: $0.payload, correlationData: $0.correlationData,
                        isRetained: $0.retain, tokenExpiresAt: $0.userProperty.flatMap { Int64($0) })
                }
        } catch {
            lost(error)
            return []
        }
    }

    /// Tells the loop what the broker has answered.
    private func tellAnswers(_ now: Int64) {
        guard let connection else { return }
        if isConnecting, connection.state == .connected {
            isConnecting = false
            handle(.connected, now)
        }
        guard !asked.isEmpty else { return }
        asked.subtract(connection.acknowledged)
        if asked.isEmpty { handle(.answered, now) }
    }

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

    private func lost(_ error: MQTTError) {
        log(
            .warning, "broker connection lost",
            ["reason": error.because(configuration.cause(error, password)).message])
        forget()
        handle(.lost, SystemClock.boot.milliseconds)
    }

    private func forget() {
        connection = nil
        isConnecting = false
        receipts = [:]
        refusalsTold = []
        asked = []
    }

    private func publish(_ messages: [OutboundMessage], by deadline: Int64) {
        guard let connection, connection.backlog < Bounds.brokerBacklog, SystemClock.boot.milliseconds < deadline else {
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

    private func confirmReceipts(_ now: Int64) {
        var confirmed: [OutboundMessage] = []
        for (identifier, isTaken) in connection?.takeAnswered() ?? [] {
            guard let receipt = receipts.removeValue(forKey: identifier) else { continue }
            // One that the broker refuses is sent again when its time comes.
            if isTaken { confirmed.append(receipt) } else { service.count(.publicationsDropped) }
        }
        if !confirmed.isEmpty { handle(.taken(confirmed), now) }
    }

    /// What the broker has refused to take is lost like a message on the way, and resends cover it; but somebody has to know.
    private func countRefusals() {
        for (reason, count) in connection?.takeRefused() ?? [:] {
            service.count(.publicationsRefused, reason, count)
            guard refusalsTold.insert(reason).inserted else { continue }
            log(.error, "the broker refuses publications", ["reason": reason])
        }
    }

    // MARK: What operators see

    private func tell(_ notice: CoordinatorLoop.Notice) {
        switch notice {
        case .listening:
            log(
                .info, "listening",
                [
                    "broker": configuration.broker.description,
                    "durability": service.store.durability ?? "unknown",
                ])
        case .brokerIsSilent: log(.warning, "broker connection lost", ["reason": "the broker did not answer in time"])
        case .frozen:
            log(
                .warning, "broker connection lost",
                ["reason": "the process was frozen: what it received is stale"])
        case .storeOutOfReach(let reason):
            log(
                .warning, "the store is out of reach: leaving the share group until it answers",
                ["reason": reason])
        case .storeWithinReach: log(.info, "the store is within reach again: returning to the share group")
        }
    }

    private func reportStore(_ now: Int64) {
        if let failure = service.storeFailure {
            if !toldFailure { log(.error, "the store cannot answer", ["reason": failure]) }
            toldFailure = true
            lastFailure = now
        } else if toldFailure, now - lastFailure >= Bounds.answeringBeforeTold {
            log(.info, "the store answers again")
            toldFailure = false
        }
        let steps = service.store.clockSteps
        if let known = knownClockSteps, steps.count > known {
            log(
                .warning, "the clock of the store's machine was set: calls go on as if it had not been",
                ["by": "\(steps.last) ms"])
            service.count(.storeClockSteps, steps.count - known)
        }
        knownClockSteps = steps.count
    }

    private func report(_ now: Int64) {
        reportStore(now)
        // The counters are copied as a whole, which is too much for every turn of a busy coordinator.
        let isTime = now >= nextCounters || !isBusy
        if isTime {
            nextCounters = now + Bounds.countersInterval
            service.set(.storeRoundTrips, to: service.store.roundTrips)
        }
        status.update {
            $0.isListening = loop.isListening
            $0.unauthorizedInARow = connection?.unauthorizedInARow ?? 0
            $0.storeFailure = service.storeFailure
            $0.lateness = loop.lateness
            $0.lastTurn = now
            if isTime {
                $0.counters = service.counters
                $0.clockSkew = service.store.clockSkew
            }
            $0.waitingDeadlines = service.waitingDeadlines
            $0.brokerBacklog = connection?.backlog ?? 0
        }
    }
}
