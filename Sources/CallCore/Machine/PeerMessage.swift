import SignalingProtocol

/// A peer message with all that is stored of it, and what happens to it (docs/protocol.md, section 2, Peer messages).
///
/// Like `CallMachine` it does no I/O and reads no clock. It is found by its recipient and its id.
package struct PeerMessage: Equatable, Sendable {
    package let messageID: MessageID
    package let to: UserID
    /// The sender's device and request.
    package let origin: RequestKey
    package let createdAt: Milliseconds
    package let expiresAt: Milliseconds
    package let seq: Int64?
    /// Names the run of `seq`.
    package let stream: String?
    /// Of what was sent, which is known for longer than `data` is kept.
    package let digest: Int64
    /// Nil once the message is finished: nobody is sent it any more.
    package private(set) var data: JSONText?
    package private(set) var state = MessageState.sent
    package private(set) var finishedAt: Milliseconds?
    /// Up to when resends have been served.
    package private(set) var servedAt: Milliseconds
    /// When the receipt is sent again, until it is known to be sent; nil before the end and after the receipt.
    package private(set) var receiptDue: Milliseconds?
    /// The recipient has blocked the sender: nobody is sent it, and in its time it expires.
    package private(set) var isWithheld: Bool

    /// How long a receipt that nobody confirmed as sent waits until it is sent again: its coordinator is gone.
    package static let receiptGrace: Milliseconds = 1_000

    /// The stored form, to be restored.
    package struct Progress: Equatable, Sendable {
        package var data: JSONText?
        package var state: MessageState
        package var finishedAt: Milliseconds?
        package var servedAt: Milliseconds
        package var receiptDue: Milliseconds?
        package var isWithheld: Bool

        package init(
            data: JSONText?, state: MessageState, finishedAt: Milliseconds?, servedAt: Milliseconds,
            receiptDue: Milliseconds?, isWithheld: Bool
        ) {
            self.data = data
            self.state = state
            self.finishedAt = finishedAt
            self.servedAt = servedAt
            self.receiptDue = receiptDue
            self.isWithheld = isWithheld
        }
    }

    /// A device sent `message.send`. `ttl` in milliseconds.
    package init(
        _ request: Request.Message, messageID: MessageID, origin: RequestKey, ttl: Milliseconds,
        isWithheld: Bool,
        now: Milliseconds
    ) {
        self.messageID = messageID
        to = request.to
        self.origin = origin
        createdAt = now
        expiresAt = now + ttl
        seq = request.seq
        stream = request.stream
        digest = request.digest
        data = request.data
        servedAt = now
        self.isWithheld = isWithheld
    }

    /// From the store.
    package init(
        messageID: MessageID, to: UserID, origin: RequestKey, createdAt: Milliseconds, expiresAt: Milliseconds,
        seq: Int64?, stream: String?, digest: Int64, progress: Progress
    ) {
        self.messageID = messageID
        self.to = to
        self.origin = origin
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.seq = seq
        self.stream = stream
        self.digest = digest
        data = progress.data
        state = progress.state
        finishedAt = progress.finishedAt
        servedAt = progress.servedAt
        receiptDue = progress.receiptDue
        isWithheld = progress.isWithheld
    }

    /// Nobody acked it and it has not expired.
    package var isWaiting: Bool { state == .sent }

    /// About how many bytes the message takes when it is sent, or kept.
    package var approximateBytes: Int { Self.bytesBesideData + (data?.bytes.count ?? 0) }

    package static let bytesBesideData = 200

    /// It stands among the messages that wait for the recipient.
    package var isListed: Bool { isWaiting && !isWithheld }

    /// What a device of the recipient is sent; nil once nobody is sent it any more.
    package func incoming(now: Milliseconds) -> IncomingMessage? {
        guard isListed, now < expiresAt, let data else { return nil }
        return IncomingMessage(
            messageID: messageID, from: origin.device, time: createdAt, seq: seq, stream: stream, data: data)
    }

    /// What the sender's device is told; nil until the message is finished.
    package var receipt: Receipt? {
        guard !isWaiting, let finishedAt else { return nil }
        return Receipt(messageID: messageID, to: to, state: state, time: finishedAt)
    }

    /// When `deadlineReached` must be called next.
    package var nextDeadline: Milliseconds? {
        guard isWaiting else { return receiptDue }
        return min(expiresAt, ResendSchedule.next(after: servedAt, from: createdAt))
    }

    /// A device of the recipient acked it. Returns whether that changed anything: a late ack does not.
    package mutating func acknowledged(now: Milliseconds) -> Bool {
        guard isListed else { return false }
        finish(.delivered, at: now)
        return true
    }

    /// Its time has come: a resend, its end, or a receipt that nobody confirmed.
    package mutating func deadlineReached(now: Milliseconds) {
        guard let due = nextDeadline, due <= now else { return }
        if isWaiting {
            servedAt = now
            if now >= expiresAt { finish(.expired, at: now) }
        } else {
            receiptDue = now + Self.receiptGrace
        }
    }

    /// The broker has the receipt.
    package mutating func receiptSent() { receiptDue = nil }

    private mutating func finish(_ state: MessageState, at now: Milliseconds) {
        self.state = state
        finishedAt = now
        data = nil
        receiptDue = now + Self.receiptGrace
    }
}
