import SignalingProtocol

/// A signal or message with a `seq` in a stream of its sender (docs/protocol.md, section 2, Signals and Peer messages).
protocol Placed: Sendable {
    var source: StreamSource { get }
    var seq: Int64? { get }
    var stream: String? { get }
}

/// The sender that numbers a stream: a device, and for signals a device in a certain call.
struct StreamSource: Hashable, Sendable {
    /// The call of a signal; nil for a peer message.
    let callID: CallID?
    let from: DeviceAddress
}

extension BellwireSignal: Placed {
    var source: StreamSource { StreamSource(callID: callID, from: from) }
}

extension BellwireIncomingMessage: Placed {
    var source: StreamSource { StreamSource(callID: nil, from: from) }
}

/// How long a receiver waits for missing elements, in milliseconds, and how many elements a receiver keeps meanwhile.
struct StreamBounds: Sendable {
    /// How long the elements of a stream wait for the stream's first element (number 0 or 1).
    let beginning: Int64
    /// How long a gap is waited for.
    let gap: Int64
    /// The number of delivered elements of a stream that are remembered, to drop their copies; 0 where the caller drops
    /// copies.
    let remembered: Int
    /// The bound on elements that wait in a stream. Beyond that number the first gap is given up.
    var held = 64
    /// The bound on streams that are followed.
    var streams = 64
    /// The bound on followed streams of a single source.
    var perSource = 4
}

/// The streams of many senders, each in its order.
struct OrderedStreams<Element: Placed>: Sendable {
    private let bounds: StreamBounds
    private var streams: [OrderedStream<Element>] = []

    init(_ bounds: StreamBounds) { self.bounds = bounds }

    /// The number of streams that are followed.
    var count: Int { streams.count }

    /// The time at which the next gap is given up.
    var deadline: Int64? { streams.compactMap(\.deadline).min() }

    /// Returns the elements to deliver now, including the held elements of a stream that is forgotten to make room.
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

    /// Gives up the gaps that are due by `now`; all gaps when `now` is `.max`.
    mutating func gapsPassed(now: Int64) -> [Element] {
        streams.indices.flatMap { streams[$0].gapsPassed(now: now) }
    }

    private mutating func makeRoom(for source: StreamSource) -> [Element] {
        guard let place = displaced(by: source) else { return [] }
        var forgotten = streams.remove(at: place)
        return forgotten.gapsPassed(now: .max)
    }

    /// Returns the index of the stream to forget: a stream of the same source when the source has its full number of
    /// streams; else, when there is no room, a stream of the user with the most streams. So no user displaces the
    /// streams of others by beginning ever new streams, on however many devices.
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

/// A single stream of a sender, put into order.
struct OrderedStream<Element: Placed>: Sendable {
    let source: StreamSource
    private let name: ByteString?
    private let bounds: StreamBounds
    /// The next `seq` to deliver; nil until the stream has begun.
    private var next: Int64?
    /// The elements that came before their turn, with the times of their arrival, by falling `seq`.
    private var held: [(seq: Int64, element: Element, at: Int64)] = []
    /// The `seq` of the elements that were delivered last.
    private var delivered: [Int64] = []
    /// The time at which an element of the stream last came.
    private(set) var lastAt: Int64 = 0

    init(of first: Element, _ bounds: StreamBounds) {
        source = first.source
        name = first.stream.map(ByteString.init)
        self.bounds = bounds
    }

    func isOf(_ element: Element) -> Bool {
        source == element.source && name == element.stream.map(ByteString.init)
    }

    /// The time at which the first gap is given up.
    var deadline: Int64? {
        held.map(\.at).min().map { $0 + (next == nil ? bounds.beginning : bounds.gap) }
    }

    /// Returns the elements to deliver now.
    mutating func received(_ element: Element, seq: Int64, now: Int64) -> [Element] {
        lastAt = now
        guard !isCopy(seq) else { return [] }
        // A stream begins with 1, or with 0 at clients that count from 0.
        if next == nil, seq <= 1 { next = seq }
        if let next, seq < next {
            // The gap at this place was given up: a late delivery is better than none.
            note(seq)
            return [element]
        }
        let place = held.firstIndex { $0.seq <= seq } ?? held.count
        held.insert((seq, element, now), at: place)
        if held.count > bounds.held { next = held.last?.seq }
        return drain()
    }

    /// Gives up the gaps before an element that has waited for too long. All elements before that element are delivered
    /// first, in order.
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
