import CallCore
import CallStore
import SignalingProtocol
import Support

/// Serves batches of requests, and deadlines: gathers, decides, commits, and only then publishes.
///
/// A single thread drives the service, and the service does no I/O except through its store. Its asynchronous methods
/// may wait for the store; several may be under way at a time.
package final class CallService {
    private let context: ServiceContext

    package init(store: any CallStore, settings: ServiceSettings) { context = ServiceContext(store, settings) }

    package var settings: ServiceSettings { context.settings }
    package var counters: Counters { context.counters }
    var store: any CallStore { context.store }

    /// The time when inbound messages began to arrive without a break. Silence of members before that time does not
    /// count.
    package var listeningSince: Milliseconds {
        get { context.listeningSince }
        set { context.listeningSince = newValue }
    }

    /// Waits for a varying number of milliseconds while another writer finishes a commit.
    package var pauseBriefly: () async -> Void {
        get { context.pause }
        set { context.pause = newValue }
    }

    /// Whether this coordinator is serving the record at this moment.
    package var isUnderWay: (RecordID) -> Bool {
        get { context.isUnderWay }
        set { context.isUnderWay = newValue }
    }

    /// The message of the store's last failure, while the store fails.
    package var storeFailure: String? { context.health.failure }
    var isStoreOutOfReach: Bool { context.health.isOutOfReach }

    /// Called with the records that have new outbox entries, once they are written.
    package var onOutboxEntries: ([RecordID]) -> Void {
        get { context.onOutboxEntries }
        set { context.onOutboxEntries = newValue }
    }

    /// Called with the calls that have new outbox entries for their rooms, once they are written.
    package var onRooms: ([RecordID]) -> Void {
        get { context.onRooms }
        set { context.onRooms = newValue }
    }

    /// Called with the calls that may have to be pushed, once they are written.
    package var onPushes: ([CallID]) -> Void {
        get { context.onPushes }
        set { context.onPushes = newValue }
    }

    /// Returns the ICE servers for a user's media, with credentials that are valid from the given time on.
    package var iceServers: (UserID, WallTime) -> [BellwireIceServer] {
        get { context.iceServers }
        set { context.iceServers = newValue }
    }

    /// Returns a media session for a member, with a token that is valid from the given time on.
    package var mediaSession: ((MediaMember, WallTime) -> BellwireMediaSession?)? {
        get { context.mediaSession }
        set { context.mediaSession = newValue }
    }

    /// Called with a call that has ended and may have a timeline; nil when nobody sends the timeline on.
    package var onTimelineEnd: ((CallID) -> Void)? {
        get { context.onTimelineEnd }
        set { context.onTimelineEnd = newValue }
    }

    /// The wall clock, to compare with clocks outside the deployment; deadlines use the store's time.
    package var wall: () -> WallTime {
        get { context.wall }
        set { context.wall = newValue }
    }

    package func name(_ endpoints: [KeptEndpoint]) { context.ownEndpoints = endpoints }

    /// Returns the user who met limits most often since the last call, with the last of these limits.
    func takeMostLimited() -> (user: UserID, limit: String, count: Int)? { context.budgets.takeMostLimited() }

    /// The brokers that are away, as of this coordinator's last report.
    package var awayBrokers: [BrokerName] { context.awayBrokers }

    /// The numbers of live calls, ringing invitations and online devices some seconds ago; nil when the count failed.
    var liveCounts: LiveCounts? { context.liveCounts }

    /// The periodic work with the store.
    var storeChores: StoreChores { StoreChores(context: context) }

    /// The clock for measured durations, in microseconds.
    package var stopwatch: () -> Int64 {
        get { context.stopwatch }
        set { context.stopwatch = newValue }
    }

    /// Adds a measured duration, in microseconds, to the metrics.
    func add(_ duration: DurationMetric, _ microseconds: Int64, _ label: String) {
        context.counters.durations.add(duration, microseconds, label)
    }

    /// Notes that the broker was given these messages.
    package func handedOver(_ messages: [OutboundMessage]) {
        var now: Int64?
        for message in messages {
            guard let timing = message.timing else { continue }
            now = now ?? context.stopwatch()
            switch timing {
            case .ring(let readAt): context.counters.durations.add(.ring, (now ?? readAt) - readAt)
            case .response(let origin, let outcome):
                let duration = (now ?? origin.readAt) - origin.readAt
                context.counters.durations.add(.request, duration, origin.type, outcome)
                context.onResponse?(message.topic, origin, outcome, duration)
            }
        }
    }

    /// Has the log follow what administrators order: from `debug` on it has a line for each response.
    func follow(_ log: Log) {
        let isDebugging = { [unowned context] (isWanted: Bool) in
            context.onResponse =
                !isWanted
                ? nil
                : { topic, origin, outcome, microseconds in
                    log(
                        .debug, "response",
                        [
                            "to": topic, "type": origin.type, "outcome": outcome, "microseconds": "\(microseconds)",
                        ])
                }
        }
        isDebugging(log.level == .debug)
        context.onLogLevel = { text in
            guard let level = log.follow(text) else { return }
            isDebugging(level == .debug)
        }
    }

    /// The disabled users; nil when the coordinator has not read the list in the last seconds. An older list must not
    /// replace a newer list at a broker.
    var disabledUsers: Set<UserID>? {
        let age = context.stopwatch() - context.disabledUsersReadAt
        return age < ServiceBounds.disabledUsersAge ? context.disabledUsers : nil
    }

    func count(_ metric: Metric, _ count: Int = 1) { context.counters.add(metric, count) }

    func count(_ metric: Metric, _ label: String, _ count: Int) { context.counters.add(metric, label, count) }

    func set(_ metric: Metric, to count: Int) { context.counters.set(metric, to: count) }

    // MARK: Inbound messages

    /// Decodes inbound messages. Appends the messages to the queue, and returns the errors for messages that cannot be
    /// served.
    func read(_ messages: [InboundMessage], into queue: inout WorkQueue, at moment: Int64) -> [OutboundMessage] {
        var intake = Intake(
            settings, context.budgets, now: store.time, readAt: context.stopwatch(),
            disabled: context.disabledUsers ?? [])
        for message in messages { intake.read(message) }
        for (device, broker) in intake.heard { context.lastHeard.note(device, at: broker) }
        let refusing = BatchService(context)
        for (content, device, bytes) in intake.contents where !queue.append(content, from: device, bytes, at: moment) {
            refusing.refuseEarly(content, from: device, because: "full")
        }
        context.counters.add(intake.counts)
        context.counters.add(.messagesSent, intake.refusals.count)
        return intake.refusals + refusing.takeOutbound()
    }

    /// Refuses requests that cannot be served in time, while a refusal still helps their devices.
    func refuse(_ late: [(content: RequestContent, device: DeviceAddress)]) -> [OutboundMessage] {
        guard !late.isEmpty else { return [] }
        let refusing = BatchService(context)
        for (content, device) in late { refusing.refuseEarly(content, from: device, because: "late") }
        return refusing.takeOutbound()
    }

    /// Serves a batch. Calls `publish` with outbound messages as soon as they may be published.
    func serveBatch(_ batch: Batch, _ publish: @escaping ([OutboundMessage]) -> Void) async {
        await BatchService(context, publish: publish).serveBatch(batch)
    }

    /// Notes that the broker has these messages: the receipts in `messages` are not sent again. When a coordinator dies
    /// before its receipts are noted, the coordinator that serves the messages' deadline sends the receipts again.
    func published(_ messages: [OutboundMessage]) async {
        let receipts = messages.compactMap(\.receiptOf)
        guard !receipts.isEmpty else { return }
        let service = BatchService(context)
        do throws(StoreError) {
            try await service.readClock()
        } catch {
            return context.failed(error)
        }
        await service.serveMessages(receipts.map { MessageWork(id: $0, events: [.receiptSent]) })
    }

    // MARK: Deadlines

    /// The next own deadline, by the store's clock.
    package var nextDeadline: Milliseconds? { context.timers.next }

    /// The number of own deadlines that are waiting.
    package var waitingDeadlines: Int { context.timers.count }

    /// Takes out own deadlines that have come. `isLate` says that the coordinator is overloaded: resends are put off
    /// first, since a late first send costs more than a late resend.
    func takeDeadlines(limit: Int, isLate: Bool) -> [RecordID] {
        guard let now = store.time else { return [] }
        if isLate {
            let count = context.timers.putOffResends(
                until: now, by: ResendSchedule.firstDelay, limit: ServiceBounds.deadlinesPerBatch)
            context.counters.add(.resendsPutOff, count)
        }
        return context.timers.take(until: now, limit: limit)
    }

    /// Serves deadlines that have come. Returns the messages to publish.
    func serveDeadlines(_ ids: [RecordID]) async -> [OutboundMessage] {
        guard !ids.isEmpty else { return [] }
        let service = BatchService(context)
        await service.serveDeadlines(ids)
        return service.takeOutbound()
    }

    /// Returns records with a deadline that was not served for `grace` milliseconds, because their coordinator is gone,
    /// or because this coordinator has just started. Returns nil when the store did not answer.
    func overdue(grace: Milliseconds, limit: Int) async -> [RecordID]? {
        await BatchService(context).overdue(grace: grace, limit: limit)
    }
}
