import SignalingProtocol

/// What has a place in a run of its sender (docs/protocol.md, section 2, Signals and Peer messages).
protocol Placed: Sendable {
    var source: StreamSource { get }
    var seq: Int64? { get }
    var stream: String? { get }
}

/// Who numbers: a device, of signals in each call for itself.
struct StreamSource: Hashable, Sendable {
    /// Nil of what belongs to no call.
    let callID: CallID?
    let from: DeviceAddress
}

extension Signal: Placed {
    var source: StreamSource { StreamSource(callID: callID, from: from) }
}

extension IncomingMessage: Placed {
    var source: StreamSource { StreamSource(callID: nil, from: from) }
}

/// How long a receiver waits for what is missing, in milliseconds, and how much it keeps meanwhile.
struct StreamBounds: Sendable {
    /// How long a stream that is not known waits for what is before its first one.
    let beginning: Int64
    /// How long a gap is waited for.
    let gap: Int64
    /// How many of the last ones of a stream are remembered as delivered, to drop their copies; 0 where copies are dropped before.
    let remembered: Int
    /// What waits in a stream. Beyond it the first gap is given up.
    var held = 64
    /// Streams that are followed.
    var streams = 64
    /// Streams of one source.
    var perSource = 4
}

/// What comes from many senders, that of each in its order.
struct OrderedStreams<Element: Placed>: Sendable {
    private let bounds: StreamBounds
    private var streams: [OrderedStream<Element>] = []

    init(_ bounds: StreamBounds) { self.bounds = bounds }

    /// Streams that are followed.
    var count: Int { streams.count }

    /// When the first gap is given up.
    var deadline: Int64? { streams.compactMap(\.deadline).min() }

    /// Returns what is to be delivered now; also what was held in a stream that is forgotten for this one.
    mutating func received(_ element: Element, seq: Int64, now: Int64) -> [Element] {
        if let place = streams.firstIndex(where: { $0.isOf(element) }) {
            return streams[place].received(element, seq: seq, now: now)
        }
        let forgotten = makeRoom(for: element.source)
        var stream = OrderedStream(of: element, bounds)
        let delivered = stream.received(element, seq: seq, now: now)
        streams.append(stream)
        return forgotten + delivered
    }

    /// Gives up the gaps that have been waited for long enough; at `.max` all of them.
    mutating func gapsPassed(now: Int64) -> [Element] {
        streams.indices.flatMap { streams[$0].gapsPassed(now: now) }
    }

    private mutating func makeRoom(for source: StreamSource) -> [Element] {
        guard let place = displaced(by: source) else { return [] }
        var forgotten = streams.remove(at: place)
        return forgotten.gapsPassed(now: .max)
    }

    /// One of the source's own, when it has as many as it may have; else, when there is no room, one of the user who has
    /// most of them. So nobody displaces the streams of others by beginning ever new ones, on however many devices.
    private func displaced(by source: StreamSource) -> Int? {
        let own = streams.indices.filter { streams[$0].source == source }
        if own.count >= bounds.perSource { return longestSilent(own) }
        guard streams.count >= bounds.streams else { return nil }
        var counts = [source.from.userID: 1]
        for stream in streams { counts[stream.source.from.userID, default: 0] += 1 }
        let most = counts.values.max()
        return longestSilent(streams.indices.filter { counts[streams[$0].source.from.userID] == most })
    }

    private func longestSilent(_ candidates: [Int]) -> Int? {
        candidates.min { streams[$0].lastAt < streams[$1].lastAt }
    }
}

/// One run of a sender, put into order.
struct OrderedStream<Element: Placed>: Sendable {
    let source: StreamSource
    private let name: ByteString?
    private let bounds: StreamBounds
    /// The `seq` that is to come; nil until the stream has begun.
    private var next: Int64?
    /// What came before its turn, and when, by falling `seq`.
    private var held: [(seq: Int64, element: Element, at: Int64)] = []
    /// The last ones that were delivered.
    private var delivered: [Int64] = []
    /// When it was last heard of.
    private(set) var lastAt: Int64 = 0

    init(of first: Element, _ bounds: StreamBounds) {
        source = first.source
        name = first.stream.map(ByteString.init)
        self.bounds = bounds
    }

    func isOf(_ element: Element) -> Bool {
        source == element.source && name == element.stream.map(ByteString.init)
    }

    /// When the first gap is given up.
    var deadline: Int64? {
        held.map(\.at).min().map { $0 + (next == nil ? bounds.beginning : bounds.gap) }
    }

    /// Returns what is to be delivered now.
    mutating func received(_ element: Element, seq: Int64, now: Int64) -> [Element] {
        lastAt = now
        guard !isCopy(seq) else { return [] }
        // A stream begins with 1, or with 0 at clients that count from there.
        if next == nil, seq <= 1 { next = seq }
        if let next, seq < next {
            // Its place was given up: late is better than never.
            note(seq)
            return [element]
        }
        let place = held.firstIndex { $0.seq <= seq } ?? held.count
        held.insert((seq, element, now), at: place)
        if held.count > bounds.held { next = held.last?.seq }
        return drain()
    }

    /// Gives up the gaps before what has waited for too long: everything before it goes with it, in order.
    mutating func gapsPassed(now: Int64) -> [Element] {
        var passed: [Element] = []
        while let deadline, deadline <= now {
            next = held.last?.seq
            passed += drain()
        }
        return passed
    }

    private mutating func drain() -> [Element] {
        var elements: [Element] = []
        while let last = held.last, let next, last.seq <= next {
            held.removeLast()
            note(last.seq)
            self.next = last.seq &+ 1
            elements.append(last.element)
        }
        return elements
    }

    private func isCopy(_ seq: Int64) -> Bool {
        bounds.remembered > 0 && (delivered.contains(seq) || held.contains { $0.seq == seq })
    }

    private mutating func note(_ seq: Int64) {
        guard bounds.remembered > 0 else { return }
        delivered.append(seq)
        if delivered.count > bounds.remembered { delivered.removeFirst() }
    }
}
