import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Serves batches of messages and deadlines: load, decide, commit, and only then say what is to be published.
///
/// It has no state that matters: everything true is in the store, and any other coordinator can go on at any point.
/// It is driven by one thread and does no I/O but through its store.
public final class CallService {
    public let settings: ServiceSettings
    let store: any CallStore
    public internal(set) var counters = Counters()
    var timers = TimerQueue()
    var limiter: RateLimiter
    var staleAcks = StaleAcks()
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
        limiter = RateLimiter(settings.limits)
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
        counters.add(.messagesReceived, batch.count)
        readClock()
        var rounds = Rounds()
        for message in batch {
            guard !message.isRetained else {
                counters.add(.messagesRefused, "retained")
                continue
            }
            switch settings.topics.parse(message.topic) {
            case .foreign: counters.add(.messagesRefused, "foreign")
            case .refused(let mirror):
                refuse(SignalingError(.badRequest, "topic: not in canonical form"), topic: mirror)
            case .up(let device): rounds.append(read(message, from: device), from: device)
            case .presence(let device):
                if let change = readPresence(message, of: device) { rounds.append(change) }
            }
        }
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

    /// Decodes one message of a device; what cannot be used is answered at once.
    private func read(_ message: InboundMessage, from device: DeviceAddress) -> Rounds.Item? {
        switch decoded(message) {
        case .success(.request(let request)):
            counters.add(.requests, request.body.type)
            let received = ReceivedRequest(
                device: device, request: request, correlationData: message.correlationData)
            return isAdmitted(received) ? item(received) : nil
        case .success(.signal(let signal)):
            counters.add(.requests, Request.Body.signal(signal).type)
            let retryAfter =
                excess(.device(device)) ?? excess(.signals(device.userID)) ?? debt(of: device.userID)
            if let retryAfter {
                refuse(.rateLimited(retryAfter), topic: settings.topics.down(device))
                return nil
            }
            return .call(
                signal.callID, .signal(ReceivedSignal(device: device, id: nil, signal: signal, correlationData: nil)))
        case .success(.heartbeat(let callID)):
            counters.add(.heartbeats)
            guard isQuietlyAdmitted(device) else { return nil }
            return .call(callID, .heartbeat(device))
        case .success(.ackCall(let callID, let revision)):
            counters.add(.acks)
            guard isQuietlyAdmitted(device) else { return nil }
            return .call(callID, .ack(device, revision: revision))
        case .success(.ackMessage(let messageID)):
            counters.add(.acks)
            guard isQuietlyAdmitted(device) else { return nil }
            return .message(.message(messageID, to: device.userID), .ack(device))
        case .failure(var refusal):
            if let retryAfter = excess(.device(device)) { refusal.error = .rateLimited(retryAfter) }
            if let id = refusal.requestID {
                counters.add(.responses, refusal.error.code.rawValue)
                let correlationData = hasLongCorrelationData(message) ? nil : message.correlationData
                outbox.append(response(id, .failure(refusal.error), to: device, correlationData))
            } else {
                refuse(refusal.error, topic: settings.topics.down(device))
            }
            return nil
        }
    }

    private func decoded(_ message: InboundMessage) -> Result<UpMessage, UpMessageRefusal> {
        let decoded = UpMessage.decode(message.payload, maxBytes: settings.maxPayload)
        return hasLongCorrelationData(message) ? decoded.withLongCorrelationData : decoded
    }

    private func hasLongCorrelationData(_ message: InboundMessage) -> Bool {
        message.correlationData?.count ?? 0 > Limits.correlationDataBytes
    }

    private func item(_ received: ReceivedRequest) -> Rounds.Item {
        let request = received.request
        switch request.body {
        case .signal(let signal):
            return .call(
                signal.callID,
                .signal(
                    ReceivedSignal(
                        device: received.device, id: request.id, signal: signal,
                        correlationData: received.correlationData)))
        case .message(let message):
            // A call id has the form of a message id.
            let messageID = message.messageID ?? MessageID(derivedID(received.key).string)!
            return .message(.message(messageID, to: message.to), .send(received, message))
        case .query, .userUpdate, .userQuery, .userBlock, .userBlockList: return .user(received)
        case .invite, .cancel, .accept, .reject, .add, .join, .quit, .end, .get, .report, .trace:
            return .call(request.body.callID ?? derivedID(received.key), .request(received))
        }
    }

    /// Whether the user may ask for more now; if not, it is told when (section 2, Rate limits).
    private func isAdmitted(_ received: ReceivedRequest) -> Bool {
        let user = received.device.userID
        let own = RateLimiter.Key(user, received.request.body)
        guard let retryAfter = excess(.device(received.device)) ?? excess(own) ?? debt(of: user, for: received) else {
            return true
        }
        refuse(received, retryAfter)
        return false
    }

