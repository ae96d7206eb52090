internal import BellwireClient
internal import BellwireClientCore
internal import SignalingProtocol

/// The messages on their way, for each peer in the order of `sendMessage`.
///
/// The service keeps no order between messages that are under way together: the receiving client orders them by
/// `stream` and `seq`, and waits for missing messages. So a message that is known to be missing must not stand in a
/// stream that goes on: after a message that no device acknowledged, another stream begins. And no messages are sent
/// behind a message that the peer does not acknowledge: if that message expired, the later messages would wait at the
/// receiver for their turn.
struct Outbox {
    /// A message from the app.
    struct Draft: Equatable {
        let messageID: MessageID
        let to: UserID
        let data: JSONText
        /// The end of the message's time limit, in milliseconds of a clock that never goes back.
        let deadline: Int64
    }

    /// A message to be sent now.
    struct Sending: Equatable {
        let draft: Draft
        /// The time to live in seconds, rounded up.
        let ttl: Int
        let stream: String
        let seq: Int64
    }

    /// The bound on the distance between the newest and the oldest message to a peer that are under way. The bound is
    /// well below the 64 messages that a receiver holds of a stream: with more messages the receiver would give up a
    /// gap.
    static let underWayPerPeer = 32
    /// The number of messages under way to all peers: below the number that the service lets wait for a single sender
    /// (100).
    static let underWay = 64
    /// The bound on messages that wait behind the messages under way.
    static let waiting = 1_024
    /// The time without a receipt after which a peer counts as out of reach, in milliseconds.
    static let patience: Int64 = 1_000
    /// The bound on peers without messages under way whose streams are remembered.
    static let peers = 256

    private var lanes: [UserID: Lane] = [:]
    private var laneCount = 0
    private let makeStream: () -> String

    init(makeStream: @escaping () -> String) { self.makeStream = makeStream }

    /// Adds a message; returns false when too many messages wait already.
    mutating func add(_ draft: Draft) -> Bool {
        guard lanes.values.reduce(0, { $0 + $1.waiting.count }) < Self.waiting else { return false }
        if lanes[draft.to] == nil { forgetIdleLane() }
        laneCount += 1
        lanes[draft.to, default: Lane(stream: makeStream())].add(draft, number: laneCount)
        return true
    }

    /// Returns the messages that can be sent now, in their order.
    mutating func takeNext(now: Int64) -> [Sending] {
        var taken: [Sending] = []
        var room = Self.underWay - lanes.values.reduce(0) { $0 + $1.underWay.count }
        for (peer, lane) in lanes.sorted(by: { $0.value.lastUse < $1.value.lastUse }) where room > 0 {
            var lane = lane
            lane.renewStream(makeStream)
            let sendings = lane.takeNext(now: now, room: room)
            room -= sendings.count
            taken += sendings
            lanes[peer] = lane
        }
        return taken
    }

    /// Whether a message has not been sent yet.
    func isWaiting(_ messageID: MessageID, to peer: UserID) -> Bool {
        lanes[peer]?.waiting.contains { $0.messageID == messageID } ?? false
    }

    /// Ends a message whose outcome is known, or that is given up.
    mutating func settle(_ messageID: MessageID, to peer: UserID, isDelivered: Bool) {
        lanes[peer]?.settle(messageID, isDelivered: isDelivered)
    }

    private mutating func forgetIdleLane() {
        guard lanes.count >= Self.peers else { return }
        let idle = lanes.filter { $0.value.isIdle }.min { $0.value.lastUse < $1.value.lastUse }
        if let idle { lanes[idle.key] = nil }
    }
}

/// The messages to a peer.
private struct Lane {
    struct UnderWay {
        let messageID: MessageID
        let seq: Int64
        let since: Int64
    }

    var waiting: [Outbox.Draft] = []
    /// The messages under way, in the order of `seq`.
    private(set) var underWay: [UnderWay] = []
    private(set) var lastUse = 0
    private var stream: String
    private var nextSeq: Int64 = 1
    /// The highest `seq` that a device of the peer has acknowledged.
    private var delivered: Int64 = 0
    /// The lowest `seq` that no device acknowledged in time.
    private var missing: Int64?

    init(stream: String) { self.stream = stream }

    var isIdle: Bool { waiting.isEmpty && underWay.isEmpty }

    mutating func add(_ draft: Outbox.Draft, number: Int) {
        waiting.append(draft)
        lastUse = number
    }

    mutating func takeNext(now: Int64, room: Int) -> [Outbox.Sending] {
        // Behind a missing message no messages are sent until the messages under way are settled.
        guard missing == nil, now - (underWay.first?.since ?? now) < Outbox.patience else { return [] }
        let count = min(waiting.count, room, Outbox.underWayPerPeer - span)
        let drafts = waiting.prefix(max(0, count))
        waiting.removeFirst(drafts.count)
        return drafts.map { send($0, now: now) }
    }

    /// The number of places from the oldest message under way to the newest sent message. At the receiver the later
    /// messages wait for the oldest, even those with a receipt.
    private var span: Int { underWay.first.map { Int(nextSeq - $0.seq) } ?? 0 }

    private mutating func send(_ draft: Outbox.Draft, now: Int64) -> Outbox.Sending {
        let seq = nextSeq
        nextSeq += 1
        underWay.append(UnderWay(messageID: draft.messageID, seq: seq, since: now))
        let seconds = Int((max(0, draft.deadline - now) + 999) / 1_000)
        let ttl = min(max(seconds, Limits.messageTTL.lowerBound), Limits.messageTTL.upperBound)
        return Outbox.Sending(draft: draft, ttl: ttl, stream: stream, seq: seq)
    }

    mutating func settle(_ messageID: MessageID, isDelivered: Bool) {
        waiting.removeAll { $0.messageID == messageID }
        guard let place = underWay.firstIndex(where: { $0.messageID == messageID }) else { return }
        let seq = underWay.remove(at: place).seq
        if isDelivered { delivered = max(delivered, seq) } else { missing = min(missing ?? seq, seq) }
    }

    /// Begins another stream after a missing message, once no messages are under way. If a later message was delivered,
    /// the receiver already waits for the missing one, and then goes on: another stream would overtake the held
    /// messages.
    mutating func renewStream(_ makeStream: () -> String) {
        guard underWay.isEmpty, let first = missing else { return }
        missing = nil
        guard delivered < first else { return }
        (stream, nextSeq, delivered) = (makeStream(), 1, 0)
    }
}
