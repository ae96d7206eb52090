import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Peer messages, as calls: gather, decide, commit, and only then tell.
extension CallService {
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
        let (facts, stored) = try gather(works)
        var deciding = Deciding(facts, settings, budgets)
        var decisions: [MessageDecision] = []
        for (work, stored) in zip(works, stored) { decisions.append(try decide(work, stored, &deciding)) }
        let writing = Writing(settings: settings, now: now)
        let commits = zip(works, decisions).map { writing.commit(of: $1, $0.id) }
        let changed = commits.indices.filter { commits[$0] != nil }
        let written = try changed.isEmpty ? [] : commit(commits.compactMap(\.self))
        storeAnswered(isWrite: !changed.isEmpty)
        let lost = Set(zip(changed, written).filter { !$0.1 }.map(\.0))
        for index in works.indices where !lost.contains(index) { publish(decisions[index], works[index].id) }
        return works.indices.filter(lost.contains).map { works[$0] }
    }

    /// The records, and what messages that are new will ask for.
    private func gather(_ works: [MessageWork]) throws(StoreError) -> (Facts, [StoredRecord?]) {
        var lookup = Lookup(records: works.map(\.id))
        for work in works {
            for case .send(let received, let request) in work.events {
                lookup.expect(request, from: received.device.userID, settings, now: now)
            }
        }
        lookup.messages = lookup.messages.unique
        lookup.outstanding = lookup.outstanding.unique
        lookup.blocks = lookup.blocks.unique
        lookup.profiles = lookup.profiles.unique
        let findings = try store.read(lookup)
        var facts = Facts()
        facts.now = now
        learn(lookup, findings, &facts)
        return (facts, findings.records)
    }

    private func decide(
        _ work: MessageWork, _ stored: StoredRecord?, _ deciding: inout Deciding
    ) throws(StoreError) -> MessageDecision {
        let decision = try found(&deciding) { (deciding) throws(Undecided) in try deciding.decide(work, stored) }
        // Those that are decided after it and written with it count it.
        if let sender = decision.sender, let recipient = decision.message?.to {
            deciding.facts.waitingMessages[sender, default: 0] += 1
            deciding.facts.inboxes[recipient, default: 0] += 1
        }
        return decision
    }

    private func publish(_ decision: MessageDecision, _ id: RecordID) {
        counters.add(decision.counts)
        if decision.isUnreadable { setAside.insert(id, now: now) }
        decision.replies.forEach(publish)
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
