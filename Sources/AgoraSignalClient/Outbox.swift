internal import BellwireClient
internal import BellwireClientCore
internal import SignalingProtocol

/// Messages on their way, for each peer in the order of `sendMessage`.
///
/// The service keeps no order between messages that are under way together: the receiving client does, by their `stream` and `seq`, and
/// waits for what is missing. So what is known to be missing must not stand in a stream that goes on: after a message that nobody took
/// another stream begins. And nothing is sent behind a message that the peer does not take: were that to expire, what follows would wait at
/// the receiver for its place.
struct Outbox {
    /// A message that the app hands over.
    struct Draft: Equatable {
        let messageID: MessageID
        let to: UserID
        let data: JSONText
        /// When its time is over, in milliseconds of any clock that never goes back.
        let deadline: Int64
    }

    /// A message to be sent now.
    struct Sending: Equatable {
        let draft: Draft
        /// Seconds, rounded up.
        let ttl: Int
        let stream: String
        let seq: Int64
    }

    /// Messages of one peer from the oldest that is under way. Well below what a receiver holds of one stream (64): beyond it the receiver
    /// would give up what it waits for.
    static let underWayPerPeer = 32
    /// Of all peers: below what the service lets one user have waiting (100).
    static let underWay = 64
    /// Messages that wait behind them.
    static let waiting = 1_024
    /// After so many milliseconds without a receipt a peer counts as one that cannot be reached just now.
    static let patience: Int64 = 1_000
    /// Peers whose streams are remembered while nothing is under way to them.
    static let peers = 256

    private var lanes: [UserID: Lane] = [:]
    private var laneCount = 0
    private let makeStream: () -> String

    init(makeStream: @escaping () -> String) { self.makeStream = makeStream }

    /// False when too many wait already.
    mutating func add(_ draft: Draft) -> Bool {
        guard lanes.values.reduce(0, { $0 + $1.waiting.count }) < Self.waiting else { return false }
        if lanes[draft.to] == nil { forgetIdleLane() }
        laneCount += 1
        lanes[draft.to, default: Lane(stream: makeStream())].add(draft, number: laneCount)
        return true
    }

    /// What can go out now, in its order.
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

    /// A message has not been sent.
    func isWaiting(_ messageID: MessageID, to peer: UserID) -> Bool {
        lanes[peer]?.waiting.contains { $0.messageID == messageID } ?? false
    }

    /// What becomes of a message is known, or it is given up.
    mutating func settle(_ messageID: MessageID, to peer: UserID, isDelivered: Bool) {
        lanes[peer]?.settle(messageID, isDelivered: isDelivered)
    }

    private mutating func forgetIdleLane() {
        guard lanes.count >= Self.peers else { return }
        let idle = lanes.filter { $0.value.isIdle }.min { $0.value.lastUse < $1.value.lastUse }
        if let idle { lanes[idle.key] = nil }
    }
}

/// The messages to one peer.
private struct Lane {
    struct UnderWay {
        let messageID: MessageID
        let seq: Int64
        let since: Int64
    }

    var waiting: [Outbox.Draft] = []
    /// In the order of `seq`.
    private(set) var underWay: [UnderWay] = []
    private(set) var lastUse = 0
    private var stream: String
    private var nextSeq: Int64 = 1
    /// The highest that a device of the peer has.
    private var delivered: Int64 = 0
    /// The lowest that nobody took.
    private var missing: Int64?

    init(stream: String) { self.stream = stream }

    var isIdle: Bool { waiting.isEmpty && underWay.isEmpty }

    mutating func add(_ draft: Outbox.Draft, number: Int) {
        waiting.append(draft)
        lastUse = number
    }

    mutating func takeNext(now: Int64, room: Int) -> [Outbox.Sending] {
        // Behind a message that is missing nothing is sent until those under way with it are settled.
        guard missing == nil, now - (underWay.first?.since ?? now) < Outbox.patience else { return [] }
        let count = min(waiting.count, room, Outbox.underWayPerPeer - span)
        let drafts = waiting.prefix(max(0, count))
        waiting.removeFirst(drafts.count)
        return drafts.map { send($0, now: now) }
    }

    /// From the oldest message under way to the newest that was sent: what came after the oldest waits for it at the receiver, also when
    /// its receipt is there.
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

    /// Once nothing is under way. Where a later message was taken, the receiver waits for the missing one already, and then goes on: another
    /// stream would overtake what it holds.
    mutating func renewStream(_ makeStream: () -> String) {
        guard underWay.isEmpty, let first = missing else { return }
        missing = nil
        guard delivered < first else { return }
        (stream, nextSeq, delivered) = (makeStream(), 1, 0)
    }
}
