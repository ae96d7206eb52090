import SignalingProtocol

/// The history of a peer message, with a single and correct outcome (docs/protocol.md, section 2,
/// Peer messages).
struct MessageHistory {
    let request: Request.Message
    let key: HistoryChecker.RequestKey
    let firstSent: Int64
    /// The id in the first response, receipt or received copy that names the message.
    var messageID: MessageID?
    /// When the service accepted the message (`time`, by the service's clock), and when the response arrived (`at`).
    var accepted: (time: Int64, at: Int64)?
    struct Ack {
        let device: DeviceAddress
        let at: Int64
    }

    /// Acks that devices of the recipient sent.
    var acks: [Ack] = []
    /// The final state that the sender was told first.
    var outcome: (state: MessageState, time: Int64, at: Int64)?
    var touchedAt: Int64
    /// Whether the store has lost its latest writes since the message was sent. The service may then have forgotten the
    /// message and sent the message again.
    var mayBeLost = false

    var expiresAt: Int64? { accepted.map { $0.time + Int64(request.ttl ?? 30) * 1000 } }
}

extension HistoryChecker {
    /// A peer message of a recipient.
    struct MessageKey: Hashable {
        let to: UserID
        let messageID: MessageID
    }

    /// A receipt of a message before any response has named the message id.
    struct EarlyReceipt {
        let receipt: BellwireReceipt
        let device: DeviceAddress
        let entry: HistoryEntry
        let at: Int64
    }

    mutating func sentMessage(_ request: Request.Message, _ key: RequestKey) {
        guard messages[key] == nil else {
            messages[key]?.touchedAt = now
            return
        }
        summary.messages["sent", default: 0] += 1
        messages[key] = MessageHistory(
            request: request, key: key, firstSent: now, messageID: request.messageID, touchedAt: now)
        if let messageID = request.messageID { name(key, messageID) }
    }

    mutating func answered(
        _ messageID: MessageID, time: Int64, state: MessageState, to key: RequestKey, _ entry: HistoryEntry
    ) {
        guard let history = messages[key], !history.mayBeLost else { return }
        name(key, messageID, entry)
        if let accepted = messages[key]?.accepted {
            if accepted.time != time {
                report(
                    .messageForged, nil, key.device, "message \(messageID) was sent at two times: it was made twice",
                    entry: entry)
            }
        } else {
            messages[key]?.accepted = (time, now)
        }
        guard state != .sent else { return checkStuck(key, entry) }
        learn(state, time: nil, of: key, entry)
    }

    mutating func received(_ receipt: BellwireReceipt, by device: DeviceAddress, _ entry: HistoryEntry) {
        let name = MessageKey(to: receipt.to, messageID: receipt.messageID)
        guard let key = messageKeys[name], key.device == device else {
            // The response that names the message may come from another coordinator, after the receipt, or be lost.
            let mayBeNamed = messages.contains { key, history in
                key.device == device && history.request.to == receipt.to && history.messageID == nil
            }
            if mayBeNamed {
                earlyReceipts[name] = EarlyReceipt(receipt: receipt, device: device, entry: entry, at: now)
            } else {
                report(.messageForged, nil, device, "a receipt of a message that the device did not send", entry: entry)
            }
            return
        }
        summary.messages["receipts", default: 0] += 1
        learn(receipt.state, time: receipt.time, of: key, entry)
    }

    mutating func received(_ message: BellwireIncomingMessage, by device: DeviceAddress, _ entry: HistoryEntry) {
        let candidates = messages.filter { key, history in
            key.device == message.from && history.request.to == device.userID && history.request.data == message.data
        }
        guard let (key, history) = candidates.first else {
            report(
                .messageForged, nil, device, "message \(message.messageID) was not sent to it by \(message.from)",
                entry: entry)
            return
        }
        if history.request.seq != message.seq || history.request.stream != message.stream {
            report(.messageForged, nil, device, "message \(message.messageID) lost its place", entry: entry)
        }
        name(key, message.messageID, entry)
    }

    mutating func acked(_ messageID: MessageID, by device: DeviceAddress) {
        // The ack of the sending device does not count as delivery of a message that a user sends to itself.
        guard let key = messageKeys[MessageKey(to: device.userID, messageID: messageID)], key.device != device else {
            return
        }
        messages[key]?.acks.append(.init(device: device, at: now))
    }

    /// Records the message id that belongs to a request: each request has a single message.
    private mutating func name(_ key: RequestKey, _ messageID: MessageID, _ entry: HistoryEntry? = nil) {
        guard let history = messages[key] else { return }
        messages[key]?.touchedAt = now
        if let known = history.messageID, known != messageID, !history.mayBeLost {
            report(
                .messageForged, nil, key.device, "request \(key.id) made two messages, \(known) and \(messageID)",
                entry: entry)
            return
        }
        messages[key]?.messageID = messageID
        let name = MessageKey(to: history.request.to, messageID: messageID)
        messageKeys[name] = key
        if let early = earlyReceipts.removeValue(forKey: name) {
            received(early.receipt, by: early.device, early.entry)
        }
    }

