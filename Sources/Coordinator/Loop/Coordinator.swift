import CallCore
import CallStore
import Glibc
import MQTTClient
import SignalingProtocol
import Support
import Tokens

/// Drives a `CoordinatorLoop` with a broker connection and the clock. A single thread waits for the broker, the store
/// and the next deadline.
///
/// Work without hand-over between threads keeps latency low and order certain; more coordinators serve more load.
package final class Coordinator {
    package typealias Configuration = CoordinatorConfiguration

    /// The bounds of the driver, in milliseconds where no unit is given.
    private enum DriverBounds {
        /// The process counts as frozen when a wait takes this much longer than requested: all messages that have
        /// arrived are stale.
        static let frozenAfter: Int64 = 500
        /// The greatest age of what other threads see, such as `/metrics`, while work is under way.
        static let reportInterval: Int64 = 100
        /// The age of the store's fill in `/metrics`.
        static let fillInterval: Int64 = 5_000
        /// A turn with at least this many messages counts as busy.
        static let busyBatch = 8
        /// The longest wait while the store owes an answer; the coordinator then checks whether the store is late.
        static let storePatience: Int64 = 20
    }

    private let configuration: Configuration
    private let service: CallService
    private let loop: CoordinatorLoop
    private let status: CoordinatorStatus
    private let log: Log
    private let companions: [any Companion]

    private let links: BrokerLinks
    private var isBusy = false
    private var nextReport: Int64 = 0
    private var isReported = true
    private var nextFill: Int64 = 0
    private var notices: Notices

    /// Creates a coordinator. `onOutboxEntries` is called with the records that have new outbox entries for webhook
    /// endpoints, `onRooms` with the calls whose rooms have changed, `onPushes` with the calls that may have to be
    /// pushed.
    package init(
        configuration: Configuration, store: any CallStore, status: CoordinatorStatus, log: Log,
        companions: [any Companion] = [], onOutboxEntries: @escaping ([RecordID]) -> Void = { _ in },
        onRooms: @escaping ([RecordID]) -> Void = { _ in }, onPushes: @escaping ([CallID]) -> Void = { _ in }
    ) {
        self.companions = companions
        self.configuration = configuration
        self.status = status
        self.log = log
        notices = Notices(log)
        var settings = configuration.settings
        settings.coordinator = configuration.id
        settings.brokers = configuration.brokers.map(\.name)
        let measured = MeasuredStore(store)
        service = CallService(store: measured, settings: settings)
        measured.onAnswer = { [unowned service] in service.add(.store, $1, $0.rawValue) }
        service.onOutboxEntries = onOutboxEntries
        service.onRooms = onRooms
        service.onPushes = onPushes
        service.name(configuration.endpoints)
        if let turn = configuration.turn { service.iceServers = { [turn.credentials(for: $0, now: $1)] } }
        service.mediaSession = configuration.mediaSession
        service.onTimelineEnd = configuration.onTimelineEnd
        links = BrokerLinks(configuration, service, log)
        service.follow(log)
        loop = CoordinatorLoop(service, clock: { SystemClock.boot.milliseconds }) { Int64.random(in: $0) }
    }

    /// Serves until the status requests a stop. Then drains: leaves the share group, serves its queued requests, and
    /// returns.
    package func run() {
        log(
            .info, "coordinator starts",
            [
                "id": configuration.id, "broker": brokers, "group": configuration.group,
                "store": service.store.summary,
            ])
        links.onLost = { [unowned self] in handle(.lost($0), SystemClock.boot.milliseconds) }
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
        show(SystemClock.boot.milliseconds)
        links.disconnect()
        for companion in companions {
            companion.stop()
            companion.turn(SystemClock.boot.milliseconds)
        }
        log(.info, "coordinator stopped", ["id": configuration.id])
    }

    private func turn() {
        let before = SystemClock.boot.milliseconds
        let next = min(loop.nextTick, companions.map(\.nextTurn).min() ?? .max, isReported ? .max : nextReport)
        let wait = max(0, next - before)
        let messages = receive(wait)
        let now = SystemClock.boot.milliseconds
        if now - before > wait + DriverBounds.frozenAfter {
            handle(.frozen, now)
        } else {
            for event in links.takeAnswers() { handle(event, now) }
            isBusy = messages.count >= DriverBounds.busyBatch
            handle(messages.isEmpty ? .tick : .received(messages, mayHoldMore: links.mayHoldMore), now)
            let confirmed = links.takeConfirmed()
            if !confirmed.isEmpty { handle(.taken(confirmed), now) }
        }
        for companion in companions { companion.turn(SystemClock.boot.milliseconds) }
        links.countRefusals()
        report(now)
    }

    private func handle(_ event: CoordinatorLoop.Event, _ now: Int64) {
        for action in loop.handle(event, now: now) { perform(action) }
    }

    private func perform(_ action: CoordinatorLoop.Action) {
        switch action {
        case .connect(let broker): links[broker].connect()
        case .disconnect(let broker): links[broker].forget()
        case .subscribe(let broker): links[broker].subscribe()
        case .unsubscribe(let broker): links[broker].unsubscribe()
        case .publish(let messages, let broker, let by):
            links[broker].publish(messages, by: by)
            service.handedOver(messages)
        case .sendCanary(let broker): links[broker].sendCanary()
        case .sendDisabledUsers: links.sendDisabledUsers()
        case .subscribeRelay(let served, let broker): links[broker].subscribeRelay(service.settings.brokers[served])
        case .unsubscribeRelay(let served, let broker):
            links[broker].unsubscribeRelay(service.settings.brokers[served])
        case .note(let notice, let broker): tell(notice, configuration.brokers[broker].description)
        case .end: break
        }
    }

    /// Waits for messages or for the store, at most `wait` milliseconds.
    private func receive(_ wait: Int64) -> [InboundMessage] {
        let socket = service.store.socket
        // Companions (delivery workers in this thread) exist only beside a store that answers at once and has no
        // socket.
        var others = companions.map { pollfd(fd: $0.descriptor, events: Int16(POLLIN), revents: 0) }
        if let socket {
            let events = Int16(socket.waitsToSend ? POLLIN | POLLOUT : POLLIN)
            others.append(pollfd(fd: socket.descriptor, events: events, revents: 0))
        }
        var limit = wait
        // The wait is short, so that a request that the store does not answer is given up in time.
        if socket?.deadline != nil { limit = min(limit, DriverBounds.storePatience) }
        let messages = links.receive(
            milliseconds: Int32(clamping: limit), reads: loop.takesMessages, others: &others)
        let hasAnswers = socket != nil && others.last.map { $0.revents != 0 } ?? false
        if hasAnswers || socket?.deadline != nil && limit > 0 { service.store.receive() }
        return messages
    }

    // MARK: Reporting to operators

    private var brokers: String { configuration.brokers.map(\.description).joined(separator: ",") }

    private func tell(_ notice: CoordinatorLoop.Notice, _ broker: String) {
        switch notice {
        case .listening:
            let durability = service.store.durability ?? "unknown"
            log(.info, "listening", ["broker": broker, "durability": durability])
        case .brokerIsSilent: lost(broker, "the broker did not answer in time")
        case .brokerDeliversNothing: lost(broker, "the broker takes messages and delivers none")
        case .frozen: lost(broker, "the process was frozen: the messages that it received are stale")
        case .storeOutOfReach(let reason):
            log(.warning, "the store is out of reach: leaving the share group until it answers", ["reason": reason])
        case .storeWithinReach: log(.info, "the store is within reach again: returning to the share group")
        }
    }

    private func lost(_ broker: String, _ reason: String) {
        log(.warning, "broker connection lost", ["broker": broker, "reason": reason])
    }

    /// Shows other threads the state: at once when no work is under way, otherwise at intervals. The copy at each turn
    /// would take some 5 % of the processor time of a coordinator with small batches.
    private func report(_ now: Int64) {
        let isWorkUnderWay = isBusy || service.store.socket?.deadline != nil
        isReported = now >= nextReport || !isWorkUnderWay
        if isReported { show(now) }
    }

    private func show(_ now: Int64) {
        nextReport = now + DriverBounds.reportInterval
        notices.tell(service, now)
        service.set(.storeRoundTrips, to: service.store.roundTrips)
        let isTimeForFill = now >= nextFill
        if isTimeForFill { nextFill = now + DriverBounds.fillInterval }
        status.update {
            if isTimeForFill { $0.storeFill = service.store.fill }
            $0.isListening = loop.isListening
            $0.unauthorizedInARow = links.unauthorizedInARow
            $0.storeFailure = service.storeFailure
            $0.lateness = loop.lateness
            $0.lastTurn = now
            $0.brokers = loop.brokers
            $0.awayBrokers = service.awayBrokers
            $0.counters = service.counters
            $0.clockSkew = service.store.clockSkew
            $0.storeHazards = service.store.hazards
            $0.liveCounts = service.storeFailure == nil ? service.liveCounts : nil
            $0.waitingDeadlines = service.waitingDeadlines
            $0.brokerBacklog = links.backlog
        }
    }
}
