import SignalingProtocol

/// Signals within a call (docs/protocol.md, section 2, Signals): sent once, received in the order of their `seq`.
extension ClientMachine {
    /// The bounds of signal streams. A signal is useful at once or not at all. Each signal is sent once: the broker
    /// makes the copies, and the receiver recognises a copy by its `seq`.
    static let signalBounds = StreamBounds(beginning: 500, gap: 500, remembered: 256)
    /// The time that a signal waits for a connection, in milliseconds; a later signal is useless.
    static let signalLife: Int64 = 5_000
    /// The bound on signals that may wait for a connection; beyond this bound the oldest signal is dropped.
    static let waitingSignals = 256

    // MARK: Sending

    /// Sends a signal of the app, and sets its `seq` and `stream`.
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

    /// Begins to count again for ended calls. A receiver that followed such a call would take the next signal for a
    /// copy, but no signals are sent in an ended call.
    private mutating func forgetSignalPlaces() {
        nextSignal = nextSignal.filter { entry in calls.contains { $0.callID == entry.key && $0.isLive } }
    }

    /// Publishes the signals that waited for the connection and are still useful.
    mutating func sendWaitingSignals(now: Int64) -> [Action] {
        defer { waitingSignals = [] }
        return waitingSignals.filter { $0.until > now }.map { .publish(.signal($0.signal)) }
    }

    // MARK: Receiving

    mutating func received(_ signal: BellwireSignal, now: Int64) -> [Action] {
        guard let seq = signal.seq else { return [.deliver(.signal(signal))] }
        return signalStreams.received(signal, seq: seq, now: now).map { .deliver(.signal($0)) }
    }

    /// Gives up gaps that have lasted longer than `signalBounds` allows.
    mutating func signalGapsPassed(now: Int64) -> [Action] {
        signalStreams.gapsPassed(now: now).map { .deliver(.signal($0)) }
    }
}
