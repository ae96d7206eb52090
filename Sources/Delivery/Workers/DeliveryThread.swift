import CallCore
import CallStore
import Glibc
import HTTPSending
import SignalingProtocol
import Support
import Synchronization

/// A worker with its own thread, store and sender, so that deliveries to endpoints and pushes do not slow down calls.
package final class DeliveryThread: Sendable {
    private enum DeliveryThreadBounds {
        static let longestWait: Int64 = 200
        /// The bound of the time in which a stopping worker gives back its claims, in milliseconds.
        static let patience: Int64 = 1_000
    }

    private struct Shared {
        var hints: [RecordID] = []
        var isStopping = false
    }

    /// Belongs to the thread from its start to its end.
    private struct WorkerWithStore: @unchecked Sendable {
        let worker: any DeliveryWorker
        let store: any AnswersLater
    }

    private let shared = Mutex(Shared())
    private let wakeUp: WakeUp
    private let thread: Mutex<pthread_t?>

    /// Returns nil when the system has no thread or descriptor for the worker.
    package init?(_ worker: any DeliveryWorker, _ store: any AnswersLater) {
        guard let wakeUp = WakeUp() else { return nil }
        self.wakeUp = wakeUp
        thread = Mutex(nil)
        let work = WorkerWithStore(worker: worker, store: store)
        guard let started = startThread({ [self] in run(work) }) else {
            return nil
        }
        thread.withLock { $0 = started }
    }

    /// Tells the worker that these records have changed. May be called on any thread; never waits.
    package func committed(_ ids: [RecordID]) {
        let wasEmpty = shared.withLock { shared in
            defer { if shared.hints.count < 4_096 { shared.hints += ids } }
            return shared.hints.isEmpty
        }
        if wasEmpty { wakeUp.wake() }
    }

    /// Gives back the worker's claims, ends the thread, and waits for the thread's end.
    package func stop() {
        shared.withLock { $0.isStopping = true }
        wakeUp.wake()
        thread.withLock { thread in
            if let running = thread { pthread_join(running, nil) }
            thread = nil
        }
    }

    private func run(_ work: WorkerWithStore) {
        var end: Int64?
        while true {
            let now = SystemClock.boot.milliseconds
            let (hints, isStopping) = shared.withLock { shared in
                defer { shared.hints = [] }
                return (shared.hints, shared.isStopping)
            }
            if isStopping, end == nil {
                end = now + DeliveryThreadBounds.patience
                work.worker.stop()
            }
            if !hints.isEmpty { work.worker.committed(hints) }
            work.worker.turn(now)
            if let end, work.worker.hasStopped || now >= end { return }
            wait(work, until: work.worker.nextTurn, now)
        }
    }

    /// Waits for a response of an endpoint or an answer of the store, for a hint, or for the next turn.
    private func wait(_ work: WorkerWithStore, until next: Int64, _ now: Int64) {
        let socket = work.store.socket
        var waiting = [
            pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: work.worker.requests.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: socket?.descriptor ?? -1, events: Int16(POLLIN), revents: 0),
        ]
        if socket?.waitsToSend ?? false { waiting[2].events |= Int16(POLLOUT) }
        var limit = min(max(0, next - now), DeliveryThreadBounds.longestWait)
        if let deadline = socket?.deadline { limit = min(limit, max(0, deadline - now) + 1) }
        _ = poll(&waiting, nfds_t(waiting.count), Int32(limit))
        if waiting[0].revents != 0 { wakeUp.clear() }
        if waiting[2].revents != 0 || socket?.deadline != nil { work.store.receive() }
    }
}
