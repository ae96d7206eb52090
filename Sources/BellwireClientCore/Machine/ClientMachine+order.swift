import SignalingProtocol

/// The order of peer messages: the app gets the messages of a stream in the sender's order (docs/protocol.md, section
/// 2, Peer messages).
extension ClientMachine {
    /// The bounds of message streams. A first send that was lost comes again after 1, 2, 4, 8 s; an expired message
    /// never comes. The first message from an unknown stream may be from the middle of the stream, since this app was
    /// restarted: the earlier messages are then on their way, or never come. Copies are recognised by `messageID`: two
    /// messages with the same `seq` are two messages.
    static let messageBounds = StreamBounds(beginning: 1_000, gap: 10_000, remembered: 0)

    // MARK: Received

    /// Returns the messages that the app gets now, after a message has come for the first time.
    mutating func inOrder(_ message: BellwireIncomingMessage, now: Int64) -> [BellwireIncomingMessage] {
        guard message.stream != nil, let seq = message.seq else { return [message] }
        return messageStreams.received(message, seq: seq, now: now)
    }

    /// Gives up gaps that have lasted longer than `messageBounds` allows.
    mutating func messageGapsPassed(now: Int64) -> [Action] {
        messageStreams.gapsPassed(now: now).map { .deliver(.message($0)) }
    }

    // MARK: Sent

    /// How far the `seq` of a recipient's next message may run ahead of the oldest unanswered message: fewer than the
    /// messages that a receiver holds of one stream, since a receiver that holds more gives up the gap.
    static let window: Int64 = 32

    /// Whether the request may leave. An ordered message waits while the window of its recipient is full.
    func hasPlace(at index: Int) -> Bool {
        guard pending[index].isUnplaced, case .message(let message) = pending[index].request.body else { return true }
        let earlier = pending[..<index].filter { $0.isUnplaced && $0.stage == .queued && $0.isMessage(to: message.to) }
        guard earlier.isEmpty else { return false }
        let unanswered = pending.filter { !$0.isUnplaced && $0.isMessage(to: message.to) }.compactMap(places.seq(of:))
        return unanswered.min().map { places.nextSeq(for: message.to) - $0 < Self.window } ?? true
    }

    /// Gives an ordered message its `seq` when the message leaves for the first time. So a message that never left,
    /// because there was no connection in its time, leaves no gap.
    mutating func takePlace(at index: Int) {
        guard pending[index].isUnplaced else { return }
        pending[index].isUnplaced = false
        pending[index].request = placed(pending[index].request)
    }

    /// Returns the message with its `seq`. A message that the app sends again before its receipt has come keeps the
    /// `seq` of the first send.
    mutating func placed(_ request: Request) -> Request {
        guard case .message(let message) = request.body else { return request }
        let sent = unreceipted.firstIndex { $0.messageID == message.messageID && $0.to == message.to }
        guard let place = sent.flatMap({ unreceipted[$0].place }) ?? places.next(for: message.to) else {
            return request
        }
        if let sent {
            unreceipted[sent].isUnplaced = false
            unreceipted[sent].request = unreceipted[sent].request.placed(place)
        }
        return request.placed(place)
    }
}

/// The place of a message in the stream to its recipient.
struct MessagePlace: Sendable, Equatable {
    let stream: String
    let seq: Int64
}

extension SentMessage {
    /// The message's place; nil before the message has left.
    fileprivate var place: MessagePlace? {
        guard !isUnplaced, case .message(let message) = request.body, let stream = message.stream,
            let seq = message.seq
        else { return nil }
        return MessagePlace(stream: stream, seq: seq)
    }
}

extension PendingRequest {
    fileprivate func isMessage(to user: UserID) -> Bool {
        if case .message(let message) = request.body { message.to == user } else { false }
    }
}

extension Request {
    fileprivate func placed(_ place: MessagePlace) -> Request {
        guard case .message(var message) = body else { return self }
        message.stream = place.stream
        message.seq = place.seq
        return Request(id: id, body: .message(message))
    }
}

/// The next `seq` of ordered messages, by recipient.
struct MessagePlaces: Sendable {
    /// The bound on recipients with remembered streams. Beyond that number the recipient with the oldest last message
    /// is forgotten.
    static let recipients = 256

    private struct Run {
        let stream: String
        var next: Int64 = 1
        /// The value of `given` when this stream was last used.
        var usedAt: UInt64
    }

    private let stream: String?
    private var runs: [UserID: Run] = [:]
    /// The number of recipients forgotten so far. Messages to a forgotten recipient begin again with `seq` 1, in a
    /// stream of another name.
    private var forgotten = 0
    private var given: UInt64 = 0

    /// Creates the table; without a stream name no message gets a place.
    init(stream: String?) { self.stream = stream }

    mutating func next(for user: UserID) -> MessagePlace? {
        guard let stream else { return nil }
        given += 1
        if runs[user] == nil, runs.count >= Self.recipients { forgetOne() }
        let name = forgotten == 0 ? stream : "\(stream)-\(forgotten)"
        var run = runs[user] ?? Run(stream: name, usedAt: given)
        defer {
            run.next += 1
            run.usedAt = given
            runs[user] = run
        }
        return MessagePlace(stream: run.stream, seq: run.next)
    }

    /// Returns the `seq` that the next message to the user gets.
    func nextSeq(for user: UserID) -> Int64 { runs[user]?.next ?? 1 }

    /// Returns the message's `seq` in the recipient's present stream; nil for a message of another stream or without a
    /// stream.
    func seq(of entry: PendingRequest) -> Int64? {
        guard case .message(let message) = entry.request.body, message.stream == runs[message.to]?.stream else {
            return nil
        }
        return message.seq
    }

    /// Takes back the `seq` of a refused message. When no message was sent after the refused message, the next message
    /// gets this `seq`; else the recipient waits until the recipient gives up the gap.
    mutating func takeBack(_ message: Request.Message) {
        guard let run = runs[message.to], message.stream == run.stream, message.seq == run.next - 1 else { return }
        runs[message.to]?.next -= 1
    }

    private mutating func forgetOne() {
        guard let oldest = runs.min(by: { $0.value.usedAt < $1.value.usedAt })?.key else { return }
        runs[oldest] = nil
        forgotten += 1
    }
}
