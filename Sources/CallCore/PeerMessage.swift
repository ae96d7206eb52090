import SignalingProtocol

/// A peer message with all that is stored of it, and what happens to it (docs/protocol.md, section 2, Peer messages).
///
/// Like `CallMachine` it does no I/O and reads no clock. It is found by its recipient and its id.
public struct PeerMessage: Equatable, Sendable {
    public let messageID: MessageID
    public let to: UserID
    /// The sender's device and request.
    public let origin: RequestKey
    public let createdAt: Milliseconds
    public let expiresAt: Milliseconds
    public let seq: Int64?
    /// Nil once the message is finished: nobody is sent it any more.
    public private(set) var data: JSONText?
    public private(set) var state = MessageState.sent
    public private(set) var finishedAt: Milliseconds?
    /// Up to when resends have been served.
    public private(set) var servedAt: Milliseconds
    /// When the receipt is sent again, until it is known to be sent; nil before the end and after the receipt.
    public private(set) var receiptDue: Milliseconds?
    /// The recipient has blocked the sender: nobody is sent it, and in its time it expires.
    public private(set) var isWithheld: Bool

    /// How long a receipt that nobody confirmed as sent waits until it is sent again: its coordinator is gone.
    public static let receiptGrace: Milliseconds = 1_000

    /// The stored form, to be restored.
    public struct Progress: Equatable, Sendable {
        public var data: JSONText?
        public var state: MessageState
        public var finishedAt: Milliseconds?
        public var servedAt: Milliseconds
        public var receiptDue: Milliseconds?
        public var isWithheld: Bool

        public init(
            data: JSONText?, state: MessageState, finishedAt: Milliseconds?, servedAt: Milliseconds,
            receiptDue: Milliseconds?, isWithheld: Bool = false
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
    public init(
        _ request: Request.Message, messageID: MessageID, origin: RequestKey, ttl: Milliseconds,
        isWithheld: Bool = false,
        now: Milliseconds
    ) {
        self.messageID = messageID
        to = request.to
        self.origin = origin
        createdAt = now
        expiresAt = now + ttl
        seq = request.seq
        data = request.data
        servedAt = now
        self.isWithheld = isWithheld
    }

    /// From the store.
    public init(
        messageID: MessageID, to: UserID, origin: RequestKey, createdAt: Milliseconds, expiresAt: Milliseconds,
        seq: Int64?, progress: Progress
    ) {
        self.messageID = messageID
        self.to = to
        self.origin = origin
        self.createdAt = createdAt
        self.expiresAt = expiresAt
        self.seq = seq
        data = progress.data
        state = progress.state
        finishedAt = progress.finishedAt
        servedAt = progress.servedAt
        receiptDue = progress.receiptDue
        isWithheld = progress.isWithheld
    }

    /// Nobody acked it and it has not expired.
    public var isWaiting: Bool { state == .sent }

    /// It stands among the messages that wait for the recipient.
    public var isListed: Bool { isWaiting && !isWithheld }

    /// What a device of the recipient is sent; nil once nobody is sent it any more.
    public func incoming(now: Milliseconds) -> IncomingMessage? {
        guard isListed, now < expiresAt, let data else { return nil }
        return IncomingMessage(messageID: messageID, from: origin.device, time: createdAt, seq: seq, data: data)
    }

    /// What the sender's device is told; nil until the message is finished.
    public var receipt: Receipt? {
        guard !isWaiting, let finishedAt else { return nil }
        return Receipt(messageID: messageID, to: to, state: state, time: finishedAt)
    }

    /// When `deadlineReached` must be called next.
    public var nextDeadline: Milliseconds? {
        guard isWaiting else { return receiptDue }
        return min(expiresAt, ResendSchedule.next(after: servedAt, from: createdAt))
    }

    /// A device of the recipient acked it. Returns whether that changed anything: a late ack does not.
    public mutating func acknowledged(now: Milliseconds) -> Bool {
        guard isListed else { return false }
        finish(.delivered, at: now)
        return true
    }

    /// Its time has come: a resend, its end, or a receipt that nobody confirmed.
    public mutating func deadlineReached(now: Milliseconds) {
        guard let due = nextDeadline, due <= now else { return }
        if isWaiting {
            servedAt = now
            if now >= expiresAt { finish(.expired, at: now) }
        } else {
            receiptDue = now + Self.receiptGrace
        }
    }

    /// The broker has the receipt.
    public mutating func receiptSent() { receiptDue = nil }

    private mutating func finish(_ state: MessageState, at now: Milliseconds) {
        self.state = state
        finishedAt = now
        data = nil
        receiptDue = now + Self.receiptGrace
    }
}
