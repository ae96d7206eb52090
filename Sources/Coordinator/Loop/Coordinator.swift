import CallDeciding
import CallStore
import Glibc
import MQTTClient
import SignalingProtocol

/// The shell around `CallService`: one thread that reads from the broker, serves deadlines and publishes.
///
/// One thread and no hand-over between threads keeps latency low and order certain; more load is served by more
/// coordinators.
public final class Coordinator {
    public struct Configuration: Sendable {
        public var broker: BrokerAddress
        /// The MQTT client id, unique among the coordinators.
        public var id: String
        /// The share group: the broker hands each message to one coordinator of the group.
        public var group = "coordinators"
        public var publishQoS = QoS.atLeastOnce
        public var certificateAuthorityFile: String?
        public var certificateFile: String?
        public var certificateKeyFile: String?
        /// Where the token stands that is this coordinator's password at the broker. Read for each connection, so that it may be
        /// replaced.
        public var tokenFile: String?
        /// What is known here of why a connection failed, beside the error; it is given what was shown as the password.
        public var cause: @Sendable (MQTTError, String?) -> String? = { _, _ in nil }
        public var settings = ServiceSettings()

        public init(broker: BrokerAddress, id: String) {
            self.broker = broker
            self.id = id
        }
    }

    /// The bounds of the loop, in milliseconds where nothing else is said.
    private enum Bounds {
        static let longestWait: Int64 = 200
        /// Work older than this is dropped, not done late: resends cover it.
        static let staleAfter: Int64 = 500
        static let sweepInterval: Int64 = 500
        /// A shared store that has been failing for so long is out of reach: the broker is asked to hand the messages to others. Longer
        /// than one wait for it, which may be a slow disk, and short enough to have left within a second.
        static let failingBeforeLeaving: Int64 = 600
        /// How often a shared store is looked at, and how often while it fails.
        static let storeLookInterval: Int64 = 100
        static let failingLookInterval: Int64 = 50
        /// How long the store must have been answering before that is told, so that a failure that comes and goes is told once.
        static let answeringBeforeTold: Int64 = 2_000
        static let sweepGrace: Int64 = 500
        static let cleanInterval: Int64 = 10_000
        /// How long a timeline's entries wait to be written.
        static let traceInterval: Int64 = 200
        /// How long other coordinators do not know what is kept because of a user.
        static let usageInterval: Int64 = 1_000
        /// How old the counters in `/metrics` may be while there is much to do.
        static let countersInterval: Int64 = 100
        /// A turn with so many messages is a busy one.
        static let busyBatch = 8
        static let connectTimeout: Int64 = 5_000
        static let drainTimeout: Int64 = 3_000
        static let backoff: ClosedRange<Int64> = 250...5_000
        /// What was read and not served for this long is dropped: the process was frozen, or the devices have sent it
        /// again by now.
        static let unservedAfter: Int64 = 2_000
        /// Messages; beyond it publications are dropped until the broker has caught up.
        static let brokerBacklog = 50_000
    }

    private let configuration: Configuration
    private let service: CallService
    private let status: CoordinatorStatus
    private let log: Log

    private var connection: MQTTConnection?
    /// What was shown as the password.
    private var password: String?
    private var subscriptions: Set<Int32> = []
    private var connectDeadline: Int64 = 0
    private var nextAttempt: Int64 = 0
    private var backoff = Bounds.backoff.lowerBound
    private var nextSweep: Int64 = 0
    private var messageSlice = SliceSize(largest: ServiceBounds.messagesPerRound)
    private var deadlineSlice = SliceSize(largest: ServiceBounds.deadlinesPerRound)
    /// The first sweep has no grace: what came due while nobody was there fires at once.
    private var hasSwept = false
    private var nextCleaning: Int64 = 0
    private var nextTraces: Int64 = 0
    private var nextUsage: Int64 = 0
    private var nextCounters: Int64 = 0
    private var isBusy = false
    /// Receipts that the broker has not acknowledged: what goes with the connection is sent again.
    private var receipts: [Int32: OutboundMessage] = [:]
    private var isListening = false
    /// It has left the share group because the store is out of reach, and has told the broker under these identifiers.
    private var isAway = false
    private var leaving: Set<Int32> = []
    private var nextLook: Int64 = 0
    /// When the last turn began before which the store had answered.
    private var lastAnswer = monotonicMilliseconds()
    private var toldFailure = false
    private var lastFailure: Int64 = 0
    private var knownClockSteps: Int?
    /// Why the broker has refused publications on this connection: each is told once.
    private var refusalsTold: Set<String> = []