    private mutating func learn(_ state: MessageState, time: Int64?, of key: RequestKey, _ entry: HistoryEntry) {
        guard let history = messages[key], !history.mayBeLost else { return }
        messages[key]?.touchedAt = now
        if let known = history.outcome {
            if known.state != state {
                report(
                    .receiptContradicted, nil, key.device,
                    "message \(history.messageID?.string ?? "?") was \(known.state.rawValue), and then \(state.rawValue)",
                    entry: entry)
            }
            return
        }
        summary.messages[state.rawValue, default: 0] += 1
        messages[key]?.outcome = (state, time ?? now, now)
        later(.receipt(key, entry))
    }

    /// Checks that the outcome of a peer message is correct. Runs with a delay, when the faults of that time are known.
    mutating func judgeReceipt(_ key: RequestKey, _ entry: HistoryEntry) {
        guard let history = messages[key], let outcome = history.outcome else { return }
        // The receipt is not checked when the service accepted the message before the first copy that the checker
        // remembers: earlier copies and their acks are forgotten.
        guard (history.accepted?.time ?? outcome.time) + tolerances.clock >= history.firstSent else { return }
        let id = history.messageID?.string ?? "?"
        switch outcome.state {
        case .sent: break
        case .delivered:
            if !history.acks.contains(where: { $0.at <= outcome.at }) {
                report(.receiptWrong, nil, key.device, "message \(id) is delivered, but has no ack", entry: entry)
            }
        case .expired:
            guard let accepted = history.accepted else { return }
            let acked = ackInTime(of: history, before: outcome.time)
            if let acked {
                report(
                    .receiptWrong, nil, key.device, "message \(id) expired, but was acked at \(clock(acked.at))",
                    entry: entry)
            }
            if let expiresAt = history.expiresAt, outcome.time + tolerances.clock < expiresAt {
                report(.receiptWrong, nil, key.device, "message \(id) expired before its time", entry: entry)
            }
            guard acked == nil, outcome.time - accepted.time > tolerances.aftermath,
                !disturbances.touch(accepted.time - tolerances.aftermath, outcome.time)
            else { return }
            let reachable = devices.filter { device, history in
                device.userID == messages[key]?.request.to && device != key.device
                    && history.wasConnected(from: accepted.time, to: outcome.at)
                    && !disturbances.hadLoss(device, accepted.time - tolerances.aftermath, outcome.at)
            }
            if let device = reachable.keys.min() {
                report(
                    .receiptWrong, nil, key.device,
                    "message \(id) expired, but \(device) was connected all the time", entry: entry)
            }
        }
    }

    /// Returns an ack that was sent without any disturbance, over a connection that lasted, so that the ack reached the
    /// service while the message was pending.
    private func ackInTime(of history: MessageHistory, before outcome: Int64) -> MessageHistory.Ack? {
        // The message was pending until the outcome, even if the receipt came later.
        let end = min(outcome, history.expiresAt ?? outcome)
        return history.acks.first { ack in
            let arrived = ack.at + tolerances.response
            return arrived < end && !disturbances.touch(ack.at, end)
                && !(devices[ack.device]?.departed(from: ack.at, to: arrived) ?? false)
        }
    }

    /// Checks a response that says that the message is pending: a message must not be pending longer than its lifetime.
    private mutating func checkStuck(_ key: RequestKey, _ entry: HistoryEntry) {
        guard let history = messages[key], let expiresAt = history.expiresAt else { return }
        let clear = disturbances.clear(after: expiresAt, tolerance: tolerances.aftermath)
        guard clear < .max, now > clear + tolerances.aftermath else { return }
        // If the sender was not connected, the broker may have kept an older response.
        guard devices[key.device]?.wasConnected(from: clear, to: now) ?? false else { return }
        report(
            .receiptMissing, nil, key.device,
            "message \(history.messageID?.string ?? "?") expired at \(clock(expiresAt)) and is still under way",
            entry: entry)
    }

    /// Checks, at rest, that every message that the service accepted has an outcome, of which the sender was told if
    /// connected.
    mutating func settleMessages() {
        for (key, history) in messages.sorted(by: { ($0.key.device, $0.key.id) < ($1.key.device, $1.key.id) }) {
            guard let accepted = history.accepted, !history.mayBeLost, history.outcome == nil,
                let expiresAt = history.expiresAt, expiresAt + tolerances.disturbedTimer < now,
                let device = devices[key.device],
                device.wasConnected(from: accepted.at, to: now),
                !disturbances.hadLoss(key.device, accepted.at, now),
                !disturbances.hadOutage(of: HistoryEntry.broker, accepted.at, now)
            else { continue }
            report(
                .receiptMissing, nil, key.device,
                "message \(history.messageID?.string ?? "?"), sent at \(clock(accepted.time)), got no receipt")
        }
    }

    mutating func forgetMessages(before moment: Int64) {
        messages = messages.filter { $0.value.touchedAt >= moment }
        messageKeys = messageKeys.filter { messages[$0.value] != nil }
        earlyReceipts = earlyReceipts.filter { $0.value.at >= moment }
    }
}
