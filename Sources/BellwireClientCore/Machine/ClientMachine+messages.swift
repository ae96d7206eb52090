import SignalingProtocol

/// Peer messages (docs/protocol.md, section 2, Peer messages). The app gets each message once, the messages of a stream
/// in order, and a single receipt for each message of its own.
extension ClientMachine {
    /// The time after the end of a message's `ttl` until the machine asks the service for the receipt, in milliseconds.
    static let receiptMargin: Int64 = 3_000
    /// The waits between questions about a receipt: 3 s, doubled up to 48 s.
    private static let questions = Backoff(first: receiptMargin, longest: 48_000)
    /// The time after the end of a message's `ttl` during which the machine asks for the receipt, in milliseconds; then
    /// the app gets an error. The service remembers a message for 10 min: after that the question would count as a new
    /// message.
    static let receiptPatience: Int64 = 300_000
    /// The bound on message ids that are remembered as shown; beyond this bound the oldest ids are forgotten. The
    /// service resends a message for 600 s at most.
    static let shownMessages = 4_096

    // MARK: Received

    /// Acks a message on arrival, also before its turn in the stream: the sender need not wait for the earlier
    /// messages.
    mutating func received(_ message: BellwireIncomingMessage, now: Int64) -> [Action] {
        let ack = Action.publish(.ackMessage(message.messageID))
        guard !shown.contains(message.messageID) else { return [ack] }
        remember(message.messageID)
        return [ack] + inOrder(message, now: now).map { .deliver(.message($0)) }
    }

    private mutating func remember(_ messageID: MessageID) {
        shown.insert(messageID)
        shownOrder.append(messageID)
        if shownOrder.count > Self.shownMessages {
            // A quarter at once, since removing the first elements moves the whole array.
            for old in shownOrder.prefix(Self.shownMessages / 4) { shown.remove(old) }
            shownOrder.removeFirst(Self.shownMessages / 4)
        }
    }

    // MARK: Sent

    /// Follows a message that the app sends until its receipt comes. With `isUnplaced` the message gets its `seq` on
    /// leaving this device.
    mutating func follow(_ request: Request, isUnplaced: Bool, now: Int64) {
        guard case .message(let message) = request.body, let messageID = message.messageID,
            !unreceipted.contains(where: { $0.messageID == messageID && $0.to == message.to })
        else { return }
        let ttl = Int64(message.ttl ?? Self.defaultTTL) * 1000
        unreceipted.append(
            SentMessage(
                request: request, messageID: messageID, to: message.to, isUnplaced: isUnplaced, endsAt: now + ttl,
                askAt: now + ttl + Self.receiptMargin))
        // The machine gives up the oldest message silently: the number of requests is bounded, and receipts come within
        // `ttl`.
        if unreceipted.count > Self.unreceiptedMessages { unreceipted.removeFirst() }
    }

    private static let defaultTTL = 30
    private static let unreceiptedMessages = 256

    mutating func received(_ receipt: BellwireReceipt, now: Int64) -> [Action] {
        let place = unreceipted.firstIndex { $0.messageID == receipt.messageID && $0.to == receipt.to }
        // A repeated receipt, or a receipt for a message of an earlier run of the app: the app does not get this
        // receipt.
        guard let place else { return [] }
        // The receipt may overtake the response, and says more.
        let answer = Answer.message(receipt.messageID, time: receipt.time, state: receipt.state)
        let answered = completed(unreceipted[place].request.id, .answer(answer), now: now)
        unreceipted.removeAll { $0.messageID == receipt.messageID && $0.to == receipt.to }
        return answered + [.deliver(.receipt(receipt))]
    }

    /// Takes over the state of a message from the response to `message.send`.
    mutating func learned(_ answer: Answer, to request: Request, now: Int64) -> [Action] {
        guard case .message(let messageID, let time, let state) = answer, case .message(let message) = request.body
        else { return [] }
        guard state != .sent else {
            // The message still waits for the recipient: the machine asks no earlier than the end of its `ttl`.
            guard let place = unreceipted.firstIndex(where: { $0.request.id == request.id }) else { return [] }
            unreceipted[place].askAt = max(unreceipted[place].askAt, unreceipted[place].endsAt + Self.receiptMargin)
            return []
        }
        return received(BellwireReceipt(messageID: messageID, to: message.to, state: state, time: time), now: now)
    }

    /// Forgets a message that the service refused: no receipt will come, and its `seq` is free.
    mutating func unfollow(_ request: Request) {
        unreceipted.removeAll { $0.request.id == request.id }
        if case .message(let message) = request.body { places.takeBack(message) }
    }

    /// Asks for receipts soon, on a new connection: a receipt may have come while there was no connection.
    mutating func askForReceipts(now: Int64) {
        for index in unreceipted.indices { unreceipted[index].askAt = min(unreceipted[index].askAt, now + 1_000) }
    }

    mutating func receiptsDue(now: Int64) -> [Action] {
        guard case .subscribed = link else { return [] }
        var actions: [Action] = []
        for index in unreceipted.indices.reversed() where unreceipted[index].askAt <= now {
            let sent = unreceipted[index]
            // The machine resends an unanswered request in any case.
            guard !pending.contains(where: { $0.request.id == sent.request.id }) else {
                unreceipted[index].askAt = now + Self.receiptMargin
                continue
            }
            guard now < sent.endsAt + Self.receiptPatience else {
                unreceipted.remove(at: index)
                let error = SignalingError(.noResponse, "no receipt of message \(sent.messageID) to \(sent.to)")
                actions.append(.deliver(.error(error)))
                continue
            }
            unreceipted[index].questions += 1
            unreceipted[index].askAt = now + Self.questions.wait(after: unreceipted[index].questions)
            actions.append(.publish(.request(sent.isUnplaced ? placed(sent.request) : sent.request)))
        }
        return actions
    }

    /// Handles the answer to a question about a receipt: no request of the app waits for this answer.
    mutating func answeredAgain(_ id: RequestID, _ answer: Answer, now: Int64) -> [Action] {
        guard let sent = unreceipted.first(where: { $0.request.id == id }) else { return [] }
        return learned(answer, to: sent.request, now: now)
    }
}

/// A message of this device without a receipt.
struct SentMessage: Sendable, Equatable {
    var request: Request
    let messageID: MessageID
    let to: UserID
    /// Whether the message is to get a `seq` in the stream, and has not left this device.
    var isUnplaced: Bool
    /// The end of the message's `ttl`, by this device's clock.
    let endsAt: Int64
    /// The time at which the machine next asks the service for the receipt, by this device's clock.
    var askAt: Int64
    var questions = 0
}
