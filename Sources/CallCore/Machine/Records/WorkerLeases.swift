/// Until when workers are known to live: the rule to which every store is held. What a worker holds is void once its lease is over.
package struct WorkerLeases: Equatable, Sendable {
    private var ends: [WorkerID: Milliseconds] = [:]

    package init() {}

    /// It has taken something.
    package mutating func begin(_ worker: WorkerID, now: Milliseconds) { ends[worker] = now + WorkerLease.life }

    package func lives(_ worker: WorkerID, now: Milliseconds) -> Bool { ends[worker] ?? 0 > now }

    /// False when its lease is over: its claims are void, and it is to go on as another one.
    package mutating func renew(_ worker: WorkerID, now: Milliseconds) -> Bool {
        guard let end = ends[worker] else { return true }
        guard end > now else { return false }
        begin(worker, now: now)
        return true
    }

    /// What the others held was freed.
    package mutating func forgetOthers(now: Milliseconds) { ends = ends.filter { $0.value > now } }
}