    /// The same for a request: who owes bytes can still answer a call, take it back and end it, now and then.
    private func debt(of user: UserID, for received: ReceivedRequest) -> Int? {
        guard let retryAfter = debt(of: user) else { return nil }
        switch received.request.body {
        case .cancel, .accept, .reject, .quit, .end: return excess(.inDebt(user)) == nil ? nil : retryAfter
        default: return retryAfter
        }
    }

    func refuse(_ received: ReceivedRequest, _ retryAfter: Int) {
        let outcome = Response.Outcome.failure(.rateLimited(retryAfter))
        count(outcome)
        outbox.append(response(received.request.id, outcome, to: received.device, received.correlationData))
    }

    /// The milliseconds after which to try again; nil when it is admitted.
    func excess(_ key: RateLimiter.Key) -> Int? {
        guard clockFailure == nil, let retryAfter = limiter.admit(key, now: now) else { return nil }
        counters.add(.limited, key.name)
        return retryAfter
    }

    /// What has no answer, and comes too often, is dropped: the event comes again, and the heartbeat too.
    private func isQuietlyAdmitted(_ device: DeviceAddress) -> Bool {
        guard excess(.device(device)) != nil else { return true }
        counters.add(.messagesRefused, ErrorCode.rateLimited.rawValue)
        return false
    }

    func refuse(_ error: SignalingError, topic: String) {
        counters.add(.messagesRefused, error.code.rawValue)
        // A mirrored topic is a little longer than what was received, which may have had the greatest length of all.
        guard topic.utf8.count <= ServiceBounds.topicBytes else { return }
        outbox.append(errorMessage(error, topic: topic))
    }

    func errorMessage(_ error: SignalingError, topic: String) -> OutboundMessage {
        OutboundMessage(
            topic: topic, payload: DownMessage.error(error).encoded(),
            expirySeconds: ServiceBounds.messageExpirySeconds)
    }

    func count(_ outcome: Response.Outcome) { counters.add(.responses, outcome.name) }

    func response(
        _ id: RequestID, _ outcome: Response.Outcome, to device: DeviceAddress, _ correlationData: [UInt8]?
    ) -> OutboundMessage {
        let message = DownMessage.response(Response(id: id, outcome: outcome))
        let (payload, isTrimmed) = bounded(message)
        return OutboundMessage(
            topic: settings.topics.down(device), payload: payload, correlationData: correlationData,
            expirySeconds: ServiceBounds.messageExpirySeconds, isTrimmed: isTrimmed)
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
                    refuse(.unavailable, topic: settings.topics.down(received.device))
                }
            case .ack, .heartbeat, .cameOnline, .wentOffline, .deadline: break
            }
        }
    }

    func answerUnavailable(_ received: ReceivedRequest) {
        answerUnavailable(received.request.id, received.device, received.correlationData)
    }

    private func answerUnavailable(_ id: RequestID, _ device: DeviceAddress, _ correlationData: [UInt8]?) {
        outbox.append(response(id, .failure(.unavailable), to: device, correlationData))
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

extension Result<UpMessage, UpMessageRefusal> {
    /// Refused, when there would be an answer that had to give the Correlation Data back.
    fileprivate var withLongCorrelationData: Self {
        let error = SignalingError(
            .tooLarge, "the Correlation Data may have at most \(Limits.correlationDataBytes) bytes")
        switch self {
        case .success(.request(let request)): return .failure(UpMessageRefusal(requestID: request.id, error: error))
        case .success(.signal): return .failure(UpMessageRefusal(requestID: nil, error: error))
        case .success(.heartbeat), .success(.ackCall), .success(.ackMessage): return self
        case .failure(let refusal): return .failure(UpMessageRefusal(requestID: refusal.requestID, error: error))
        }
    }
}

/// The id of a call whose invite names none, and of a message likewise: the same for every resend of the request, on any
/// replica (section 2).
/// FNV-1a with 128 bits: it only has to spread, since the user's own id is part of what is hashed.
func derivedID(_ key: RequestKey) -> CallID {
    var hash: UInt128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d
    func mix(_ text: String) {
        for byte in text.utf8 {
            hash ^= UInt128(byte)
            hash &*= 0x0000_0000_0100_0000_0000_0000_0000_013b
        }
        // No identifier holds this byte, so that the borders between the parts count.
        hash ^= 0xFF
        hash &*= 0x0000_0000_0100_0000_0000_0000_0000_013b
    }
    mix(key.device.userID.string)
    mix(key.device.deviceID.string)
    mix(key.requestID.string)
    let hex = String(hash, radix: 16)
    return CallID(String(repeating: "0", count: 32 - hex.count) + hex)!
}
