import CallCore
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
    var recorder: TraceRecorder
    var outbox: [OutboundMessage] = []
    /// What was read for the round being served.
    var known = Knowledge()
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

    public init(store: any CallStore, settings: ServiceSettings) {
        self.store = store
        self.settings = settings
        limiter = RateLimiter(settings.limits)
        recorder = TraceRecorder(policy: settings.trace, coordinator: settings.coordinator)
    }

    /// Serves a batch in order. Returns what is to be published.
    public func process(_ batch: [InboundMessage]) -> [OutboundMessage] {
        counters.add(.messagesReceived, batch.count)
        readClock()
        var run = Run()
        for message in batch {
            guard !message.isRetained else {
                counters.add(.messagesRefused, "retained")
                continue
            }
            switch settings.topics.parse(message.topic) {
            case .foreign: counters.add(.messagesRefused, "foreign")
            case .refused(let mirror):
                refuse(SignalingError(.badRequest, "topic: not in canonical form"), topic: mirror)
            case .up(let device):
                run.senders.insert(device)
                guard let item = read(message, from: device) else { continue }
                switch item {
                case .call(let callID, let event):
                    if run.isElsewhere(event, callID) {
                        serve(run)
                        run = Run(senders: [device])
                    }
                    run.append(event, to: callID)
                case .message(let id, let event): run.append(event, to: id)
                case .user(let received):
                    // It asks for what the messages before it have done.
                    serve(run)
                    run = Run(senders: [device])
                    serveUserRequest(received)
                }
            case .presence(let device):
                // What a device sent before it came or went is served before.
                serve(run)
                run = Run()
                servePresence(message, of: device)
            }
        }
        serve(run)
        return takeOutbox()
    }

    /// What a message of a device is about.
    private enum Item {
        case call(CallID, CallEvent)
        case message(RecordID, MessageEvent)
        case user(ReceivedRequest)
    }

    /// Messages of devices between two presence messages, by call, in the order in which they came.
    private struct Run {
        var works: [CallWork] = []
        var messageWorks: [MessageWork] = []
        var senders: Set<DeviceAddress> = []
        private var places: [CallID: Int] = [:]
        private var messagePlaces: [RecordID: Int] = [:]
        private var callOfUser: [UserID: CallID] = [:]

        init(senders: Set<DeviceAddress> = []) { self.senders = senders }

        /// The user has a request on another call in this run. Calls of one run are decided side by side, but a user who
        /// leaves one call and enters another means it in this order.
        func isElsewhere(_ event: CallEvent, _ callID: CallID) -> Bool {
            guard case .request(let received) = event, let other = callOfUser[received.device.userID] else {
                return false
            }
            return other != callID
        }

        mutating func append(_ event: MessageEvent, to id: RecordID) {
            if let place = messagePlaces[id] {
                messageWorks[place].events.append(event)
            } else {
                messagePlaces[id] = messageWorks.count
                messageWorks.append(MessageWork(id: id, events: [event]))
            }
        }

        mutating func append(_ event: CallEvent, to callID: CallID) {
            if case .request(let received) = event { callOfUser[received.device.userID] = callID }
            if let place = places[callID] {
                works[place].events.append(event)
            } else {
                places[callID] = works.count
                works.append(CallWork(callID: callID, events: [event]))
            }
        }
    }

    private func serve(_ run: Run) {
        guard !run.senders.isEmpty else { return }
        // The runs before may have taken their time.
        readClock()
        if let clockFailure {
            failed(clockFailure)
            run.works.forEach(answerUnavailable)
            for work in run.messageWorks { answerUnavailable(work) }
            return
        }
        serve(run.works, of: run.senders.sorted())
        serveMessages(run.messageWorks)
    }

    /// Decodes one message of a device; what cannot be used is answered at once.
    private func read(_ message: InboundMessage, from device: DeviceAddress) -> Item? {
        switch UpMessage.decode(message.payload, maxBytes: settings.maxPayload) {
        case .success(.request(let request)):
            counters.add(.requests, request.body.type)
            let received = ReceivedRequest(
                device: device, request: request, correlationData: message.correlationData)
            return isAdmitted(received) ? item(received) : nil
        case .success(.signal(let signal)):
            counters.add(.requests, Request.Body.signal(signal).type)
            if clockFailure == nil, let retryAfter = limiter.admit(device.userID, .signal, now: now) {
                refuse(.rateLimited(retryAfter), topic: settings.topics.down(device))
                return nil
            }
            return .call(
                signal.callID, .signal(ReceivedSignal(device: device, id: nil, signal: signal, correlationData: nil)))
        case .success(.heartbeat(let callID)):
            counters.add(.heartbeats)
            return .call(callID, .heartbeat(device))
        case .success(.ackCall(let callID, let revision)):
            counters.add(.acks)
            return .call(callID, .ack(device, revision: revision))
        case .success(.ackMessage(let messageID)):
            counters.add(.acks)
            return .message(.message(messageID, to: device.userID), .ack(device))
        case .failure(let refusal):
            if let id = refusal.requestID {
                counters.add(.responses, refusal.error.code.rawValue)
                outbox.append(response(id, .failure(refusal.error), to: device, message.correlationData))
            } else {
                refuse(refusal.error, topic: settings.topics.down(device))
            }
            return nil
        }
    }

    private func item(_ received: ReceivedRequest) -> Item {
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
        case .query, .userUpdate, .userQuery: return .user(received)
        case .invite, .cancel, .accept, .reject, .add, .join, .quit, .end, .get, .report, .trace:
            return .call(request.body.callID ?? derivedID(received.key), .request(received))
        }
    }

    /// Whether the user may ask for more now; if not, it is told when (section 2, Rate limits).
    private func isAdmitted(_ received: ReceivedRequest) -> Bool {
        let kind = RateLimiter.Class(received.request.body)
        guard clockFailure == nil, let retryAfter = limiter.admit(received.device.userID, kind, now: now) else {
            return true
        }
        let outcome = Response.Outcome.failure(.rateLimited(retryAfter))
        count(outcome)
        outbox.append(response(received.request.id, outcome, to: received.device, received.correlationData))
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
        return OutboundMessage(
            topic: settings.topics.down(device), payload: bounded(message), correlationData: correlationData,
            expirySeconds: ServiceBounds.messageExpirySeconds)
    }

    /// Works through each call's events until its decision is committed. Returns whether all were. `senders`: the devices
    /// whose messages these are.
    @discardableResult
    func serve(_ works: [CallWork], of senders: [DeviceAddress] = []) -> Bool {
        var open = works
        do throws(StoreError) {
            if works.isEmpty, !senders.isEmpty { try look(for: [], of: senders) }
            for count in 0..<ServiceBounds.commitAttempts where !open.isEmpty {
                // What is judged again is judged as of now.
                if count > 0 { now = try store.now() }
                open = try attempt(open, of: count == 0 ? senders : [])
            }
        } catch {
            failed(error)
        }
        known = Knowledge()
        // What is left lost every race, or the store is away: the devices send again.
        for work in open { answerUnavailable(work) }
        return open.isEmpty
    }

    /// One round over all calls: one look, one commit, and one look at who is to be told. Returns the works that lost
    /// against somebody else.
    private func attempt(_ works: [CallWork], of senders: [DeviceAddress]) throws(StoreError) -> [CallWork] {
        let stored = try look(for: works, of: senders)
        var decisions: [Decision] = []
        for (work, stored) in zip(works, stored) { decisions.append(try decide(work, stored)) }
        // The alias of a merge comes first: a cancel of the inviter's own id finds it, or is found by it.
        let aliases = decisions.map(aliasCommit)
        var isLost = try write(aliases, [], thenRead: Lookup()).isWritten.map { $0 == false }
        let commits = zip(works, decisions).enumerated().map { index, pair in
            isLost[index] ? nil : commit(of: pair.1, callID: pair.0.callID)
        }
        let notes = decisions.indices.filter { !isLost[$0] && commits[$0] == nil }.flatMap { decisions[$0].notes }
        // Presence is read after the commit: a device that comes online reads its calls after writing presence, so that
        // one of the two sees the other.
        let told = decisions.indices.filter { !isLost[$0] }.flatMap { decisions[$0].told }.unique
        let (isWritten, findings) = try write(commits, notes, thenRead: Lookup(presence: told))
        let presence = Presence(uniqueKeysWithValues: zip(told, findings.presence))
        for index in works.indices where isWritten[index] == false { isLost[index] = true }
        storeFailure = nil

        for index in works.indices where !isLost[index] {
            if let commit = commits[index] { committed(decisions[index], commit) }
            publish(decisions[index], presence)
        }
        return works.indices.filter { isLost[$0] }.map { works[$0] }
    }

    /// Commits those that there are. Of each: true when it was written, false when somebody else was faster, nil when
    /// there was nothing to write.
    private func write(
        _ commits: [Commit?], _ notes: [Note], thenRead lookup: Lookup
    ) throws(StoreError) -> (isWritten: [Bool?], findings: Findings) {
        let places = commits.indices.filter { commits[$0] != nil }
        var results = [Bool?](repeating: nil, count: commits.count)
        guard !places.isEmpty || !notes.isEmpty || !lookup.isEmpty else { return (results, Findings()) }
        let written = try store.write(dated(commits.compactMap(\.self)), notes, thenRead: lookup)
        for (place, isWritten) in zip(places, try judge(written.outcomes)) { results[place] = isWritten }
        return (results, written.findings)
    }

    /// Of each: whether it was written.
    func commit(_ commits: [Commit]) throws(StoreError) -> [Bool] { try judge(try store.commit(dated(commits))) }

    /// With how long the decisions count.
    private func dated(_ commits: [Commit]) -> [Commit] {
        commits.map { commit in
            var commit = commit
            commit.validUntil = now + ServiceBounds.decisionLife
            return commit
        }
    }

    /// Throws when the decisions were made so long ago that they no longer count: this process stood still, and a call
    /// must not begin, or change, as of a time that is past.
    private func judge(_ outcomes: [CommitOutcome]) throws(StoreError) -> [Bool] {
        if outcomes.contains(.stale) { throw StoreError("this process stood still for too long") }
        return outcomes.map { outcome in
            guard case .committed = outcome else {
                counters.add(.conflicts)
                return false
            }
            counters.add(.commits)
            return true
        }
    }

    /// The record to write; nil when nothing but notes is to be kept.
    private func commit(of decision: Decision, callID: CallID) -> Commit? {
        if let record = decision.record {
            return Commit(
                .call(callID), record: record, expected: decision.version, deadline: nil,
                expiresAt: now + settings.cancelMemory)
        }
        guard let machine = decision.machine, machine.call != decision.before else { return nil }
        let call = machine.call
        var commit = Commit(
            .call(call.callID), record: .call(call), expected: decision.version, deadline: machine.nextDeadline,
            expiresAt: call.endedAt.map { $0 + settings.historyRetention })
        commit.notes = decision.notes
        commit.expectedHolders = decision.expectedHolders
        setClaims(&commit, before: decision.before, after: call)
        commit.newMembers = call.members.map(\.userID).filter { decision.before?.member($0) == nil }
        commit.hasJustEnded = !call.isLive && decision.before?.isLive ?? true
        return commit
    }

    private func aliasCommit(of decision: Decision) -> Commit? {
        guard let alias = decision.alias, let call = decision.call, call != decision.before else { return nil }
        return Commit(
            .call(alias.callID), record: .alias(of: call.callID, origin: alias.origin), expected: alias.version,
            deadline: nil, expiresAt: now + settings.historyRetention)
    }

    private func committed(_ decision: Decision, _ commit: Commit) {
        guard let call = decision.call else { return }
        timers.set(commit.id, at: commit.deadline)
        if decision.before == nil { counters.add(.callsCreated) }
        if !call.isLive, decision.before?.isLive ?? true { counters.add(.callsEnded, call.endReason?.rawValue ?? "") }
    }

    private func answerUnavailable(_ work: MessageWork) {
        for case .send(let received, _) in work.events { answerUnavailable(received) }
    }

    private func answerUnavailable(_ work: CallWork) {
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
        return outbox
    }
}

extension Response.Outcome {
    /// `ok` or the error's code.
    var name: String {
        switch self {
        case .success, .answer: "ok"
        case .failure(let error): error.code.rawValue
        }
    }
}

extension SignalingError {
    fileprivate static let unavailable = SignalingError(.unavailable, "the service cannot answer now: send again")

    fileprivate static func rateLimited(_ retryAfter: Int) -> SignalingError {
        SignalingError(.rateLimited, "too many requests of this user", retryAfter: retryAfter)
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
