import Dispatch
import Glibc
import Synchronization
import SystemClocks

/// Who is connected, and until when each may be as it is.
///
/// microhttpd's own timeout is about silence alone: a client that sends or reads a byte now and then would hold a connection for ever.
final class ConnectionTable: Sendable {
    private struct Entry {
        let descriptor: Int32
        /// By the boot clock. What is to be done by then has not been done.
        var deadline: Int64
        /// A whole request that is not answered.
        var waiting: HTTPExchange?
        /// From a whole request to the end of its response.
        var isServing = false
    }

    private struct State {
        var entries: [ConnectionHandle: Entry] = [:]
        var counts = HTTPServerCounts()
        var isStopping = false
    }

    private let state = Mutex(State())
    private let mostConnections: Int
    private let longestTime: Int64
    /// Signalled for each response that is done while the server stops.
    private let isDone = DispatchSemaphore(value: 0)

    init(_ settings: HTTPServerSettings) {
        mostConnections = settings.mostConnections
        longestTime = settings.longestTime
    }

    var counts: HTTPServerCounts {
        state.withLock { state in
            var counts = state.counts
            counts.open = state.entries.count
            return counts
        }
    }

    private var newDeadline: Int64 { SystemClock.boot.milliseconds + longestTime }

    // MARK: What microhttpd tells, on its thread

    /// Whether one more connection may be.
    func admit() -> Bool {
        state.withLock { state in
            if state.entries.count < mostConnections { return true }
            state.counts.refused += 1
            return false
        }
    }

    func opened(_ connection: ConnectionHandle, _ descriptor: Int32) {
        let entry = Entry(descriptor: descriptor, deadline: newDeadline)
        state.withLock { $0.entries[connection] = entry }
    }

    /// Before the descriptor is closed.
    func closed(_ connection: ConnectionHandle) { state.withLock { $0.entries[connection] = nil } }

    /// The request is whole. False when the server stops: nobody would answer it.
    func begin(_ connection: ConnectionHandle, _ exchange: HTTPExchange) -> Bool {
        change(connection) { entry, isStopping in
            entry.isServing = true
            if !isStopping { entry.waiting = exchange }
            return !isStopping
        } ?? false
    }

    /// The response is on its way.
    func answer(_ connection: ConnectionHandle) {
        _ = change(connection) { entry, _ in entry.waiting = nil }
    }

    /// The request and its response are done, in one way or the other.
    func complete(_ connection: ConnectionHandle, _ outcome: HTTPServerCounts.Outcome) {
        let isStopping = change(connection) { entry, isStopping in
            entry.waiting = nil
            entry.isServing = false
            return isStopping
        }
        state.withLock { $0.counts.requests[outcome, default: 0] += 1 }
        if isStopping == true { isDone.signal() }
    }

    /// Something has been done in time: there is time for the next again.
    private func change<Result: Sendable>(
        _ connection: ConnectionHandle, _ change: (inout Entry, _ isStopping: Bool) -> Result
    ) -> Result? {
        let deadline = newDeadline
        return state.withLock { state in
            guard var entry = state.entries[connection] else { return nil }
            defer { state.entries[connection] = entry }
            // It has been shut down, and only waits to be closed.
            if entry.deadline != .max { entry.deadline = deadline }
            return change(&entry, state.isStopping)
        }
    }

    // MARK: For the other threads

    /// Ends the connections of those who are late, and returns what nobody has answered in time.
    func sweep() -> [HTTPExchange] {
        let (now, deadline) = (SystemClock.boot.milliseconds, newDeadline)
        return state.withLock { state in
            var unanswered: [HTTPExchange] = []
            for (connection, var entry) in state.entries where entry.deadline <= now {
                if let exchange = entry.waiting {
                    unanswered.append(exchange)
                    entry.waiting = nil
                    entry.deadline = deadline
                } else {
                    // Under the lock: as long as the entry is here, the descriptor is nobody else's.
                    shutdown(entry.descriptor, Int32(SHUT_RDWR))
                    state.counts.late += 1
                    entry.deadline = .max
                }
                state.entries[connection] = entry
            }
            return unanswered
        }
    }

    /// From now on no request begins. Returns those that wait.
    func stop() -> [HTTPExchange] {
        state.withLock { state in
            state.isStopping = true
            return state.entries.values.compactMap(\.waiting)
        }
    }

    /// Waits until all responses are sent, but no longer than this.
    func waitUntilDone(milliseconds: Int) {
        let end = DispatchTime.now() + .milliseconds(milliseconds)
        while state.withLock({ $0.entries.values.contains(where: \.isServing) }) {
            guard isDone.wait(timeout: end) == .success else { return }
        }
    }
}
