import SignalingProtocol

/// The decision about a peer message, as a value. The coordinator writes the decision first and then sends its
/// messages.
package struct MessageDecision {
    /// The version of the loaded record; 0 when the record did not exist.
    package let version: Int64
    package var before: PeerMessage?
    package var message: PeerMessage?
    package var replies: [Reply] = []
    /// The devices of the recipient that get the message; a nil element means all devices.
    package var sends: [DeviceAddress?] = []
    /// The candidates that are resent and the candidates that are held back, for the pacing of the recipient's devices.
    package var sentAgain: [(ResendPacing.Candidate, ResendPacing.Target)] = []
    package var heldBack: [(ResendPacing.Candidate, ResendPacing.Target)] = []
    package var needsReceipt = false
    /// Whether a response says that the message was taken, by this request or by an earlier one.
    package var tellsOfChange = false
    package var counts = Counts()
    /// Whether the record is due and cannot be read, so that the sweep must set the record aside.
    package var isUnreadable = false

    /// The sender of a new message; nil for a message that was stored before.
    package var sender: UserID? { before == nil ? message?.origin.device.userID : nil }
}

/// Peer messages: the service keeps a message, resends the message until a device acks, and sends a single receipt
/// (docs/protocol.md, section 2, Peer messages).
extension Deciding {
    /// Decides all events of a message, given the stored record.
    package func decide(_ work: MessageWork, _ stored: StoredRecord?) throws(Undecided) -> MessageDecision {
        var decision = MessageDecision(version: stored?.version ?? 0)
        if case .message(let message)? = stored?.record {
            decision.before = message
            decision.message = message
        }
        for event in work.events {
            switch event {
            case .send(let received, let request): try decideSend(received, request, work.id, stored, &decision)
            case .ack(let device):
                // A message to the sender's own user is for the user's other devices.
                guard device != decision.message?.origin.device else { continue }
                if decision.message?.acknowledged(now: now) ?? false { decision.needsReceipt = true }
            case .cameOnline(let device):
                send(work.id, to: device, &decision)
            case .deadline: decideDeadline(work.id, stored, &decision)
            case .released(let device): send(work.id, to: device, &decision)
            case .receiptSent: decision.message?.receiptSent()
            }
        }
        return decision
    }

    private func decideSend(
        _ received: ReceivedRequest, _ request: Request.Message, _ id: RecordID, _ stored: StoredRecord?,
        _ decision: inout MessageDecision
    ) throws(Undecided) {
        guard stored?.record != .unreadable else {
            decision.counts.add(.unreadableRecords)
            reply(received, .failure(SignalingError(.internal, "the message's record cannot be read")), &decision)
            return
        }
        if let known = decision.message {
            guard known.origin.device.userID == received.device.userID else {
                let error = SignalingError(.badRequest, "messageID: another message to this user has this id")
                reply(received, .failure(error), &decision)
                return
            }
            // Another message under the same request id must not look sent. Under another request id, the message's id
            // identifies the message.
            guard known.origin != received.key || known.digest == request.digest else {
                reply(received, .failure(.usedID(for: received.request.body.type)), &decision)
                return
            }
            reply(received, .answer(answer(known)), &decision)
            decision.tellsOfChange = true
            return
        }
        guard case .message(let messageID, let user) = id else { return }
        if settings.users == .known, try facts.profiles(of: [user])[user] == nil {
            reply(received, .failure(SignalingError(.userNotRegistered, "to: is not registered")), &decision)
            return
        }
        if let error = try crowd(
            of: PeerMessage.bytesBesideData + request.data.bytes.count, from: received.device.userID, to: user,
            &decision)
        {
            reply(received, .failure(error), &decision)
            return
        }
        let ttl = request.ttl.map { Milliseconds($0) * 1000 } ?? settings.messageTTL
        let isWithheld = try !facts.blocking(received.device.userID, among: [user]).isEmpty
        let message = PeerMessage(
            request, messageID: messageID, origin: received.key, ttl: ttl, isWithheld: isWithheld, now: now)
        decision.message = message
        decision.sends.append(nil)
        reply(received, .answer(answer(message)), &decision)
    }

