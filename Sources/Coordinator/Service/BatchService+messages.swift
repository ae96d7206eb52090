import CallCore
import CallStore
import SignalingProtocol

/// Serves peer messages in the same stages as requests about calls: gathers, decides, commits, and only then delivers.
extension BatchService {
    func serveMessages(_ works: [MessageWork]) async {
        var open = works
        do throws(StoreError) {
            for count in 0..<ServiceBounds.commitAttempts where !open.isEmpty {
                if count > 0 { try await readClock() }
                open = try await attemptMessages(open)
            }
        } catch {
            context.failed(error)
        }
        for work in open { answerUnavailable(work) }
    }

    /// Makes one attempt. Returns the peer messages that lost their commit against another writer.
    private func attemptMessages(_ works: [MessageWork]) async throws(StoreError) -> [MessageWork] {
        let (facts, records) = try await gatherFacts(for: works)
        var deciding = Deciding(facts, settings, context.budgets)
        var queriesLeft = Int.max
        var decisions: [MessageDecision] = []
        for (work, stored) in zip(works, records) {
            let outcome = try await decide(&deciding, besides: [], &queriesLeft) { (deciding) throws(Undecided) in
                try deciding.decide(work, stored)
            }
            guard case .decided(let decision) = outcome else {
                throw StoreError(.unsettled, "a decision on a peer message had more queries than allowed")
            }
            // Later decisions of this batch count this message too.
            if let sender = decision.sender, let recipient = decision.message?.to {
                deciding.facts.addMessage(from: sender, to: recipient)
            }
            context.budgets.pace(decision.sentAgain, decision.heldBack, now: now)
            decisions.append(decision)
        }
        let writing = try await self.writing()
        let commits = zip(works, decisions).map { writing.commit(of: $1, $0.id) }
        let changed = commits.indices.filter { commits[$0] != nil }
        let written = try await changed.isEmpty ? [] : write(commits.compactMap(\.self))
        context.health.answered(isWrite: !changed.isEmpty)
        let lost = Set(zip(changed, written).filter { !$0.1 }.map(\.0))
        for index in works.indices where !lost.contains(index) {
            deliver(decisions[index], works[index].id)
            guard let entries = commits[index]?.outboxEntries, let message = decisions[index].message else { continue }
            charge(entries.approximateBytes, to: message.origin.device.userID)
        }
        return works.indices.filter(lost.contains).map { works[$0] }
    }

    private func deliver(_ decision: MessageDecision, _ id: RecordID) {
        context.counters.add(decision.counts)
        context.budgets.note(decision.counts)
        if decision.isUnreadable { context.setAside.insert(id, now: now) }
        decision.replies.forEach(deliverReply)
        guard let message = decision.message else { return }
        context.timers.set(id, at: message.nextDeadline)
        if let before = decision.before {
            if before.isWaiting, !message.isWaiting {
                context.counters.add(.peerMessages, message.state.rawValue)
                // A delivered message no longer counts towards the bytes on their way to the recipient.
                if message.state == .delivered {
                    context.budgets.giveBack(
                        before.approximateBytes, from: before.origin.device.userID, to: before.to, now: now)
                }
            }
        } else {
            context.counters.add(.peerMessages, MessageState.sent.rawValue)
        }
        if let incoming = message.incoming(now: now) { sendIncoming(incoming, message, decision) }
        if decision.needsReceipt, let receipt = message.receipt {
            send(
                OutboundMessage(
                    topic: settings.topics.down(message.origin.device),
                    payload: DownMessage.receipt(receipt).encoded(),
                    expirySeconds: ServiceBounds.messageExpirySeconds, receiptOf: id))
        }
    }

    private func sendIncoming(_ incoming: BellwireIncomingMessage, _ message: PeerMessage, _ decision: MessageDecision)
    {
        let topics = settings.topics
        let payload = DownMessage.message(incoming).encoded()
        let expiry = UInt32(clamping: (message.expiresAt - now + 999) / 1000)
        if decision.before == nil {
            charge(payload.count, to: message.origin.device.userID)
            context.budgets.charge(
                message.approximateBytes, from: message.origin.device.userID, to: message.to, now: now)
        }
        for device in decision.sends {
            send(
                OutboundMessage(
                    topic: device.map(topics.down) ?? topics.down(message.to), payload: payload, expirySeconds: expiry,
                    brokers: device.map(brokers) ?? brokers(of: message.to)))
        }
    }
}
