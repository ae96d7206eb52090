import CallCore
import CallStore
import SignalingProtocol
import Support

/// Serves what came, in rounds, and deadlines: gather, decide, commit, and only then tell.
///
/// It is driven by one thread and does no I/O but through its store. What it is asked for may wait for the store; several may be under
/// way at a time.
package final class CallService {
    private let context: ServiceContext

    package init(store: any CallStore, settings: ServiceSettings) { context = ServiceContext(store, settings) }

    package var settings: ServiceSettings { context.settings }
    package var counters: Counters { context.counters }
    var store: any CallStore { context.store }

    /// Since when messages have been coming without a break; silence of members before that does not count.
    package var listeningSince: Milliseconds {
        get { context.listeningSince }
        set { context.listeningSince = newValue }
    }

    /// Waits for some milliseconds, not always the same, when another coordinator is in the middle of something.
    package var pauseBriefly: () async -> Void {
        get { context.pause }
        set { context.pause = newValue }
    }

    /// Whether this coordinator does something on a record just now.
    package var isUnderWay: (RecordID) -> Bool {
        get { context.isUnderWay }
        set { context.isUnderWay = newValue }
    }

    /// The message of the store's last failure, while it fails.
    package var storeFailure: String? { context.health.failure }
    var isStoreOutOfReach: Bool { context.health.isOutOfReach }

    /// Is told of the records of which something is owed to endpoints, once it is written.
    package var owes: ([RecordID]) -> Void {
        get { context.owes }
        set { context.owes = newValue }
    }

    /// Is told of the calls because of which somebody may have to be woken, once it is written.
    package var owesPushes: ([CallID]) -> Void {
        get { context.owesPushes }
        set { context.owesPushes = newValue }
    }

    /// By which a user's media may go, with credentials that are good from that time on.
    package var iceServers: (UserID, WallTime) -> [IceServer] {
        get { context.iceServers }
        set { context.iceServers = newValue }
    }

    /// What strangers' clocks are compared with; deadlines are by the store's time.
    package var wall: () -> WallTime {
        get { context.wall }
        set { context.wall = newValue }
    }

    package func name(_ endpoints: [KeptEndpoint]) { context.ownEndpoints = endpoints }

    /// What is done now and then.
    var chores: StoreChores { StoreChores(context: context) }

    func count(_ metric: Metric, _ count: Int = 1) { context.counters.add(metric, count) }

    func count(_ metric: Metric, _ label: String, _ count: Int) { context.counters.add(metric, label, count) }

    func set(_ metric: Metric, to count: Int) { context.counters.set(metric, to: count) }

    // MARK: What came from the broker

    /// Decodes what came, and answers what cannot be served. What can be is put into the queue, to be served in its turn.
    func read(_ messages: [InboundMessage], into queue: inout WorkQueue, at moment: Int64) -> [OutboundMessage] {
        var intake = Intake(settings, context.budgets, now: store.time)
        for message in messages { intake.read(message) }
        let refused = Serving(context)
        for (item, device, bytes) in intake.items where !queue.append(item, from: device, bytes, at: moment) {
            refused.refuseEarly(item, from: device, because: "full")
        }
        context.counters.add(intake.counts)
        context.counters.add(.messagesSent, intake.refusals.count)
        return intake.refusals + refused.finish()
    }

    /// What cannot be served in time is refused while that still helps whoever asks.
    func refuse(_ late: [(item: Round.Item, device: DeviceAddress)]) -> [OutboundMessage] {
        guard !late.isEmpty else { return [] }
        let refused = Serving(context)
        for (item, device) in late { refused.refuseEarly(item, from: device, because: "late") }
        return refused.finish()
    }

    /// Serves a round. `tell` is given what is to be published, as soon as it may be.
    func serve(_ round: Round, _ tell: @escaping ([OutboundMessage]) -> Void) async {
        await Rounds(serving: Serving(context), tell: tell).serve(round)
    }

    /// The broker has these messages: the receipts among them are not sent again. Those of a coordinator that
    /// died before are, by whoever serves their deadline.
    func published(_ messages: [OutboundMessage]) async {
        let receipts = messages.compactMap(\.receiptOf)
        guard !receipts.isEmpty else { return }
        let serving = Serving(context)
        do throws(StoreError) {
            try await serving.readClock()
        } catch {
            return context.failed(error)
        }
        await MessageRounds(serving: serving).serve(receipts.map { MessageWork(id: $0, events: [.receiptSent]) })
    }

    // MARK: Deadlines

    /// When the next own deadline comes, by the store's clock.
    package var nextDeadline: Milliseconds? { context.timers.next }

    /// How many own deadlines are waiting.
    package var waitingDeadlines: Int { context.timers.count }

    /// Takes out own deadlines that have come; they are to be served. `isLate`: there is more to do than can be done in time, so that
    /// resends are put off: they are the first to go, since what is told late for the first time costs more.
    func takeDeadlines(limit: Int, isLate: Bool) -> [RecordID] {
        guard let now = store.time else { return [] }
        if isLate {
            let count = context.timers.putOffResends(
                until: now, by: ResendSchedule.firstDelay, limit: ServiceBounds.deadlinesPerRound)
            context.counters.add(.resendsPutOff, count)
        }
        return context.timers.take(until: now, limit: limit)
    }

    /// Serves deadlines that have come. Returns what is to be published.
    func serveDeadlines(_ ids: [RecordID]) async -> [OutboundMessage] {
        guard !ids.isEmpty else { return [] }
        let serving = Serving(context)
        await Deadlines(serving: serving).serve(ids)
        return serving.finish()
    }

    /// Deadlines that nobody served for `grace`: their coordinator is gone, or this is a restart. Nil when the store did not say.
    func overdue(grace: Milliseconds, limit: Int) async -> [RecordID]? {
        await Deadlines(serving: Serving(context)).overdue(grace: grace, limit: limit)
    }
}
