import SignalingProtocol

/// Signals within a call (docs/protocol.md, section 2, Signals): sent once, received in the order of their `seq`.
extension ClientMachine {
    /// A signal is of use at once or not at all. Each is sent once: a copy is the broker's, and known by its `seq`.
    static let signalBounds = StreamBounds(beginning: 500, gap: 500, remembered: 256)
    /// How long a signal waits for a connection, in milliseconds; it is of no use later.
    static let signalLife: Int64 = 5_000
    /// Signals that wait for a connection.
    static let waitingSignals = 256

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
        guard let seq = signal.seq else { return [.deliver(.signal(signal))] }
        return signalStreams.received(signal, seq: seq, now: now).map { .deliver(.signal($0)) }
    }

    /// Gaps that have been waited for long enough are given up.
    mutating func signalGapsPassed(now: Int64) -> [Action] {
        signalStreams.gapsPassed(now: now).map { .deliver(.signal($0)) }
    }
}
