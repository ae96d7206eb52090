import SignalingProtocol

/// Messages in the order of their sender (docs/protocol.md, section 2, Peer messages).
extension ClientMachine {
    /// A first send that was lost comes again after 1, 2, 4, 8 s, one that expired never. A stream that is not known may be in
    /// its middle, since the app was restarted; what is before it is then on its way, or never comes. Copies are known by
    /// their `messageID`: whoever gives a `seq` twice has two messages.
    static let messageBounds = StreamBounds(beginning: 1_000, gap: 10_000, remembered: 0)

    // MARK: Received

    /// What is to be told now that a message has come for the first time.
    mutating func inOrder(_ message: IncomingMessage, now: Int64) -> [IncomingMessage] {
        guard message.stream != nil, let seq = message.seq else { return [message] }
        return messageStreams.received(message, seq: seq, now: now)
    }

    /// Gaps that have been waited for long enough are given up.
    mutating func messageGapsPassed(now: Int64) -> [Action] {
        messageStreams.gapsPassed(now: now).map { .deliver(.message($0)) }
    }

    // MARK: Sent

    /// How far the places of a recipient's messages run ahead of the oldest that is unanswered: below what a receiver holds of one
    /// stream, which would give up what it waits for.
    static let window: Int64 = 32

    /// Whether the request may leave: an ordered message waits while the window of its recipient is full.
    func hasPlace(at index: Int) -> Bool {
        guard pending[index].isUnplaced, case .message(let message) = pending[index].request.body else { return true }
        let earlier = pending[..<index].filter { $0.isUnplaced && $0.stage == .queued && $0.isMessage(to: message.to) }
        guard earlier.isEmpty else { return false }
        let unanswered = pending.filter { !$0.isUnplaced && $0.isMessage(to: message.to) }.compactMap(places.seq(of:))
        return unanswered.min().map { places.nextSeq(for: message.to) - $0 < Self.window } ?? true
    }

    /// A request leaves for the first time: an ordered message has its place from now on. So one that never left, because
    /// there was no connection in its time, leaves no gap.
    mutating func takePlace(at index: Int) {
        guard pending[index].isUnplaced else { return }
        pending[index].isUnplaced = false
        pending[index].request = placed(pending[index].request)
    }

    /// The message with its place. When the app sends one again whose receipt has not come, it is that one's.
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

/// Where a message stands among those to its recipient.
struct MessagePlace: Sendable, Equatable {
    let stream: String
    let seq: Int64
}

extension SentMessage {
    /// Nil before it has left.
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

/// The next place of an ordered message, by recipient.
struct MessagePlaces: Sendable {
    /// Recipients whose numbers are remembered. Beyond it those of the one who was not written to for longest are forgotten.
    static let recipients = 256

    private struct Run {
        let stream: String
        var next: Int64 = 1
        /// When it was last used, in places given.
        var usedAt: UInt64
    }

    private let stream: String?
    private var runs: [UserID: Run] = [:]
    /// Recipients forgotten so far. Who is written to again is counted from 1, in a stream of another name.
    private var forgotten = 0
    private var given: UInt64 = 0

    /// Without a name none are given.
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

    /// What the next message to the user has.
    func nextSeq(for user: UserID) -> Int64 { runs[user]?.next ?? 1 }

    /// The place of a message in the recipient's present stream; nil when it stands in none of these.
    func seq(of entry: PendingRequest) -> Int64? {
        guard case .message(let message) = entry.request.body, message.stream == runs[message.to]?.stream else {
            return nil
        }
        return message.seq
    }

    /// The message was refused. When none was sent after it, the next one has its place; else the recipient waits for it
    /// until it gives the gap up.
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
