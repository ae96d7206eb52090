import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Serves batches of messages and deadlines: gather, decide, commit, and only then tell.
///
/// It has no state that matters: everything true is in the store, and any other coordinator can go on at any point.
/// It is driven by one thread and does no I/O but through its store.
public final class CallService {
    public let settings: ServiceSettings
    let store: any CallStore
    public internal(set) var counters = Counters()
    var timers = TimerQueue()
    let budgets: Budgets
    let encoder: MessageEncoder
    var usage = StoredUsage()
    var recorder: TraceRecorder
    var setAside = SetAside()
    var tidied = TidyLists()
    var outbox: [OutboundMessage] = []
    /// The store's clock, read before each round of decisions.
    var now: Milliseconds = 0
    /// Why the clock could not be read; nothing is decided by a clock that may be wrong.
    var clockFailure: StoreError?
    /// Since when messages have been coming without a break; silence of members before that does not count.
    public var listeningSince: Milliseconds = 0
    /// Waits for some milliseconds, not always the same, when another coordinator is in the middle of something.
    public var pauseBriefly: () -> Void = {}
    /// The message of the store's last failure, while it fails.
    public internal(set) var storeFailure: String?
    /// The failure is one of writing: only a write that succeeds ends it.
    private var isWritingFailure = false
    /// It does not answer, so that another coordinator may be better off; one that cannot be written as it should is so for all.
    var isStoreOutOfReach: Bool { storeFailure != nil && !isWritingFailure }

    public init(store: any CallStore, settings: ServiceSettings) {
        self.store = store
        self.settings = settings
        budgets = Budgets(settings.limits)
        encoder = MessageEncoder(topics: settings.topics)
        recorder = TraceRecorder(policy: settings.trace, coordinator: settings.coordinator)
    }

    /// Serves a batch. Returns what is to be published.
    public func process(_ batch: [InboundMessage]) -> [OutboundMessage] {
        var messages: [OutboundMessage] = []
        process(batch) { messages += $0 }
        return messages
    }

    /// Serves a batch in rounds. `publish` is given what is to be published after each of them.
    public func process(_ batch: [InboundMessage], publish: ([OutboundMessage]) -> Void) {
        readClock()
        var intake = Intake(settings, budgets, now: clockFailure == nil ? now : nil)
        for message in batch { intake.read(message) }
        counters.add(intake.counts)
        outbox += intake.refusals
        let rounds = intake.rounds
        for round in rounds.all {
            serve(round)
            publish(takeOutbox())
        }
        // What was refused, when nothing was served.
        if rounds.all.isEmpty { publish(takeOutbox()) }
    }

    private func serve(_ round: Round) {
        // The rounds before may have taken their time.
        readClock()
        if clockFailure == nil, !round.presence.isEmpty {
            servePresence(round.presence)
            readClock()
        }
        if let clockFailure {
            failed(clockFailure)
            round.calls.works.forEach(answerUnavailable)
            round.messages.works.forEach(answerUnavailable)
            round.requests.forEach(answerUnavailable)
            return
        }
        serve(round.calls.works, of: round.senders.unique)
        serveMessages(round.messages.works)
        round.requests.forEach(serveUserRequest)
    }

    private func answerUnavailable(_ work: MessageWork) {
        for case .send(let received, _) in work.events { answerUnavailable(received) }
    }

    func answerUnavailable(_ work: CallWork) {
        for event in work.events {
            switch event {
            case .request(let received): answerUnavailable(received)
            case .signal(let received):
                if let id = received.id {
                    answerUnavailable(id, received.device, received.correlationData)
                } else {
                    counters.add(.messagesRefused, ErrorCode.unavailable.rawValue)
                    outbox.append(encoder.refusal(.unavailable, topic: settings.topics.down(received.device)))
                }
            case .ack, .heartbeat, .cameOnline, .wentOffline, .deadline: break
            }
        }
    }

    func answerUnavailable(_ received: ReceivedRequest) {
        answerUnavailable(received.request.id, received.device, received.correlationData)
    }

    private func answerUnavailable(_ id: RequestID, _ device: DeviceAddress, _ correlationData: [UInt8]?) {
        outbox.append(encoder.response(id, .failure(.unavailable), to: device, correlationData))
        counters.add(.responses, ErrorCode.unavailable.rawValue)
    }

    func failed(_ error: StoreError) {
        counters.add(.storeErrors)
        storeFailure = error.description
        isWritingFailure = error.isOfWriting || isWritingFailure
    }

    /// The store has answered; whether what it did was a write.
    func storeAnswered(isWrite: Bool) {
        guard isWrite || !isWritingFailure else { return }
        storeFailure = nil
        isWritingFailure = false
    }

    func readClock() {
        do throws(StoreError) {
            now = try store.now()
            clockFailure = nil
        } catch {
            clockFailure = error
            failed(error)
        }
    }

    func takeOutbox() -> [OutboundMessage] {
        defer { outbox.removeAll(keepingCapacity: true) }
        counters.add(.messagesSent, outbox.count)
        counters.add(.eventsTrimmed, outbox.count(where: \.isTrimmed))
        return outbox
    }
}
