import SignalingProtocol

/// The model of the queue of calls that may need a push: the rules that every store must follow. `now` is the store's
/// time.
///
/// Each call stands in the queue at most once, and either waits until it is due or is claimed by a worker. A commit
/// during the claim marks the call, so that the worker looks again before the claim ends.
package struct PushQueue: Equatable, Sendable {
    private enum PushLine: Equatable, Sendable {
        case waits(due: Milliseconds)
        case held(by: WorkerID, isMarked: Bool)

        var due: Milliseconds? { if case .waits(let due) = self { due } else { nil } }
        var holder: WorkerID? { if case .held(let worker, _) = self { worker } else { nil } }
    }

    private var lines: [CallID: PushLine] = [:]
    private var leases = WorkerLeases()

    package init() {}

    /// Enters a call together with the commit that causes the pushes.
    package mutating func enter(_ callID: CallID, now: Milliseconds) {
        switch lines[callID] {
        case .held(let worker, _): lines[callID] = .held(by: worker, isMarked: true)
        case .waits, nil: lines[callID] = .waits(due: now)
        }
    }

    /// Claims due calls for the worker, the earliest first, and renews the worker's lease.
    package mutating func take(by worker: WorkerID, limit: Int, now: Milliseconds) -> [CallID] {
        let taken = Array(waiting.prefix { $0.due <= now }.prefix(limit).map(\.callID))
        if !taken.isEmpty { leases.begin(worker, now: now) }
        for callID in taken { lines[callID] = .held(by: worker, isMarked: false) }
        return taken
    }

    package mutating func settle(_ settlement: PushSettlement, by worker: WorkerID, now: Milliseconds) -> PushSettled {
        guard case .held(worker, let isMarked)? = lines[settlement.callID], leases.lives(worker, now: now) else {
            return .void
        }
        if isMarked {
            lines[settlement.callID] = .held(by: worker, isMarked: false)
            return .again
        }
        lines[settlement.callID] = settlement.again.map { .waits(due: now + $0) }
        return .done
    }

    // MARK: Workers

    /// Returns the worker that has claimed the call; nil without a worker whose lease lasts.
    package func holder(of callID: CallID, now: Milliseconds) -> WorkerID? {
        lines[callID]?.holder.flatMap { leases.lives($0, now: now) ? $0 : nil }
    }

    /// Renews the worker's lease. Returns false when the lease has expired: the worker's claims are void, and the
    /// process must continue as a new worker.
    package mutating func renew(_ worker: WorkerID, now: Milliseconds) -> Bool { leases.renew(worker, now: now) }

    /// Frees the calls of workers whose lease has expired. Returns the number of freed calls.
    package mutating func recover(now: Milliseconds) -> Int {
        let gone = lines.filter { line in line.value.holder.map { !leases.lives($0, now: now) } ?? false }
        for callID in gone.keys { lines[callID] = .waits(due: now) }
        leases.forgetOthers(now: now)
        return gone.count
    }

    // MARK: Bounds

    /// Returns the number of queued and claimed calls, and since when the earliest queued call has been due; nil when
    /// no queued call is due.
    package func count(now: Milliseconds) -> (calls: Int, oldest: Milliseconds?) {
        (lines.count, lines.values.compactMap(\.due).filter { $0 <= now }.min())
    }

    /// Removes calls that have been due for longer than `PushLimits.missedLife`, and the earliest queued calls while
    /// the queue holds more than `most` calls, including claimed calls. Returns the number of removed calls.
    package mutating func bound(most: Int, now: Milliseconds) -> Int {
        let before = lines.count
        for (callID, due) in waiting where due + PushLimits.missedLife <= now || lines.count > most {
            lines[callID] = nil
        }
        return before - lines.count
    }

    private var waiting: [(callID: CallID, due: Milliseconds)] {
        lines.compactMap { callID, line in line.due.map { (callID, $0) } }.sorted { ($0.1, $0.0) < ($1.1, $1.0) }
    }

    /// The content of the queue for comparison, with a text for each call.
    package var traits: [String] { lines.map { "push \($0.key) \($0.value)" } }
}
