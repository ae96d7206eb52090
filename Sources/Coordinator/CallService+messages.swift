import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Peer messages: kept, sent again until somebody acks them, and answered by one receipt (docs/protocol.md, section 2, Peer
/// messages). As with calls: load, decide, commit, and only then publish.
extension CallService {
    private struct MessageDecision {
        var version: Int64 = 0
        var before: PeerMessage?
        var message: PeerMessage?
        var replies: [(message: OutboundMessage, to: UserID)] = []
        /// Nil: all devices of the recipient.
        var sends: [DeviceAddress?] = []
        var owesReceipt = false
        /// What is counted, once it is committed.
        var counts = Counts()
    }

    func serveMessages(_ works: [MessageWork]) {
        var open = works
        do throws(StoreError) {
            for count in 0..<ServiceBounds.commitAttempts where !open.isEmpty {
                if count > 0 { now = try store.now() }
                open = try attempt(open)
            }
        } catch {
            failed(error)
        }
        for work in open {
            for case .send(let received, _) in work.events { answerUnavailable(received) }
        }
    }

    private func attempt(_ works: [MessageWork]) throws(StoreError) -> [MessageWork] {
        let stored = try store.load(works.map(\.id))
        var decisions: [MessageDecision] = []
        // Messages that are decided now and written together.
        var sending: [UserID: Int] = [:]
        for (work, stored) in zip(works, stored) { decisions.append(try decide(work, stored, &sending)) }
        let changed = decisions.indices.filter { decisions[$0].message != decisions[$0].before }
        let written = try changed.isEmpty ? [] : commit(changed.map { commit(decisions[$0], works[$0].id) })
        storeAnswered(isWrite: !changed.isEmpty)
        let lost = Set(zip(changed, written).filter { !$0.1 }.map(\.0))
        for index in works.indices where !lost.contains(index) { publish(decisions[index], works[index].id) }
        return works.indices.filter(lost.contains).map { works[$0] }
    }

    private func commit(_ decision: MessageDecision, _ id: RecordID) -> Commit {
        let message = decision.message!
        var commit = Commit(
            id, record: .message(message), expected: decision.version, deadline: message.nextDeadline,
            expiresAt: message.finishedAt.map { $0 + settings.messageMemory })
        let asked = Outstanding.message(id, by: message.origin.device.userID)
        if decision.before == nil, message.isWaiting { commit.asked = [(asked, message.expiresAt)] }
        if decision.before?.isWaiting ?? false, !message.isWaiting { commit.settled = [asked] }
        return commit
    }

    private func decide(
        _ work: MessageWork, _ stored: StoredRecord?, _ sending: inout [UserID: Int]
    ) throws(StoreError) -> MessageDecision {
        var decision = MessageDecision()
        decision.version = stored?.version ?? 0
        if case .message(let message)? = stored?.record {
            decision.before = message
            decision.message = message
        }
        for event in work.events {
            switch event {
            case .send(let received, let request):
                try decideSend(received, request, work.id, stored, &decision, &sending)
            case .ack(let device):
                // A message to oneself is for the other devices.
                guard device != decision.message?.origin.device else { continue }
                if decision.message?.acknowledged(now: now) ?? false { decision.owesReceipt = true }
            case .cameOnline(let device):
                if decision.message?.isWaiting ?? false { decision.sends.append(device) }
            case .deadline:
                if stored?.record == .unreadable {
                    counters.add(.unreadableRecords)
                    setAside.insert(work.id, now: now)
                }
                decideDeadline(&decision)
            case .receiptSent: decision.message?.receiptSent()
            }
        }
        return decision
    }

    private func decideSend(
        _ received: ReceivedRequest, _ request: Request.Message, _ id: RecordID, _ stored: StoredRecord?,
        _ decision: inout MessageDecision, _ sending: inout [UserID: Int]
    ) throws(StoreError) {
        guard stored?.record != .unreadable else {
            decision.counts.add(.unreadableRecords)
            reply(received, .failure(SignalingError(.internal, "the message's record cannot be read")), &decision)
            return
        }
        if let known = decision.message {
            guard known.origin.device.userID == received.device.userID else {
                let error = SignalingError(.badRequest, "messageID: a message to this user has it")
                reply(received, .failure(error), &decision)
                return
            }
            reply(received, .answer(answer(known)), &decision)
            return
        }
        guard case .message(let messageID, let user) = id else { return }
        if settings.users == .known, try store.profiles(of: [user])[0] == nil {
            reply(received, .failure(SignalingError(.userNotRegistered, "to: is not registered")), &decision)
            return
        }
        if let error = try crowd(from: received.device.userID, to: user, &decision, &sending) {
            reply(received, .failure(error), &decision)
            return
        }
        let ttl = request.ttl.map { Milliseconds($0) * 1000 } ?? settings.messageTTL
        let isWithheld = try !blocking(received.device.userID, among: [user]).isEmpty
        let message = PeerMessage(
            request, messageID: messageID, origin: received.key, ttl: ttl, isWithheld: isWithheld, now: now)
        decision.message = message
        decision.sends.append(nil)
        reply(received, .answer(answer(message)), &decision)
    }

    /// The refusal when as many messages wait as may: for the recipient, or of the sender.
    private func crowd(
        from sender: UserID, to recipient: UserID, _ decision: inout MessageDecision, _ sending: inout [UserID: Int]
    ) throws(StoreError) -> SignalingError? {
        let findings = try store.read(
            Lookup(
                messages: [MessageList(for: recipient, limit: ServiceBounds.messagesPerRecipient)],
                outstanding: [OutstandingCount(.messages, of: sender, after: now)]))
        guard findings.messages[0].count < ServiceBounds.messagesPerRecipient else {
            decision.counts.add(.limited, "messagesPerRecipient")
            return SignalingError(
                .rateLimited, "too many messages wait for this user", retryAfter: ServiceBounds.fullInboxRetry)
        }
        let waiting = findings.outstanding[0] + sending[sender, default: 0]
        guard waiting < settings.quotas.waitingMessages else {
            decision.counts.add(.limited, "waitingMessages")
            return SignalingError(
                .rateLimited, "too many messages of this user wait", retryAfter: ServiceBounds.outstandingRetry)
        }
        sending[sender, default: 0] += 1
        return nil
    }

    private func answer(_ message: PeerMessage) -> Answer {
        .message(message.messageID, time: message.createdAt, state: message.state)
    }

    private func reply(
        _ received: ReceivedRequest, _ outcome: Response.Outcome, _ decision: inout MessageDecision
    ) {
        decision.counts.add(.responses, outcome.name)
        let answer = response(received.request.id, outcome, to: received.device, received.correlationData)
        decision.replies.append((answer, received.device.userID))
    }

    private func decideDeadline(_ decision: inout MessageDecision) {
        guard let due = decision.message?.nextDeadline, due <= now else { return }
        decision.counts.add(.deadlines)
        decision.message?.deadlineReached(now: now)
        if decision.message?.isWaiting ?? false {
            decision.sends.append(nil)
        } else {
            decision.owesReceipt = true
        }
    }

    private func publish(_ decision: MessageDecision, _ id: RecordID) {
        counters.add(decision.counts)
        for (reply, user) in decision.replies {
            charge(reply.payload.count, to: user)
            outbox.append(reply)
        }
        guard let message = decision.message else { return }
        timers.set(id, at: message.nextDeadline)
        if let before = decision.before {
            if before.isWaiting, !message.isWaiting { counters.add(.peerMessages, message.state.rawValue) }
        } else {
            counters.add(.peerMessages, MessageState.sent.rawValue)
        }
        if let incoming = message.incoming(now: now) {
            let payload = DownMessage.message(incoming).encoded()
            let expiry = UInt32(clamping: (message.expiresAt - now + 999) / 1000)
            if decision.before == nil { charge(payload.count, to: message.origin.device.userID) }
            for device in decision.sends {
                outbox.append(
                    OutboundMessage(
                        topic: device.map(settings.topics.down) ?? settings.topics.down(message.to), payload: payload,
                        expirySeconds: expiry))
            }
        }
        if decision.owesReceipt, let receipt = message.receipt {
            outbox.append(
                OutboundMessage(
                    topic: settings.topics.down(message.origin.device), payload: DownMessage.receipt(receipt).encoded(),
                    expirySeconds: ServiceBounds.messageExpirySeconds, receiptOf: id))
        }
    }

    /// The broker has these messages: the receipts among them are not sent again. Those of a coordinator that
    /// died before are, by whoever serves their deadline.
    public func published(_ messages: [OutboundMessage]) {
        let receipts = messages.compactMap(\.receiptOf)
        guard !receipts.isEmpty else { return }
        serveMessages(receipts.map { MessageWork(id: $0, events: [.receiptSent]) })
    }
}
