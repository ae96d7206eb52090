import SignalingProtocol

/// Signals within a call (docs/protocol.md, section 2, Signals): sent once, received in the order of their `seq`.
extension ClientMachine {
    /// How long a signal waits for one before it, in milliseconds.
    static let signalGap: Int64 = 500
    /// How long a signal waits for a connection, in milliseconds; it is of no use later.
    static let signalLife: Int64 = 5_000
    /// Signals that wait for a connection.
    static let waitingSignals = 256
    /// Signals of a stream that wait for one before them.
    static let heldSignals = 64
    /// Signals of a stream that are remembered as delivered.
    static let deliveredSignals = 256
    /// Streams that are followed; the one not heard of for longest is forgotten.
    static let signalStreams = 64
    /// Of one sender in one call: nobody can displace the streams of others by beginning ever new ones.
    static let streamsPerSender = 4

    // MARK: Sending

    /// The app sends a signal. Its place in the stream of this device is given here.
    package mutating func send(_ signal: Request.Signal, now: Int64) -> [Action] {
        var signal = signal
        let seq = nextSignal[signal.callID] ?? 1
        if nextSignal.count >= configuration.knownCalls, nextSignal[signal.callID] == nil { forgetSignalPlaces() }
        nextSignal[signal.callID] = seq + 1
        signal.seq = seq
        signal.stream = configuration.signalStream
        guard case .subscribed = link else {
            if waitingSignals.count == Self.waitingSignals { waitingSignals.removeFirst() }
            waitingSignals.append((signal, now + Self.signalLife))
            return []
        }
        return [.publish(.signal(signal))]
    }

    /// Counting begins again for calls that are over. A receiver that followed one takes what comes for duplicates, but
    /// in a call that is over nothing comes.
    private mutating func forgetSignalPlaces() {
        nextSignal = nextSignal.filter { entry in calls.contains { $0.callID == entry.key && $0.isLive } }
    }

    /// What waited for the connection and is still of use.
    mutating func sendWaitingSignals(now: Int64) -> [Action] {
        defer { waitingSignals = [] }
        return waitingSignals.filter { $0.until > now }.map { .publish(.signal($0.signal)) }
    }

    // MARK: Receiving

    mutating func received(_ signal: Signal, now: Int64) -> [Action] {
        guard signal.seq != nil else { return [.deliver(.signal(signal))] }
        var signals: [Signal] = []
        let place = streams.firstIndex { $0.isOf(signal) } ?? follow(signal, now: now, &signals)
        streams[place].lastAt = now
        signals += streams[place].received(signal, now: now)
        return signals.map { .deliver(.signal($0)) }
    }

    /// Begins to follow a stream. What the one held that is forgotten for it is delivered.
    private mutating func follow(_ signal: Signal, now: Int64, _ signals: inout [Signal]) -> Int {
        let own = streams.indices.filter { streams[$0].isOfSender(of: signal) }
        let candidates = own.count >= Self.streamsPerSender ? own : Array(streams.indices)
        if own.count >= Self.streamsPerSender || streams.count >= Self.signalStreams,
            let oldest = candidates.min(by: { streams[$0].lastAt < streams[$1].lastAt })
        {
            var forgotten = streams.remove(at: oldest)
            signals += forgotten.gapsPassed(now: .max)
        }
        streams.append(SignalStream(signal, now: now))
        return streams.count - 1
    }

    /// Gaps that have been waited for long enough are given up.
    mutating func signalGapsPassed(now: Int64) -> [Action] {
        streams.indices.flatMap { streams[$0].gapsPassed(now: now) }.map { .deliver(.signal($0)) }
    }
}

/// The signals of one sender in one call, put into order.
struct SignalStream: Sendable, Equatable {
    private let callID: CallID
    private let from: DeviceAddress
    private let name: ByteString?
    /// The `seq` that is to come; nil until the stream has begun.
    private var next: Int64?
    /// What came before its turn, by falling `seq`.
    private var held: [(seq: Int64, signal: Signal, until: Int64)] = []
    /// The last ones that were delivered.
    private var delivered: [Int64] = []
    var lastAt: Int64

    static func == (lhs: SignalStream, rhs: SignalStream) -> Bool {
        lhs.callID == rhs.callID && lhs.from == rhs.from && lhs.name == rhs.name && lhs.next == rhs.next
            && lhs.held.elementsEqual(rhs.held) { $0 == $1 } && lhs.delivered == rhs.delivered
            && lhs.lastAt == rhs.lastAt
    }

    init(_ signal: Signal, now: Int64) {
        callID = signal.callID
        from = signal.from
        name = signal.stream.map(ByteString.init)
        lastAt = now
    }

    func isOf(_ signal: Signal) -> Bool {
        callID == signal.callID && from == signal.from && name == signal.stream.map(ByteString.init)
    }

    func isOfSender(of signal: Signal) -> Bool { callID == signal.callID && from == signal.from }

    /// When the first gap is given up.
    var deadline: Int64? { held.map(\.until).min() }

    /// Returns what is to be delivered now.
    mutating func received(_ signal: Signal, now: Int64) -> [Signal] {
        guard let seq = signal.seq, !delivered.contains(seq), !held.contains(where: { $0.seq == seq }) else {
            return []
        }
        // A stream begins with 1, or with 0 at clients that count from there.
        if next == nil, seq <= 1 { next = seq }
        if let next, seq < next {
            // Its place was given up: late is better than never.
            note(seq)
            return [signal]
        }
        let place = held.firstIndex { $0.seq < seq } ?? held.count
        held.insert((seq, signal, now + ClientMachine.signalGap), at: place)
        if held.count > ClientMachine.heldSignals { next = held.last?.seq }
        return drain()
    }

    /// Gives up the gap before what has waited for too long.
    mutating func gapsPassed(now: Int64) -> [Signal] {
        var signals: [Signal] = []
        while let due = held.filter({ $0.until <= now }).map(\.seq).max(), let first = held.last {
            // Everything before the one that is due goes with it, in order.
            next = first.seq
            signals += drain()
            guard held.contains(where: { $0.seq <= due }) else { continue }
        }
        return signals
    }

    private mutating func drain() -> [Signal] {
        var signals: [Signal] = []
        while let last = held.last, last.seq == next {
            held.removeLast()
            note(last.seq)
            next = last.seq &+ 1
            signals.append(last.signal)
        }
        return signals
    }

    private mutating func note(_ seq: Int64) {
        delivered.append(seq)
        if delivered.count > ClientMachine.deliveredSignals { delivered.removeFirst() }
    }
}