    public init(configuration: Configuration, store: any CallStore, status: CoordinatorStatus, log: Log) {
        self.configuration = configuration
        self.status = status
        self.log = log
        var settings = configuration.settings
        settings.coordinator = configuration.id
        service = CallService(store: store, settings: settings)
        service.pauseBriefly = { usleep(UInt32.random(in: 500...4_000)) }
    }

    /// Serves until the status says stop, then drains: leaves the share group, finishes what it holds, and returns.
    public func run() {
        log(
            .info, "coordinator starts",
            [
                "id": configuration.id, "broker": configuration.broker.description, "group": configuration.group,
                "store": service.store.summary,
            ])
        while !status.isStopRequested { turn() }
        drain()
        log(.info, "coordinator stopped", ["id": configuration.id])
    }

    private func turn() {
        if connection == nil, monotonicMilliseconds() >= nextAttempt { connect() }
        let messages = receive()
        let received = monotonicMilliseconds()
        watchStore()
        if !isListening { service.listeningSince = (try? service.store.now()) ?? service.listeningSince }
        isBusy = messages.count >= Bounds.busyBatch
        process(messages, since: received)
        confirmReceipts()
        countRefusals()
        serveTimers()
        writeTraces()
        report()
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
            connectDeadline = monotonicMilliseconds() + Bounds.connectTimeout
        } catch {
            lost(error)
        }
    }

    /// Waits for messages until the next deadline. Empty when there are none, or when they are not to be used.
    private func receive() -> [InboundMessage] {
        let wait = waitingTime()
        guard let connection else {
            _ = poll(nil, 0, Int32(wait))
            return []
        }
        let before = monotonicMilliseconds()
        do throws(MQTTError) {
            let messages = try connection.poll(milliseconds: Int32(wait))
            if monotonicMilliseconds() - before > wait + Bounds.staleAfter {
                throw MQTTError(kind: .lost, message: "the process was frozen: what it received is stale")
            }
            try subscribeWhenConnected(connection)
            return messages.map {
                InboundMessage(
                    topic: $0.topic, payload: $0.payload, correlationData: $0.correlationData, isRetained: $0.retain,
                    tokenExpiresAt: $0.userProperty.flatMap { Int64($0) })
            }
        } catch {
            lost(error)
            return []
        }
    }

    private func waitingTime() -> Int64 {
        var wait = Bounds.longestWait
        if service.store.isShared { wait = min(wait, nextLook - monotonicMilliseconds()) }
        if connection == nil { wait = min(wait, nextAttempt - monotonicMilliseconds()) }
        guard isListening else { return max(0, wait) }
        wait = min(wait, nextSweep - monotonicMilliseconds())
        if let deadline = service.nextDeadline, let now = try? service.store.now() { wait = min(wait, deadline - now) }
        return max(0, wait)
    }

    private func subscribeWhenConnected(_ connection: MQTTConnection) throws(MQTTError) {
        guard !isListening else { return }
        leaving.subtract(connection.acknowledged)
        guard leaving.isEmpty else {
            guard monotonicMilliseconds() <= connectDeadline else {
                throw MQTTError(kind: .lost, message: "the broker did not answer in time")
            }
            return
        }
        guard !isAway else { return }
        if connection.state == .connected, subscriptions.isEmpty {
            for filter in configuration.settings.topics.sharedFilters(group: configuration.group) {
                subscriptions.insert(try connection.subscribe(filter, qos: .atLeastOnce))
            }
        }
        if !subscriptions.isEmpty {
            subscriptions.subtract(connection.acknowledged)
            if subscriptions.isEmpty { startListening() }
        }
        if !isListening, monotonicMilliseconds() > connectDeadline {
            throw MQTTError(kind: .lost, message: "the broker did not answer in time")
        }
    }

    private func startListening() {
        isListening = true
        backoff = Bounds.backoff.lowerBound
        service.listeningSince = (try? service.store.now()) ?? 0
        service.counters.add(.brokerConnections)
        log(
            .info, "listening",
            [
                "broker": configuration.broker.description, "durability": service.store.durability ?? "unknown",
            ])
    }

    // MARK: The store out of reach

    /// Looks at a shared store when nothing else has, and leaves the share group when it is out of reach: others may reach it. Comes back
    /// when it answers.
    private func watchStore() {
        guard service.store.isShared else { return }
        // As of before the first operation that fails, which may wait long for its answer.
        if service.storeFailure == nil { lastAnswer = monotonicMilliseconds() }
        if monotonicMilliseconds() >= nextLook {
            service.lookAtStore()
            let isFailing = service.storeFailure != nil
            nextLook = monotonicMilliseconds() + (isFailing ? Bounds.failingLookInterval : Bounds.storeLookInterval)
        }
        let isOutOfReach =
            service.isStoreOutOfReach && monotonicMilliseconds() - lastAnswer >= Bounds.failingBeforeLeaving
        if isListening, isOutOfReach { leaveGroup() }
        if isAway, service.storeFailure == nil {
            isAway = false
            connectDeadline = monotonicMilliseconds() + Bounds.connectTimeout
            log(.info, "the store is within reach again: returning to the share group")
        }
    }

    private func leaveGroup() {
        isAway = true
        isListening = false
        subscriptions = []
        connectDeadline = monotonicMilliseconds() + Bounds.connectTimeout
        log(
            .warning, "the store is out of reach: leaving the share group until it answers",
            ["reason": service.storeFailure ?? ""])
        guard let connection else { return }
        do throws(MQTTError) {
            for filter in configuration.settings.topics.sharedFilters(group: configuration.group) {
                leaving.insert(try connection.unsubscribe(filter))
            }
        } catch {
            lost(error)
        }
    }

    /// The connection goes with all that it had queued; the next attempt comes after a jittered backoff.
    private func lost(_ error: MQTTError) {
        log(
            .warning, "broker connection lost",
            ["reason": error.because(configuration.cause(error, password)).message])
        connection = nil
        receipts = [:]
        refusalsTold = []
        subscriptions = []
        leaving = []
        isListening = false
        nextAttempt = monotonicMilliseconds() + Int64.random(in: backoff / 2...backoff)
        backoff = min(backoff * 2, Bounds.backoff.upperBound)
    }

    // MARK: Work

    /// In slices, so that what is committed is told at once, and timers do not wait for a flood.
    private func process(_ messages: [InboundMessage], since received: Int64) {
        var rest = messages[...]
        while !rest.isEmpty {
            let started = monotonicMilliseconds()
            guard started - received < Bounds.unservedAfter else {
                // Nothing of it is done yet, so nothing is lost: the devices send again.
                service.counters.add(.messagesDropped, rest.count)
                return
            }
            let slice = rest.prefix(messageSlice.current)
            var began = started
            var longest: Int64 = 0
            // Each round by itself: what it has done is told at once, however many a single user has after it.
            service.process(Array(slice)) { messages in
                publish(messages, since: began)
                let now = monotonicMilliseconds()
                longest = max(longest, now - began)
                began = now
            }
            messageSlice.took(longest)
            rest = rest.dropFirst(slice.count)
            if service.hasManyTraces { service.writeTraces() }
            // Resends of a flood must not keep its requests waiting, so only some deadlines at a time.
            if !rest.isEmpty { serveDueTimers(limit: ServiceBounds.messagesPerRound) }
        }
    }

    /// Only while listening: what nobody can be told of now is left to a coordinator that can tell.
    private func serveTimers() {
        guard isListening, service.storeFailure == nil || !service.store.isShared else { return }
        serveDueTimers(limit: ServiceBounds.deadlinesPerRound)
        let started = monotonicMilliseconds()
        if started >= nextSweep {
            let (messages, hasMore) = service.sweep(
                grace: hasSwept ? Bounds.sweepGrace : 0, limit: deadlineSlice.current)
            publish(messages, since: started)
            deadlineSlice.took(monotonicMilliseconds() - started)
            nextLook = monotonicMilliseconds() + Bounds.storeLookInterval
            guard !hasMore else { return }
            hasSwept = true
            nextSweep = started + Bounds.sweepInterval + Int64.random(in: 0...Bounds.sweepInterval / 4)
        }
        if started >= nextCleaning {
            let hasMore = service.clean()
            nextCleaning = monotonicMilliseconds() + (hasMore ? Bounds.sweepInterval : Bounds.cleanInterval)
        }
    }

    private func confirmReceipts() {
        var confirmed: [OutboundMessage] = []
        for (identifier, isTaken) in connection?.takeAnswered() ?? [] {
            guard let receipt = receipts.removeValue(forKey: identifier) else { continue }
            // One that the broker refuses is sent again when its time comes.
            if isTaken { confirmed.append(receipt) } else { service.counters.add(.publicationsDropped) }
        }
        if !confirmed.isEmpty { service.published(confirmed) }
    }

    /// What the broker has refused to take is lost like a message on the way, and resends cover it; but somebody has to know.
    private func countRefusals() {
        for (reason, count) in connection?.takeRefused() ?? [:] {
            service.counters.add(.publicationsRefused, reason, count)
            guard refusalsTold.insert(reason).inserted else { continue }
            log(.error, "the broker refuses publications", ["reason": reason])
        }
    }

    private func writeTraces() {
        let now = monotonicMilliseconds()
        if now >= nextTraces {
            service.writeTraces()
            nextTraces = now + Bounds.traceInterval
        }
        if now >= nextUsage {
            service.writeUsage()
            nextUsage = now + Bounds.usageInterval
        }
    }

    private func serveDueTimers(limit: Int) {
        guard let deadline = service.nextDeadline, let now = try? service.store.now(), deadline <= now else { return }
        let started = monotonicMilliseconds()
        publish(service.serveDeadlines(limit: min(limit, deadlineSlice.current)), since: started)
        deadlineSlice.took(monotonicMilliseconds() - started)
    }

    private func publish(_ messages: [OutboundMessage], since started: Int64) {
        guard !messages.isEmpty else { return }
        // What it was handed before it left the group is still answered.
        guard let connection, isListening || !leaving.isEmpty, connection.backlog < Bounds.brokerBacklog,
            monotonicMilliseconds() - started < Bounds.staleAfter
        else {
            service.counters.add(.publicationsDropped, messages.count)
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
            service.counters.add(.publicationsDropped)
            guard error.kind == .invalid else { throw error }
            log(
                .error, "message cannot be published",
                ["topic": String(message.topic.prefix(200)), "reason": error.message])
        }
    }

    /// Leaves the share group, serves what still arrives until the broker has confirmed, and says goodbye.
    private func drain() {
        status.update { $0.isDraining = true }
        guard let connection, isListening else { return }
        let deadline = monotonicMilliseconds() + Bounds.drainTimeout
        do throws(MQTTError) {
            var waiting: Set<Int32> = []
            for filter in configuration.settings.topics.sharedFilters(group: configuration.group) {
                waiting.insert(try connection.unsubscribe(filter))
            }
            while !waiting.isEmpty, monotonicMilliseconds() < deadline {
                process(receive(), since: monotonicMilliseconds())
                guard isListening else { return }
                waiting.subtract(connection.acknowledged)
            }
        } catch {
            log(.warning, "broker connection lost while draining", ["reason": error.message])
            return
        }
        connection.disconnect()
        service.writeTraces()
        service.writeUsage()
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
            service.counters.add(.storeClockSteps, steps.count - known)
        }
        knownClockSteps = steps.count
    }

    private func report() {
        let now = monotonicMilliseconds()
        reportStore(now)
        // The counters are copied as a whole, which is too much for every turn of a busy coordinator.
        let isTime = now >= nextCounters || !isBusy
        if isTime {
            nextCounters = now + Bounds.countersInterval
            service.counters.set(.storeRoundTrips, to: service.store.roundTrips)
        }
        status.update {
            $0.isListening = isListening
            $0.unauthorizedInARow = connection?.unauthorizedInARow ?? 0
            $0.storeFailure = service.storeFailure
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
