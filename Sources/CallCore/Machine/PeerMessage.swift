import SignalingProtocol

/// A peer message with all its stored data, and the changes that events make (docs/protocol.md, section 2, Peer
/// messages).
///
/// Like `CallMachine`, this type does no I/O and reads no clock. The recipient and the message id identify the message.
package struct PeerMessage: Equatable, Sendable {
    package let messageID: MessageID
    package let to: UserID
    /// The sender's device and request.
    package let origin: RequestKey
    package let createdAt: Milliseconds
    package let expiresAt: Milliseconds
    package let seq: Int64?
    /// The name of the stream that `seq` counts in.
    package let stream: String?
    /// The digest of the sent content, kept longer than `data`.
    package let digest: Int64
    /// The content; nil after the message is finished, because no device gets the message any more.
    package private(set) var data: JSONText?
    package private(set) var state = MessageState.sent
    package private(set) var finishedAt: Milliseconds?
    /// The time of the last served resends.
    package private(set) var servedAt: Milliseconds
    /// The time of the receipt's next resend, until the coordinator knows that the receipt was sent; nil before the
    /// message is finished and after the receipt was sent.
    package private(set) var receiptDue: Milliseconds?
    /// Whether the recipient has blocked the sender. No device gets such a message, and the message expires at its
    /// usual time.
    package private(set) var isWithheld: Bool

    /// The delay, in milliseconds, before another coordinator resends an unconfirmed receipt, because the first
    /// coordinator is gone.
    package static let receiptGrace: Milliseconds = 1_000

    /// The part of the stored form that changes, for restoring a message.
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

    /// Creates a message from `message.send`. `ttl` is in milliseconds.
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

    /// Restores a stored message.
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

    /// Whether the message is neither acknowledged nor expired.
    package var isWaiting: Bool { state == .sent }

    /// The approximate size of the message on the wire and in the store, in bytes.
    package var approximateBytes: Int { Self.bytesBesideData + (data?.bytes.count ?? 0) }

    package static let bytesBesideData = 200

    /// Whether the message stands in the recipient's list of queued messages.
    package var isListed: Bool { isWaiting && !isWithheld }

    /// Returns the message as a device of the recipient gets it; nil when no device gets the message any more.
    package func incoming(now: Milliseconds) -> BellwireIncomingMessage? {
        guard isListed, now < expiresAt, let data else { return nil }
        return BellwireIncomingMessage(
            messageID: messageID, from: origin.device, time: createdAt, seq: seq, stream: stream, data: data)
    }

    /// The receipt for the sender's device; nil until the message is finished.
    package var receipt: BellwireReceipt? {
        guard !isWaiting, let finishedAt else { return nil }
        return BellwireReceipt(messageID: messageID, to: to, state: state, time: finishedAt)
    }

    /// The time of the next call of `deadlineReached`.
    package var nextDeadline: Milliseconds? {
        guard isWaiting else { return receiptDue }
        return min(expiresAt, ResendSchedule.next(after: servedAt, from: createdAt))
    }

    /// Handles an ack of a device of the recipient. Returns whether the message changed; an ack after the message is
    /// finished has no effect.
    package mutating func acknowledged(now: Milliseconds) -> Bool {
        guard isListed else { return false }
        finish(.delivered, at: now)
        return true
    }

    /// Handles a deadline: a resend, the expiry, or an unconfirmed receipt.
    package mutating func deadlineReached(now: Milliseconds) {
        guard let due = nextDeadline, due <= now else { return }
        if isWaiting {
            servedAt = now
            if now >= expiresAt { finish(.expired, at: now) }
        } else {
            receiptDue = now + Self.receiptGrace
        }
    }

    /// Records that the broker has the receipt.
    package mutating func receiptSent() { receiptDue = nil }

    private mutating func finish(_ state: MessageState, at now: Milliseconds) {
        self.state = state
        finishedAt = now
        data = nil
        receiptDue = now + Self.receiptGrace
    }
}