    /// Returns the refusal when too many messages wait for the recipient or from the sender, or when too many bytes
    /// were sent to the recipient.
    private func crowd(
        of bytes: Int, from sender: UserID, to recipient: UserID, _ decision: inout MessageDecision
    ) throws(Undecided) -> SignalingError? {
        let (inbox, waiting) = try facts.waitingMessages(from: sender, to: recipient)
        guard inbox < ServiceBounds.messagesPerRecipient else {
            decision.counts.addLimited(sender, by: "messagesPerRecipient")
            return SignalingError(
                .rateLimited, "too many messages wait for this user", retryAfter: ServiceBounds.fullInboxRetry)
        }
        guard waiting < settings.quotas.waitingMessages else {
            decision.counts.addLimited(sender, by: "waitingMessages")
            return SignalingError(
                .rateLimited, "too many messages of this user wait", retryAfter: ServiceBounds.outstandingRetry)
        }
        if let refusal = allowances.refusal(of: bytes, from: sender, to: recipient, now: now) {
            decision.counts.addLimited(sender, by: refusal.limit.name)
            return SignalingError(
                .rateLimited, "too many bytes wait for the recipient", retryAfter: refusal.retryAfter)
        }
        return nil
    }

    private func answer(_ message: PeerMessage) -> Answer {
        .message(message.messageID, time: message.createdAt, state: message.state)
    }

    private func reply(_ received: ReceivedRequest, _ outcome: Response.Outcome, _ decision: inout MessageDecision) {
        decision.counts.add(.responses, outcome.name)
        decision.replies.append(
            Reply(
                device: received.device, content: .response(received.request.id, outcome),
                path: received.path))
    }

    private func decideDeadline(_ id: RecordID, _ stored: StoredRecord?, _ decision: inout MessageDecision) {
        if stored?.record == .unreadable {
            decision.counts.add(.unreadableRecords)
            decision.isUnreadable = true
        }
        guard let due = decision.message?.nextDeadline, due <= now else { return }
        decision.counts.add(.deadlines)
        decision.message?.deadlineReached(now: now)
        if decision.message?.isWaiting ?? false {
            send(id, to: nil, &decision)
        } else {
            decision.needsReceipt = true
        }
    }

    /// Sends a queued message to a device of the recipient, or, without `device`, to all devices, as far as the pacing
    /// allows.
    private func send(_ id: RecordID, to device: DeviceAddress?, _ decision: inout MessageDecision) {
        guard let message = decision.message, message.isWaiting else { return }
        let target = ResendPacing.Target(message.to, device?.deviceID)
        let candidate = ResendPacing.Candidate(
            id, isRinging: false, createdAt: message.createdAt, bytes: message.approximateBytes)
        guard allowances.mayResend(candidate, to: target, now: now) else {
            decision.heldBack.append((candidate, target))
            decision.counts.add(.resendsHeldBack)
            return
        }
        decision.sends.append(device)
        decision.sentAgain.append((candidate, target))
    }
}

extension [Query] {
    /// Returns the queries that the decision about a new message will need.
    package static func sending(
        _ request: Request.Message, from sender: UserID, _ settings: ServiceSettings, now: Milliseconds
    ) -> [Query] {
        var queries = waitingMessages(from: sender, to: request.to, now: now)
        queries.append(.block(Block(by: request.to, of: sender)))
        if settings.users == .known { queries.append(.profile(request.to)) }
        return queries
    }

    static func waitingMessages(from sender: UserID, to recipient: UserID, now: Milliseconds) -> [Query] {
        [
            .messages(MessageList(for: recipient, limit: ServiceBounds.messagesPerRecipient)),
            .outstanding(OutstandingCount(.messages, of: sender, after: now)),
        ]
    }
}

extension Writing {
    /// Returns the commit of a decision; nil for a message without a change.
    package func commit(of decision: MessageDecision, _ id: RecordID) -> Commit? {
        guard let message = decision.message,
            message != decision.before || isForReplicas && decision.tellsOfChange
        else { return nil }
        var commit = commit(
            id, record: .message(message), expected: decision.version, deadline: message.nextDeadline,
            expiresAt: message.finishedAt.map { $0 + settings.messageMemory })
        let asked = Outstanding.message(id, by: message.origin.device.userID)
        if decision.before == nil, message.isWaiting { commit.asked = [(asked, message.expiresAt)] }
        if decision.before?.isWaiting ?? false, !message.isWaiting { commit.settled = [asked] }
        commit.outboxEntries = outboxEntries(of: message, before: decision.before, id)
        return commit
    }

    /// Returns the outbox entries of a message. A message has two revisions: it is sent, and then delivered or expired.
    /// After a message is forgotten, its id may be used again, so the number includes the creation time.
    private func outboxEntries(
        of message: PeerMessage, before: PeerMessage?, _ id: RecordID
    ) -> OutboxEntries? {
        let names = endpoints.filter(\.wantsMessages).map(\.name)
        guard !names.isEmpty, before?.state != message.state else { return nil }
        let isNew = message.state == .sent
        return OutboxEntries(
            to: names,
            revisions: [
                OutboxEntries.Revision(
                    number: 2 * message.createdAt + (isNew ? 0 : 1), time: message.finishedAt ?? message.createdAt,
                    record: .message(message))
            ])
    }
}
