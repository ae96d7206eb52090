import CallCore
import CallStore
import Glibc
import HTTPSending
import SignalingProtocol
import Synchronization
import SystemClocks
import SystemThreads
import Webhooks

/// A deliverer with a thread, a store and a sender of its own: it costs calls nothing.
package final class DeliveryThread: Sendable {
    private enum Bounds {
        static let longestWait: Int64 = 200
        /// How long it may take to give back what it has claimed.
        static let patience: Int64 = 1_000
    }

    private struct Shared {
        var hints: [RecordID] = []
        var isStopping = false
    }

    /// Belongs to the thread from its start to its end.
    private struct Work: @unchecked Sendable {
        let deliverer: Deliverer
        let store: any OutboxStore
        let sender: any RequestSender
    }

    private let shared = Mutex(Shared())
    /// What is written into one is read from the other.
    private let wakeUp: (read: Int32, write: Int32)
    private let thread: Mutex<pthread_t?>

    /// Nil when there is no thread or descriptor for it.
    package init?(_ deliverer: Deliverer, _ store: any OutboxStore, _ sender: any RequestSender) {
        var descriptors: [Int32] = [-1, -1]
        let kind = SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue
        guard socketpair(AF_UNIX, Int32(kind), 0, &descriptors) == 0 else { return nil }
        wakeUp = (descriptors[0], descriptors[1])
        thread = Mutex(nil)
        let work = Work(deliverer: deliverer, store: store, sender: sender)
        guard let started = startThread({ [self] in run(work) }) else {
            return nil
        }
        thread.withLock { $0 = started }
    }

    deinit {
        close(wakeUp.read)
        close(wakeUp.write)
    }

    /// These records are owed something new. For any thread; it never waits.
    package func committed(_ ids: [RecordID]) {
        let wasEmpty = shared.withLock { shared in
            defer { if shared.hints.count < 4_096 { shared.hints += ids } }
            return shared.hints.isEmpty
        }
        if wasEmpty { wake() }
    }

    /// Gives back what it has claimed, and ends; waits for that.
    package func stop() {
        shared.withLock { $0.isStopping = true }
        wake()
        thread.withLock { thread in
            if let running = thread { pthread_join(running, nil) }
            thread = nil
        }
    }

    private func wake() {
        // When it is full there is enough to wake by.
        var one: UInt8 = 1
        _ = write(wakeUp.write, &one, 1)
    }

    private func run(_ work: Work) {
        var end: Int64?
        while true {
            let now = SystemClock.boot.milliseconds
            let (hints, isStopping) = shared.withLock { shared in
                defer { shared.hints = [] }
                return (shared.hints, shared.isStopping)
            }
            if isStopping, end == nil {
                end = now + Bounds.patience
                work.deliverer.stop()
            }
            if !hints.isEmpty { work.deliverer.committed(hints) }
            work.deliverer.turn(now)
            if let end, work.deliverer.hasStopped || now >= end { return }
            wait(work, until: work.deliverer.nextTurn, now)
        }
    }

    /// For an answer of an endpoint or of the store, for a hint, or for the next turn.
    private func wait(_ work: Work, until next: Int64, _ now: Int64) {
        let socket = work.store.socket
        var waiting = [
            pollfd(fd: wakeUp.read, events: Int16(POLLIN), revents: 0),
            pollfd(fd: work.sender.descriptor, events: Int16(POLLIN), revents: 0),
            pollfd(fd: socket?.descriptor ?? -1, events: Int16(POLLIN), revents: 0),
        ]
        if socket?.waitsToSend ?? false { waiting[2].events |= Int16(POLLOUT) }
        var limit = min(max(0, next - now), Bounds.longestWait)
        if let deadline = socket?.deadline { limit = min(limit, max(0, deadline - now) + 1) }
        _ = poll(&waiting, nfds_t(waiting.count), Int32(limit))
        var bytes = [UInt8](repeating: 0, count: 64)
        if waiting[0].revents != 0 { _ = read(wakeUp.read, &bytes, bytes.count) }
        if waiting[2].revents != 0 || socket?.deadline != nil { work.store.receive() }
    }
}
