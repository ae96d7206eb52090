import SignalingProtocol

/// Peer messages (docs/protocol.md, section 2, Peer messages): each is shown once, those of a stream in its order; each of the
/// own gets one receipt.
extension ClientMachine {
    /// How long after its time to live a message's receipt may come before the service is asked, in milliseconds.
    static let receiptMargin: Int64 = 3_000
    /// How long after its time to live it is still asked; then the app is told that nothing is known. The service remembers
    /// a message for 10 min: later it would take the question for a new message.
    static let receiptPatience: Int64 = 300_000
    /// Ids of messages that were shown. Beyond it the oldest are forgotten: the service sends none for longer than 600 s.
    static let shownMessages = 4_096

    // MARK: Received

    /// It is acked when it comes, also when its turn has not: the sender need not wait for what others are waited for.
    mutating func received(_ message: IncomingMessage, now: Int64) -> [Action] {
        let ack = Action.publish(.ackMessage(message.messageID))
        guard !shown.contains(message.messageID) else { return [ack] }
        remember(message.messageID)
        return [ack] + inOrder(message, now: now).map { .deliver(.message($0)) }
    }

    private mutating func remember(_ messageID: MessageID) {
        shown.insert(messageID)
        shownOrder.append(messageID)
        if shownOrder.count > Self.shownMessages {
            // In larger steps, since an array is moved.
            for old in shownOrder.prefix(Self.shownMessages / 4) { shown.remove(old) }
            shownOrder.removeFirst(Self.shownMessages / 4)
        }
    }

    // MARK: Sent

    /// Follows a message that the app sends. `isUnplaced`: it is given its place when it leaves.
    mutating func follow(_ request: Request, isUnplaced: Bool, now: Int64) {
        guard case .message(let message) = request.body, let messageID = message.messageID,
            !unreceipted.contains(where: { $0.messageID == messageID && $0.to == message.to })
        else { return }
        let ttl = Int64(message.ttl ?? Self.defaultTTL) * 1000
        unreceipted.append(
            SentMessage(
                request: request, messageID: messageID, to: message.to, isUnplaced: isUnplaced, endsAt: now + ttl,
                askAt: now + ttl + Self.receiptMargin))
        // The oldest is given up without a word: requests at once are bounded, receipts come within their time.
        if unreceipted.count > Self.unreceiptedMessages { unreceipted.removeFirst() }
    }

    private static let defaultTTL = 30
    private static let unreceiptedMessages = 256

    mutating func received(_ receipt: Receipt, now: Int64) -> [Action] {
        let place = unreceipted.firstIndex { $0.messageID == receipt.messageID && $0.to == receipt.to }
        // One that comes again, or to an app that was restarted: told only to whom it is news.
        guard let place else { return [] }
        // It may overtake the response, and says more.
        let answer = Answer.message(receipt.messageID, time: receipt.time, state: receipt.state)
        let answered = completed(unreceipted[place].request.id, .answer(answer), now: now)
        unreceipted.removeAll { $0.messageID == receipt.messageID && $0.to == receipt.to }
        return answered + [.deliver(.receipt(receipt))]
    }

    /// A response to `message.send` says what has become of it.
    mutating func learned(_ answer: Answer, to request: Request, now: Int64) -> [Action] {
        guard case .message(let messageID, let time, let state) = answer, case .message(let message) = request.body
        else { return [] }
        guard state != .sent else {
            // It waits: there is nothing to ask before its time is over.
            guard let place = unreceipted.firstIndex(where: { $0.request.id == request.id }) else { return [] }
            unreceipted[place].askAt = max(unreceipted[place].askAt, unreceipted[place].endsAt + Self.receiptMargin)
            return []
        }
        return received(Receipt(messageID: messageID, to: message.to, state: state, time: time), now: now)
    }

    /// The service refused the message: there will be no receipt, and its place is free.
    mutating func unfollow(_ request: Request) {
        unreceipted.removeAll { $0.request.id == request.id }
        if case .message(let message) = request.body { places.takeBack(message) }
    }

    /// On a new connection: the receipt may have come while there was none.
    mutating func askForReceipts(now: Int64) {
        for index in unreceipted.indices { unreceipted[index].askAt = min(unreceipted[index].askAt, now + 1_000) }
    }

    mutating func receiptsDue(now: Int64) -> [Action] {
        guard case .subscribed = link else { return [] }
        var actions: [Action] = []
        for index in unreceipted.indices.reversed() where unreceipted[index].askAt <= now {
            let sent = unreceipted[index]
            // While the request itself is unanswered it is sent again anyway.
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
            unreceipted[index].askAt = now + Self.receiptMargin << min(sent.questions, 4)
            actions.append(.publish(.request(sent.isUnplaced ? placed(sent.request) : sent.request)))
        }
        return actions
    }

    /// An answer to such a question: no request of the app waits for it.
    mutating func answeredAgain(_ id: RequestID, _ answer: Answer, now: Int64) -> [Action] {
        guard let sent = unreceipted.first(where: { $0.request.id == id }) else { return [] }
        return learned(answer, to: sent.request, now: now)
    }
}

/// A message of this device whose receipt has not come.
struct SentMessage: Sendable, Equatable {
    var request: Request
    let messageID: MessageID
    let to: UserID
    /// It is to have a place in the stream, and has not left this device.
    var isUnplaced: Bool
    /// When its time to live is over.
    let endsAt: Int64
    /// When the service is asked what has become of it.
    var askAt: Int64
    var questions = 0
}
