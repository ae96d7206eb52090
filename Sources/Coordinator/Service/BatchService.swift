import CallCore
import CallStore
import SignalingProtocol

/// Serves one batch of queued requests, or of deadlines: gathers facts, decides, commits, and delivers. Holds the time
/// of the batch's decisions, and its outbound messages.
///
/// Each stage has a file of its own. Reading starts with `serveBatch`, for the order of the parts, and `serveCalls`,
/// for the stages of a decision.
///
/// More than 200 lines: all stages of a batch share the time and the outbound messages, and nothing else.
final class BatchService {
    let context: ServiceContext
    /// The store's time, in milliseconds, read before the decisions of each part.
    private(set) var now: Milliseconds = 0
    /// The time at which `now` was read, by the clock of `stopwatch`; 0 when no worker sends timelines on.
    private(set) var nowReadAt: Int64 = 0
    /// The messages that wait for `flush` or `takeOutbound`.
    private(set) var outbound: [OutboundMessage] = []
    /// The presence that the batch has read, for the selection of brokers; empty in a deployment with a single broker.
    var presence: Presence = [:]
    /// The senders that were heard for the first time since their broker is back.
    var returned: Set<DeviceAddress> = []
    /// Publishes outbound messages. Parts of a batch are published before the next part begins.
    let publish: ([OutboundMessage]) -> Void

    var store: any CallStore { context.store }
    var settings: ServiceSettings { context.settings }

    /// Creates the state of a batch; `now` is the store's time, if read already.
    init(
        _ context: ServiceContext, now: Milliseconds = 0, publish: @escaping ([OutboundMessage]) -> Void = { _ in }
    ) {
        self.context = context
        self.now = now
        self.publish = publish
    }

    /// Reads the store's clock. Throws when the clock cannot be read, since no decision may rest on a wrong time.
    func readClock() async throws(StoreError) {
        now = try await store.now()
        if context.onTimelineEnd != nil { nowReadAt = context.stopwatch() }
    }

    /// Charges `bytes`, sent because of this user, to the user's limit.
    func charge(_ bytes: Int, to user: UserID) { context.budgets.charge(bytes, to: .sentBytes(user), now: now) }

    // MARK: Outbound messages

    func send(_ message: OutboundMessage) { outbound.append(message) }

    /// Removes the outbound messages at these places of `outbound`.
    func withdraw(_ places: [Int]) { for place in places.sorted().reversed() { outbound.remove(at: place) } }

    /// Takes out the outbound messages, and counts them as sent.
    func takeOutbound() -> [OutboundMessage] {
        defer { outbound = [] }
        context.counters.add(.messagesSent, outbound.count)
        context.counters.add(.eventsTrimmed, outbound.count(where: \.isTrimmed))
        return outbound
    }

    /// Publishes the outbound messages.
    func flush() { publish(takeOutbound()) }
}
