import Dispatch
import Glibc
import Synchronization
import SystemClocks

/// Who is connected, and until when each may be as it is.
///
/// microhttpd's own timeout is about silence alone: a client that sends or reads a byte now and then would hold a connection for ever.
final class ConnectionTable: Sendable {
    fileprivate struct Entry {
        let descriptor: Int32
        /// By the boot clock. What is to be done by then has not been done.
        var deadline: Int64
        /// A whole request that is not answered.
        var waiting: HTTPExchange?
        /// From a whole request to the end of its response.
        var isServing = false
        /// A response that goes on, for which no deadline counts.
        var stream: HTTPStream?
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

    /// The response is on its way, or goes on. One that would go on ends when the server stops.
    func answer(_ connection: ConnectionHandle, _ stream: HTTPStream?) {
        let isStopping = change(connection) { entry, isStopping in
            entry.waiting = nil
            entry.stream = stream
            if stream != nil { entry.noticeSilence(longestTime) }
            return isStopping
        }
        if isStopping ?? true { stream?.end() }
    }

    /// The request and its response are done, in one way or the other.
    func complete(_ connection: ConnectionHandle, _ outcome: HTTPServerCounts.Outcome) {
        let isStopping = change(connection) { entry, isStopping in
            entry.waiting = nil
            entry.stream = nil
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
        sweepStreams()
        let (now, deadline) = (SystemClock.boot.milliseconds, newDeadline)
        return state.withLock { state in
            var unanswered: [HTTPExchange] = []
            for (connection, var entry) in state.entries where entry.deadline <= now && entry.stream == nil {
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

    /// Ends the streams that were broken off, and those whose client has gone: microhttpd does not look at them while they are silent.
    private func sweepStreams() {
        let lost = state.withLock { state in
            var lost: [HTTPStream] = []
            for (connection, entry) in state.entries {
                guard let stream = entry.stream else { continue }
                let isSlow = stream.isBroken
                guard isSlow || entry.hasHungUp else { continue }
                // Under the lock: as long as the entry is here, the descriptor is nobody else's.
                shutdown(entry.descriptor, Int32(SHUT_RDWR))
                if isSlow { state.counts.late += 1 }
                lost.append(stream)
                state.entries[connection]?.stream = nil
                state.entries[connection]?.deadline = .max
            }
            return lost
        }
        for stream in lost { stream.breakOff() }
    }

    /// From now on no request begins. Returns those that wait, and the responses that go on.
    func stop() -> (waiting: [HTTPExchange], streams: [HTTPStream]) {
        state.withLock { state in
            state.isStopping = true
            return (state.entries.values.compactMap(\.waiting), state.entries.values.compactMap(\.stream))
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

extension ConnectionTable.Entry {
    /// The client has closed its side. One that has only finished sending is gone, too: nobody keeps half a stream open.
    fileprivate var hasHungUp: Bool {
        let signs = Int16(POLLHUP) | Int16(POLLERR) | Self.peerHasClosed
        var waiting = pollfd(fd: descriptor, events: Self.peerHasClosed, revents: 0)
        return poll(&waiting, 1, 0) == 1 && waiting.revents & signs != 0
    }

    /// When nothing of what was sent is taken for so long, the kernel ends the connection: a client that does not read, or has vanished,
    /// says nothing.
    fileprivate func noticeSilence(_ milliseconds: Int64) {
        var limit = UInt32(clamping: milliseconds)
        setsockopt(
            descriptor, Int32(IPPROTO_TCP), Self.userTimeout, &limit, socklen_t(MemoryLayout<UInt32>.size))
    }

    /// Linux's POLLRDHUP and TCP_USER_TIMEOUT, which Glibc's module does not have.
    private static let peerHasClosed: Int16 = 0x2000
    private static let userTimeout: Int32 = 18
}
