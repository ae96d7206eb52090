import CallCore
import CallStore
import SignalingProtocol

/// What a coordinator does, without its sockets: events and time in, actions out. The program, the simulator and tests drive it.
///
/// Several works may be under way while the store answers (`WorkQueue`); each is told when it is done. Time is that of a clock that never
/// jumps, in milliseconds; the store has its own.
///
/// More than 200 lines: which of messages, deadlines and chores comes first, and what is dropped when all is late, is decided in one place.
package final class CoordinatorLoop {
    package enum Event {
        /// The broker has accepted the connection that was asked for.
        case connected
        /// There is no connection: it could not be made, or is lost.
        case lost
        /// The broker has answered all subscriptions, or all their ends.
        case answered
        case received([InboundMessage])
        /// The broker has these receipts.
        case taken([OutboundMessage])
        /// Time has passed, or the store has answered.
        case tick
        /// The process stood still: what it received is stale.
        case frozen
        /// To drain: leave the share group, serve what it holds, and end.
        case stop
    }

    package enum Action {
        case connect
        case disconnect
        case subscribe
        case unsubscribe
        /// What is not handed to the broker by then is stale.
        case publish([OutboundMessage], by: Int64)
        case note(Notice)
        case end
    }

    /// What an operator is told.
    package enum Notice: Equatable {
        case listening
        case brokerIsSilent
        case frozen
        case storeOutOfReach(String)
        case storeWithinReach
    }

    /// In milliseconds where nothing else is said.
    enum Bounds {
        static let longestWait: Int64 = 200
        /// Work older than this is dropped, not told late: resends cover it.
        static let staleAfter: Int64 = 500
        /// What was read and could have been served for so long is not: requests that begin something are refused while that still helps
        /// whoever asks; other messages have come again after two seconds; who waited for works of the own user has given up after ten.
        static let patience = WorkQueue.Patience(new: ServiceBounds.lateAfter, any: 2_000, inAll: 10_000)
        /// Since a request was refused because others took too long.
        static let lateSinceRefusal: Int64 = 1_000
        /// Receipts that the broker has and that are to be noted; others are sent again.
        static let receipts = 4_096
        /// A shared store that has been failing for so long is out of reach: the broker is asked to hand the messages to others. Longer
        /// than one wait for it, which may be a slow disk, and short enough to have left within a second.
        static let failingBeforeLeaving: Int64 = 600
        /// Batches of messages under way.
        static let batches = 8
        /// So many messages are worth a batch of their own; fewer wait for the one before, but no longer than `batchInterval`.
        static let worthABatch = 24
        static let batchInterval: Int64 = 4
        /// However batches follow each other, the broker is read so often.
        static let longestUnread: Int64 = 20
        /// Deadlines served at a time while messages wait for longer than half of `lateAfter`: most are resends, which give way.
        static let deadlinesWhenLate = 16
        /// Deadlines that wait, of those that a sweep has found; others come with a later one.
        static let overdue = 1_024
    }

    private let service: CallService
    private let executor = WorkExecutor()
    private var standing: BrokerStanding
    private let chores: Chores
    private var now: Int64
    /// What time it is in the middle of an event: a store that answers at once takes its time there.
    private let clock: () -> Int64
    private var actions: [Action] = []
    private var queue = WorkQueue()
    private var messageSlice = SliceSize(largest: ServiceBounds.messagesPerRound)
    private var deadlineSlice = SliceSize(largest: ServiceBounds.deadlinesPerRound)
    /// How many batches of messages are under way, and when the last one began.
    private var batches = 0
    private var lastBatch: Int64 = 0
    /// When messages were read last.
    private var lastReceived: Int64 = 0
    /// Receipts that the broker has, and whether some are being noted.
    private var receipts: [OutboundMessage] = []
    private var isConfirming = false
    /// When a request was refused last because others took too long.
    private var lastRefused = Int64.min / 2
    private var isServingDeadlines = false
    /// Something has ended, so that something else may begin.
    private var mayBegin = false
    /// Who waits for a moment.
    private var sleepers: [(until: Int64, continuation: UnsafeContinuation<Void, Never>)] = []
    /// How often it dropped what it could not serve or tell in time.
    package private(set) var stale = 0

    /// `clock`: the time of the events, in milliseconds; `random`: draws from a range; the same for the same world in a simulation.
    package init(
        _ service: CallService, clock: @escaping () -> Int64, random: @escaping (ClosedRange<Int64>) -> Int64
    ) {
        self.service = service
        self.clock = clock
        now = clock()
        standing = BrokerStanding(random)
        chores = Chores(service, executor, now: now, random)
        chores.sweepLimit = { [unowned self] in
            min(deadlineSlice.current, max(0, Bounds.overdue - queue.waitingDeadlines))
        }
        chores.found = { [unowned self] in found($0) }
        service.pauseBriefly = { [unowned self] in await pause(random(1...4)) }
        service.isUnderWay = { [unowned self] in queue.isServed($0) }
    }

    package var isListening: Bool { standing.isListening }

    package var hasEnded: Bool { standing.hasEnded }

    /// Whether messages are to be read now. While a batch is under way others come together in the socket, which costs less than to be
    /// woken for each; but not for long, however many batches follow each other of what was read before.
    package var takesMessages: Bool { batches == 0 || now >= readsAgain }

    private var readsAgain: Int64 { min(lastBatch + Bounds.batchInterval, lastReceived + Bounds.longestUnread) }

    /// For how long what could begin has been waiting, in milliseconds; what was refused just now counts as if it did.
    package var lateness: Int64 {
        max(queue.lateness(now), now - lastRefused < Bounds.lateSinceRefusal ? ServiceBounds.lateAfter : 0)
    }

    // MARK: Events

    /// `now` never goes back.
    package func handle(_ event: Event, now: Int64) -> [Action] {
        self.now = max(self.now, now)
        take(event)
        actions += standing.advance(now)
        judgeStore()
        wakeSleepers()
        mayBegin = false
        begin()
        executor.run()
        if !isListening { service.listeningSince = service.store.time ?? service.listeningSince }
        endWhenDrained()
        defer { actions = [] }
        return actions
    }

    private func take(_ event: Event) {
        switch event {
        case .connected: actions += standing.connected(now)
        case .answered:
            let wasListening = isListening
            actions += standing.answered(now)
            guard isListening, !wasListening else { return }
            service.listeningSince = service.store.time ?? 0
            service.count(.brokerConnections)
        case .received(let messages):
            lastReceived = now
            publish(service.read(messages, into: &queue, at: now), since: now)
        case .taken(let messages):
            receipts += messages.prefix(Bounds.receipts - receipts.count)
            confirm()
        case .tick: break
        case .lost:
            // What was received goes with the connection.
            queue.removeAll()
            actions += standing.lost(now)
        case .frozen:
            queue.removeAll()
            actions += standing.frozen(now)
        case .stop: actions += standing.drain(now)
        }
    }

    /// Leaves the share group while a shared store is out of reach: others may reach it. Comes back when it answers.
    private func judgeStore() {
        guard service.store.isShared else { return }
        if service.isStoreOutOfReach, now - chores.lastAnswer >= Bounds.failingBeforeLeaving {
            actions += standing.leave(because: service.storeFailure ?? "", now)
        }
        if service.storeFailure == nil { actions += standing.comeBack(now) }
    }

    private func publish(_ messages: [OutboundMessage], since began: Int64) {
        guard !messages.isEmpty else { return }
        now = max(now, clock())
        let isStale = now - began >= Bounds.staleAfter
        guard standing.canPublish, !isStale else {
            service.count(.publicationsDropped, messages.count)
            if isStale { stale += 1 }
            return
        }
        if case .publish(let before, by: began + Bounds.staleAfter)? = actions.last {
            actions[actions.count - 1] = .publish(before + messages, by: began + Bounds.staleAfter)
        } else {
            actions.append(.publish(messages, by: began + Bounds.staleAfter))
        }
    }

    /// Once it has left, all is served, and what it noted is written.
    private func endWhenDrained() {
        guard standing.hasLeft, queue.count == 0, batches == 0, !isConfirming, !isServingDeadlines, chores.areDone
        else { return }
        if chores.hasFlushed {
            actions += standing.end()
        } else {
            chores.flush()
            mayBegin = true
        }
    }

    // MARK: Works

    /// Begins what can begin.
    private func begin() {
        guard !hasEnded else { return }
        beginMessages()
        if servesDeadlines { beginDeadlines() }
        chores.begin(now, isServingDeadlines: servesDeadlines)
    }

    /// Something that waits may begin now.
    private func ended() {
        if queue.count > 0 || queue.waitingDeadlines > 0 || standing.isDraining { mayBegin = true }
    }

    private func beginMessages() {
        giveUpLate()
        while isTimeForABatch, let batch = queue.next(messageSlice.current, now) {
            batches += 1
            lastBatch = now
            let began = now
            executor.start { [self] in
                await service.serve(batch.round) { [self] in publish($0, since: began) }
                now = max(now, clock())
                messageSlice.took(now - began)
                queue.finish(batch)
                batches -= 1
                ended()
            }
        }
    }

    /// What cannot be served in time any more. Nothing of it is done yet, so nothing is lost: who asked is told, and devices send again.
    private func giveUpLate() {
        let late = queue.takeLate(now, Bounds.patience)
        guard !late.isEmpty else { return }
        if !late.refused.isEmpty { lastRefused = now }
        if late.dropped > 0 {
            service.count(.messagesDropped, late.dropped)
            stale += 1
        }
        publish(service.refuse(late.refused), since: now)
    }

    /// What is served together costs less; but nobody waits long for what the store does for others. While a store is asked that answers at
    /// once nothing else can be done, so that one batch is told before the next begins, beside those that wait for a moment.
    private var isTimeForABatch: Bool {
        guard batches > 0 else { return true }
        let most = service.store.answersAtOnce ? min(sleepers.count + 1, Bounds.batches) : Bounds.batches
        guard batches < most else { return false }
        return queue.fresh >= Bounds.worthABatch || now - lastBatch >= Bounds.batchInterval
    }

    /// The broker has receipts: they are not sent again.
    private func confirm() {
        guard !isConfirming, !receipts.isEmpty else { return }
        isConfirming = true
        let messages = receipts.prefix(ServiceBounds.messagesPerRound)
        receipts.removeFirst(messages.count)
        executor.start { [self, messages] in
            await service.published(Array(messages))
            isConfirming = false
            confirm()
            ended()
        }
    }

    /// What nobody can be told of now is left to a coordinator that can tell.
    private var servesDeadlines: Bool {
        guard service.storeFailure == nil || !service.store.isShared else { return false }
        return standing.isListening
    }

    private var hasDeadlines: Bool {
        if queue.waitingDeadlines > 0 { return true }
        guard let next = service.nextDeadline, let time = service.store.time else { return false }
        return next <= time
    }

    private func beginDeadlines() {
        guard !isServingDeadlines, hasDeadlines else { return }
        var limit = min(deadlineSlice.current, queue.count > 0 ? ServiceBounds.messagesPerRound : .max)
        if lateness >= ServiceBounds.lateAfter / 2 { limit = min(limit, Bounds.deadlinesWhenLate) }
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
            deadlineSlice.took(now - began)
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

    /// When it wants to be called at the latest, if nothing happens before.
    package var nextTick: Int64 {
        if mayBegin { return now }
        var next = min(now + Bounds.longestWait, standing.nextTick)
        if batches > 0, batches < Bounds.batches, now < lastBatch + Bounds.batchInterval {
            next = min(next, lastBatch + Bounds.batchInterval)
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

    /// Nothing more is done: who waits for a moment goes on at once, for a last time.
    package func giveUp() {
        _ = standing.end()
        let all = sleepers
        sleepers = []
        for sleeper in all { sleeper.continuation.resume() }
        executor.run()
    }
}
