/// The model of the leases of workers: the rules that every store must follow. The claims of a worker are void when its
/// lease has expired.
package struct WorkerLeases: Equatable, Sendable {
    private var ends: [WorkerID: Milliseconds] = [:]

    package init() {}

    /// Starts or extends the lease of a worker that has claimed an entry.
    package mutating func begin(_ worker: WorkerID, now: Milliseconds) { ends[worker] = now + WorkerLease.life }

    package func lives(_ worker: WorkerID, now: Milliseconds) -> Bool { ends[worker] ?? 0 > now }

    /// Renews the worker's lease. Returns false when the lease has expired: the worker's claims are void, and the
    /// process must continue as a new worker.
    package mutating func renew(_ worker: WorkerID, now: Milliseconds) -> Bool {
        guard let end = ends[worker] else { return true }
        guard end > now else { return false }
        begin(worker, now: now)
        return true
    }

    /// Forgets the expired leases, after the claims of these workers were freed.
    package mutating func forgetOthers(now: Milliseconds) { ends = ends.filter { $0.value > now } }
}
