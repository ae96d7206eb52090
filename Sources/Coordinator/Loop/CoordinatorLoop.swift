import CallCore
import CallStore
import SignalingProtocol

/// The behaviour of a coordinator without its sockets: the inputs are events and the time, the outputs are actions. The
/// program, the simulator and tests drive the loop.
///
/// Several batches may be under way while the store answers (`WorkQueue`); the messages of each are published when its
/// decisions are committed. The loop uses a clock that never jumps, in milliseconds; the store has a clock of its own.
///
/// More than 200 lines: the order of messages, deadlines and chores, and the choice of the work that is dropped under
/// overload, belong together.
package final class CoordinatorLoop {
    package enum Event {
        /// The broker has accepted the requested connection.
        case connected(BrokerIndex = 0)
        /// The connection could not be made, or is lost.
        case lost(BrokerIndex = 0)
        /// The broker has answered all subscribe or unsubscribe requests.
        case answered(BrokerIndex = 0)
        /// Messages were read. `mayHoldMore` says that the read reached its bound, so that more messages probably wait.
        case received([InboundMessage], mayHoldMore: Bool = false)
        /// The broker has acknowledged these receipts.
        case taken([OutboundMessage])
        /// Time has passed, or the store has answered.
        case tick
        /// The process stood still: all its received messages are stale.
        case frozen
        /// The coordinator is to drain: leave the share group, serve its queued requests, and end.
        case stop
    }

    package enum Action {
        case connect(BrokerIndex)
        case disconnect(BrokerIndex)
        case subscribe(BrokerIndex)
        case unsubscribe(BrokerIndex)
        /// Publishes messages. Messages that are not given to the broker by this time are stale.
        case publish([OutboundMessage], at: BrokerIndex = 0, by: Int64)
        /// Publishes messages that the broker is to deliver to this coordinator.
        case sendCanary(BrokerIndex)
        /// Tells all brokers which users are disabled.
        case sendDisabledUsers
        /// Subscribes at a broker to the messages that this coordinator is to publish at another broker, `served`, for
        /// coordinators without a connection to that broker.
        case subscribeRelay(served: BrokerIndex, at: BrokerIndex)
        case unsubscribeRelay(served: BrokerIndex, at: BrokerIndex)
        case note(Notice, BrokerIndex)
        case end
    }

    /// Information for the operator.
    package enum Notice: Equatable {
        case listening
        case brokerIsSilent
        case brokerDeliversNothing
        case frozen
        case storeOutOfReach(String)
        case storeWithinReach
    }

    /// The bounds, in milliseconds where no unit is given.
    enum LoopBounds {
        static let longestWait: Int64 = 200
        /// Outbound messages of this age are dropped rather than sent late; resends cover the loss.
        static let staleAfter: Int64 = 500
        /// The bounds on waiting. Requests that begin new work are refused after `lateAfter`, while a refusal still
        /// helps their devices. Other messages are dropped after two seconds: by then their devices have sent again.
        /// Requests that wait for earlier requests of their user are taken out after ten seconds, when their devices
        /// have given up.
        static let patience = WorkQueue.Patience(new: ServiceBounds.lateAfter, any: 2_000, inAll: 10_000)
        /// How long the coordinator counts as late after a refusal because of overload.
        static let lateSinceRefusal: Int64 = 1_000
        /// The bound on receipts that the broker has acknowledged and that wait to be noted; further receipts are sent
        /// again.
        static let receipts = 4_096
        /// A shared store that fails for this long is out of reach: the broker is asked to give the messages to other
        /// coordinators. The time is longer than a single wait for the store, where a disk may be slow, and short
        /// enough to leave within a second.
        static let failingBeforeLeaving: Int64 = 600
        /// The bound on batches of messages under way.
        static let batches = 8
        /// The number of messages that begin a batch at once; fewer wait for the batch before, at most `batchInterval`.
        static let worthABatch = 24
        static let batchInterval: Int64 = 4
        /// The longest time between two reads of the broker's messages, even when batches follow each other without a
        /// pause.
        static let longestUnread: Int64 = 20
        /// The number of deadlines per batch while messages wait for longer than half of `lateAfter`: most deadlines
        /// are resends, and resends give way.
        static let deadlinesWhenLate = 16
        /// The bound on waiting deadlines that a sweep has found; a later sweep finds the others.
        static let overdue = 1_024
    }

    private let service: CallService
    private let executor = WorkExecutor()
    private var standings: BrokerStandings
    private var relays = RelaySubscriptions()
    private let chores: Chores
    private var now: Int64
    /// Returns the current time during an event: a store that answers at once takes its time there.
    private let clock: () -> Int64
    private var actions: [Action] = []
    /// Whether the end was among the actions.
    private var hasTold = false
    /// The topic of this coordinator's canaries.
    private let canary: String
    private var queue = WorkQueue()
    private var messageBatchSize = BatchSize(largest: ServiceBounds.messagesPerBatch)
    private var deadlineBatchSize = BatchSize(largest: ServiceBounds.deadlinesPerBatch)
    /// The number of batches of messages under way; `lastBatch` is when the last batch began.
    private var batches = 0
    private var lastBatch: Int64 = 0
    /// The time when messages were last read.
    private var lastReceived: Int64 = 0
    /// Whether the last read reached its bound.
    private var mayHoldMore = false
    /// The receipts that the broker has acknowledged; `isConfirming` says whether some are being noted.
    private var receipts: [OutboundMessage] = []
    private var isConfirming = false
    /// The time when a request was last refused because of overload.
    private var lastRefused = Int64.min / 2
    private var isServingDeadlines = false
    /// Whether a batch or chore has ended, so that other work may begin.
    private var mayBegin = false
    /// The tasks that pause until a time.
    private var sleepers: [(until: Int64, continuation: UnsafeContinuation<Void, Never>)] = []
    /// How often the coordinator dropped messages that could not be served or sent in time.
    package private(set) var stale = 0

    /// Creates a loop. `clock` returns the time of the events, in milliseconds; `random` draws from a range, in a
    /// simulation from a seed.
    package init(
        _ service: CallService, clock: @escaping () -> Int64, random: @escaping (ClosedRange<Int64>) -> Int64
    ) {
        self.service = service
        self.clock = clock
        now = clock()
        canary = service.settings.topics.canary(of: service.settings.coordinator)
        standings = BrokerStandings(service.settings.brokers.count, random)
        chores = Chores(service, executor, now: now, random)
        chores.sweepLimit = { [unowned self] in
            min(deadlineBatchSize.current, max(0, LoopBounds.overdue - queue.waitingDeadlines))
        }
        chores.found = { [unowned self] in found($0) }
        chores.heard = { [unowned self] in standings.heard(since: $0, self.now) }
        chores.canPublish = { [unowned self] in standings[$0].isListening }
        chores.publish = { [unowned self] in publish($0, since: self.now) }
        chores.disabledUsersChanged = { [unowned self] in actions.append(.sendDisabledUsers) }
        service.pauseBriefly = { [unowned self] in await pause(random(1...4)) }
        service.isUnderWay = { [unowned self] in queue.isServed($0) }
    }

    /// Whether messages come in from at least one broker.
    package var isListening: Bool { standings.isListening }

    package var hasEnded: Bool { standings.hasEnded }

    /// The state of the connection to each broker.
    package var brokers: [BrokerStatus] { (0..<standings.count).map { standings[$0].status } }

    private var settings: ServiceSettings { service.settings }

    /// Whether messages are to be read now. While a batch is under way, further messages collect in the socket: that
    /// costs less than a wake-up for each; but not for long, however many batches follow each other.
    ///
    /// Behind a burst of messages the requests of other users wait in the socket. The queue is fair, the socket is not:
    /// so a read that reached its bound is followed by the next read.
    package var takesMessages: Bool { mayHoldMore || batches == 0 || now >= readsAgain }

    private var readsAgain: Int64 { min(lastBatch + LoopBounds.batchInterval, lastReceived + LoopBounds.longestUnread) }

    /// How long the first request that could begin has been waiting, in milliseconds; at least `lateAfter` for a second
    /// after a refusal.
    package var lateness: Int64 {
        max(queue.lateness(now), now - lastRefused < LoopBounds.lateSinceRefusal ? ServiceBounds.lateAfter : 0)
    }

    // MARK: Events

    /// Handles an event at `now`; times never go back. Returns the actions that follow.
    package func handle(_ event: Event, now: Int64) -> [Action] {
        self.now = max(self.now, now)
        take(event)
        actions += standings.advance(now)
        judgeStore()
        wakeSleepers()
        mayBegin = false
        begin()
        executor.run()
        if !isListening { service.listeningSince = service.store.time ?? service.listeningSince }
        endWhenDrained()
        actions += relays.actions(for: standings)
        if hasEnded, !hasTold {
            hasTold = true
            actions.append(.end)
        }
        defer { actions = [] }
        return actions
    }

    private func take(_ event: Event) {
        switch event {
        case .connected(let broker): actions += standings.connected(broker, now)
        case .answered(let broker):
            let (wasServing, wasListening) = (isListening, standings[broker].isListening)
            actions += standings.answered(broker, now)
            guard standings[broker].isListening, !wasListening else { return }
            service.count(.brokerConnections)
            if !wasServing { service.listeningSince = service.store.time ?? 0 }
        case .received(let messages, let mayHoldMore):
            lastReceived = now
            self.mayHoldMore = mayHoldMore
            hear(messages)
            publish(service.read(messages, into: &queue, at: now), since: now)
        case .taken(let messages):
            receipts += messages.prefix(LoopBounds.receipts - receipts.count)
            confirm()
        case .tick: mayHoldMore = false
        case .lost(let broker):
            actions += standings.lost(broker, now)
            // Received messages are lost with the connection. While another broker stands, its messages go on, and the
            // responses at the lost broker are dropped.
            if !standings.canPublish { queue.removeAll() }
        case .frozen:
            queue.removeAll()
            mayHoldMore = false
            actions += standings.frozen(now)
        case .stop: actions += standings.drain(now)
        }
    }

    /// Notes that brokers deliver messages.
    private func hear(_ messages: [InboundMessage]) {
        for message in messages {
            standings.heard(message.broker, isCanary: message.topic == canary, now)
        }
    }

    /// Leaves the share group while a shared store is out of reach, since other coordinators may reach the store.
    /// Returns when the store answers.
    private func judgeStore() {
        guard service.store.isShared else { return }
        if service.isStoreOutOfReach, now - chores.lastAnswer >= LoopBounds.failingBeforeLeaving {
            actions += standings.leave(because: service.storeFailure ?? "", now)
        }
        if service.storeFailure == nil { actions += standings.comeBack(now) }
    }

    private func publish(_ messages: [OutboundMessage], since began: Int64) {
        guard !messages.isEmpty else { return }
        now = max(now, clock())
        let isStale = now - began >= LoopBounds.staleAfter
        guard standings.canPublish, !isStale else {
            service.count(.publicationsDropped, messages.count)
            if isStale { stale += 1 }
            return
        }
        let by = began + LoopBounds.staleAfter
        guard standings.count > 1 else { return publish(messages, at: 0, by: by) }
        for (broker, routed) in route(messages).enumerated() where !routed.isEmpty {
            publish(routed, at: broker, by: by)
        }
    }

    private func publish(_ messages: [OutboundMessage], at broker: BrokerIndex, by: Int64) {
        if case .publish(let before, at: broker, by: by)? = actions.last {
            actions[actions.count - 1] = .publish(before + messages, at: broker, by: by)
        } else {
            actions.append(.publish(messages, at: broker, by: by))
        }
    }

    /// Returns the messages for each broker. A message for a broker without a connection goes to another broker, from
    /// where a coordinator with a connection takes it: this coordinator alone may be cut off.
    private func route(_ messages: [OutboundMessage]) -> [[OutboundMessage]] {
        var routed = [[OutboundMessage]](repeating: [], count: standings.count)
        for var message in messages {
            for broker in routed.indices where message.brokers.contains(broker) {
                // Metrics count a message that goes to several brokers a single time.
                defer { message.timing = nil }
                if standings[broker].canPublish {
                    routed[broker].append(message)
                } else if !message.isRelayed, let relay = standings.relay(to: broker) {
                    routed[relay].append(message.relayed(to: settings.brokers[broker], settings.topics))
                } else {
                    service.count(.publicationsDropped)
                }
            }
        }
        return routed
    }

    /// Ends once the coordinator has left the share group, has served all requests, and has written its timelines and
    /// usage.
    private func endWhenDrained() {
        guard standings.hasLeft, queue.count == 0, batches == 0, !isConfirming, !isServingDeadlines, chores.areDone
        else { return }
        if chores.hasFlushed {
            standings.end()
        } else {
            chores.flush()
            mayBegin = true
        }
    }

    // MARK: Batches

    /// Begins all work that can begin.
    private func begin() {
        guard !hasEnded else { return }
        beginMessages()
        if servesDeadlines { beginDeadlines() }
        chores.begin(now, isServingDeadlines: servesDeadlines)
    }

    /// Notes that work has ended, so that waiting work may begin.
    private func ended() {
        if queue.count > 0 || queue.waitingDeadlines > 0 || standings.isDraining { mayBegin = true }
    }

    private func beginMessages() {
        giveUpLate()
        while isTimeForABatch, let keyed = queue.next(messageBatchSize.current, now) {
            batches += 1
            lastBatch = now
            let began = now
            executor.start { [self] in
                await service.serveBatch(keyed.batch) { [self] in publish($0, since: began) }
                now = max(now, clock())
                messageBatchSize.took(now - began)
                queue.finish(keyed)
                batches -= 1
                ended()
            }
        }
    }

    /// Refuses or drops the requests that cannot be served in time. The effects of these requests have not begun, so
    /// that no data is lost: devices get an error, or send again.
    private func giveUpLate() {
        let late = queue.takeLate(now, LoopBounds.patience)
        guard !late.isEmpty else { return }
        if !late.refused.isEmpty { lastRefused = now }
        if late.dropped > 0 {
            service.count(.messagesDropped, late.dropped)
            stale += 1
        }
        publish(service.refuse(late.refused), since: now)
    }

    /// Whether to begin another batch. Serving requests together costs less, but no request may wait long for other
    /// requests at the store. A store that answers at once blocks the thread, so that each batch is published before
    /// the next begins, except for batches that pause.
    private var isTimeForABatch: Bool {
        guard batches > 0 else { return true }
        let most = service.store.answersAtOnce ? min(sleepers.count + 1, LoopBounds.batches) : LoopBounds.batches
        guard batches < most else { return false }
        return queue.fresh >= LoopBounds.worthABatch || now - lastBatch >= LoopBounds.batchInterval
    }

    /// Notes the receipts that the broker has acknowledged, so that no coordinator sends these receipts again.
    private func confirm() {
        guard !isConfirming, !receipts.isEmpty else { return }
        isConfirming = true
        let messages = receipts.prefix(ServiceBounds.messagesPerBatch)
        receipts.removeFirst(messages.count)
        executor.start { [self, messages] in
            await service.published(Array(messages))
            isConfirming = false
            confirm()
            ended()
        }
    }

    /// Whether to serve deadlines. A coordinator that cannot publish leaves the deadlines to other coordinators.
    private var servesDeadlines: Bool {
        guard service.storeFailure == nil || !service.store.isShared else { return false }
        return standings.isListening
    }

    private var hasDeadlines: Bool {
        if queue.waitingDeadlines > 0 { return true }
        guard let next = service.nextDeadline, let time = service.store.time else { return false }
        return next <= time
    }

    private func beginDeadlines() {
        guard !isServingDeadlines, hasDeadlines else { return }
        var limit = min(deadlineBatchSize.current, queue.count > 0 ? ServiceBounds.messagesPerBatch : .max)
        if lateness >= ServiceBounds.lateAfter / 2 { limit = min(limit, LoopBounds.deadlinesWhenLate) }
        let ready = queue.readyDeadlines
        if ready < limit {
            queue.append(
                ownDeadlines: service.takeDeadlines(limit: limit - ready, isLate: lateness >= ServiceBounds.lateAfter))
        }
        let (ids, areOwn) = queue.nextDeadlines(limit)
        guard !ids.isEmpty else { return }
        isServingDeadlines = true
        let began = now
        executor.start { [self, ids] in
            publish(await service.serveDeadlines(ids), since: began)
            now = max(now, clock())
            deadlineBatchSize.took(now - began)
            queue.finish(ids)
            isServingDeadlines = false
            if !areOwn, !queue.hasFoundDeadlines { chores.servedWhatWasFound() }
            ended()
        }
    }

    private func found(_ ids: [RecordID]) {
        queue.append(foundDeadlines: ids)
        ended()
    }

    // MARK: Time

    /// The latest time for the next call of `handle`, if no event happens before.
    package var nextTick: Int64 {
        if mayBegin || mayHoldMore { return now }
        var next = min(now + LoopBounds.longestWait, standings.nextTick)
        if batches > 0, batches < LoopBounds.batches, now < lastBatch + LoopBounds.batchInterval {
            next = min(next, lastBatch + LoopBounds.batchInterval)
        }
        if !takesMessages { next = min(next, readsAgain) }
        for sleeper in sleepers { next = min(next, sleeper.until) }
        if servesDeadlines, !isServingDeadlines, queue.waitingDeadlines == 0, let deadline = service.nextDeadline,
            let time = service.store.time
        {
            next = min(next, now + max(0, deadline - time))
        }
        return min(next, chores.nextTick(isServingDeadlines: servesDeadlines))
    }

    private func pause(_ duration: Int64) async {
        let until = now + duration
        await withUnsafeContinuation { sleepers.append((until, $0)) }
    }

    private func wakeSleepers() {
        guard !sleepers.isEmpty else { return }
        let awake = sleepers.filter { $0.until <= now }
        sleepers.removeAll { $0.until <= now }
        for sleeper in awake { sleeper.continuation.resume() }
    }

    /// Ends the loop: tasks that pause resume at once, for a last time.
    package func giveUp() {
        standings.end()
        let all = sleepers
        sleepers = []
        for sleeper in all { sleeper.continuation.resume() }
        executor.run()
    }
}
