import SignalingProtocol

/// Calls because of which somebody may have to be woken: the rule to which every store is held. `now` is the store's time.
///
/// Each call stands in it once: it waits until it is due, or a worker holds it. What comes while it is held marks it, so that its worker
/// looks again before it lets it go.
package struct PushQueue: Equatable, Sendable {
    private enum Line: Equatable, Sendable {
        case waits(due: Milliseconds)
        case held(by: WorkerID, isMarked: Bool)

        var due: Milliseconds? { if case .waits(let due) = self { due } else { nil } }
        var holder: WorkerID? { if case .held(let worker, _) = self { worker } else { nil } }
    }

    private var lines: [CallID: Line] = [:]
    private var leases = WorkerLeases()

    package init() {}

    /// With the commit that causes it.
    package mutating func enter(_ callID: CallID, now: Milliseconds) {
        switch lines[callID] {
        case .held(let worker, _): lines[callID] = .held(by: worker, isMarked: true)
        case .waits, nil: lines[callID] = .waits(due: now)
        }
    }

    /// Takes calls that are due, the earliest first, and renews the worker's lease.
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

    /// Who holds the call; nil when nobody does whose lease lasts.
    package func holder(of callID: CallID, now: Milliseconds) -> WorkerID? {
        lines[callID]?.holder.flatMap { leases.lives($0, now: now) ? $0 : nil }
    }

    /// False when its lease is over: what it held is void, and it is to go on as another one.
    package mutating func renew(_ worker: WorkerID, now: Milliseconds) -> Bool { leases.renew(worker, now: now) }

    /// Frees what workers hold whose lease is over. Returns how many calls.
    package mutating func recover(now: Milliseconds) -> Int {
        let gone = lines.filter { line in line.value.holder.map { !leases.lives($0, now: now) } ?? false }
        for callID in gone.keys { lines[callID] = .waits(due: now) }
        leases.forgetOthers(now: now)
        return gone.count
    }

    // MARK: Bounds

    /// How many calls wait or are held, and since when the earliest has been due; nil when none is.
    package func count(now: Milliseconds) -> (calls: Int, oldest: Milliseconds?) {
        (lines.count, lines.values.compactMap(\.due).filter { $0 <= now }.min())
    }

    /// Forgets calls that have been due for longer than `PushLimits.missedLife`, and the earliest of those that wait while there are more
    /// than `most`, held ones included. Returns how many.
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

    /// What tells two queues apart, one text for each call.
    package var traits: [String] { lines.map { "push \($0.key) \($0.value)" } }
}
