import Dispatch
import Glibc
import Support
import Synchronization

/// The open connections, each with its deadline.
///
/// microhttpd's own timeout only bounds silence: a client that sends or reads a byte now and then would keep a
/// connection forever.
final class ConnectionTable: Sendable {
    fileprivate struct ConnectionState {
        let descriptor: Int32
        /// The latest end of the connection's present phase, by the boot clock.
        var deadline: Int64
        /// A whole request without a response.
        var waiting: HTTPExchange?
        /// True from a whole request to the end of its response.
        var isServing = false
        /// True from the end of a response to the first line of the next request.
        var isIdle = false
        /// The stream of an unfinished response, which has no deadline.
        var stream: HTTPStream?
    }

    fileprivate struct ConnectionTableState {
        var entries: [ConnectionHandle: ConnectionState] = [:]
        var places: ConnectionPlaces
        var counts = HTTPServerCounts()
        var isStopping = false
    }

    private let state: Mutex<ConnectionTableState>
    private let longestTime: Int64
    private let longestIdle: Int64
    /// Signalled for each finished response while the server stops.
    private let isDone = DispatchSemaphore(value: 0)

    init(_ settings: HTTPServerSettings) {
        state = Mutex(ConnectionTableState(places: ConnectionPlaces(settings)))
        longestTime = settings.longestTime
        longestIdle = settings.longestIdle
    }

    var counts: HTTPServerCounts {
        state.withLock { state in
            var counts = state.counts
            counts.open = state.entries.count
            return counts
        }
    }

    private var newDeadline: Int64 { SystemClock.boot.milliseconds + longestTime }

    // MARK: Callbacks of microhttpd, on its thread

    /// Whether another connection is admitted.
    func admit(_ address: ClientAddress?) -> Bool {
        state.withLock { state in
            let (isAdmitted, givingWay) = state.places.admit(address)
            for connection in givingWay { state.giveWay(connection) }
            if !isAdmitted { state.counts.refused += 1 }
            return isAdmitted
        }
    }

    func opened(_ connection: ConnectionHandle, _ descriptor: Int32) {
        let entry = ConnectionState(descriptor: descriptor, deadline: newDeadline)
        state.withLock { state in
            state.entries[connection] = entry
            state.places.opened(connection)
        }
    }

    /// Called before the descriptor is closed.
    func closed(_ connection: ConnectionHandle) {
        state.withLock { state in
            state.entries[connection] = nil
            state.places.closed(connection)
        }
    }

    /// Notes the first line of a request. On an idle connection the time for the whole request begins.
    func arrives(_ connection: ConnectionHandle) {
        let deadline = newDeadline
        state.withLock { state in
            guard state.entries[connection]?.isIdle ?? false else { return }
            state.entries[connection]?.isIdle = false
            if state.entries[connection]?.deadline != .max { state.entries[connection]?.deadline = deadline }
        }
    }

    /// Called when the request's headers are complete. Returns false when too many connections exist for a request of
    /// this kind.
    func mayServe(_ connection: ConnectionHandle, isVital: Bool) -> Bool {
        state.withLock { state in
            let (mayServe, givingWay) = state.places.mayServe(connection, isVital: isVital)
            if let givingWay { state.giveWay(givingWay) }
            if !mayServe { state.counts.refused += 1 }
            return mayServe
        }
    }

    /// Notes a whole request. Returns false while the server stops, because the request would get no response.
    func begin(_ connection: ConnectionHandle, _ exchange: HTTPExchange) -> Bool {
        state.withLock { $0.places.works(connection) }
        return change(connection) { entry, isStopping in
            entry.isServing = true
            if !isStopping { entry.waiting = exchange }
            return !isStopping
        } ?? false
    }

    /// Notes that the response is on its way, or that its stream has begun. While the server stops, the stream ends at
    /// once.
    func answer(_ connection: ConnectionHandle, _ stream: HTTPStream?) {
        let isStopping = change(connection) { entry, isStopping in
            entry.waiting = nil
            entry.stream = stream
            if stream != nil { entry.noticeSilence(longestTime) }
            return isStopping
        }
        if stream != nil { state.withLock { $0.places.streams(connection) } }
        if isStopping ?? true { stream?.end() }
    }

    /// Notes that a request is answered, or that its connection has ended.
    func complete(_ connection: ConnectionHandle, _ outcome: HTTPServerCounts.Outcome) {
        let idleDeadline = SystemClock.boot.milliseconds + longestIdle
        let isStopping = change(connection) { entry, isStopping in
            entry.waiting = nil
            entry.stream = nil
            entry.isServing = false
            entry.isIdle = true
            if entry.deadline != .max { entry.deadline = idleDeadline }
            return isStopping
        }
        state.withLock { state in
            if let other = state.places.rests(connection) { state.giveWay(other) }
            state.counts.requests[outcome, default: 0] += 1
        }
        if isStopping == true { isDone.signal() }
    }

    /// Changes an entry, and sets a new deadline, because the connection has made progress.
    private func change<Result: Sendable>(
        _ connection: ConnectionHandle, _ change: (inout ConnectionState, _ isStopping: Bool) -> Result
    ) -> Result? {
        let deadline = newDeadline
        return state.withLock { state in
            guard var entry = state.entries[connection] else { return nil }
            defer { state.entries[connection] = entry }
            // A deadline of `.max` means that the connection was shut down and is about to be closed.
            if entry.deadline != .max { entry.deadline = deadline }
            return change(&entry, state.isStopping)
        }
    }

    // MARK: For the other threads

    /// Ends the connections of late clients. Returns the requests without a response in time.
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
                    // An idle client is not late.
                    if !entry.isIdle { state.counts.late += 1 }
                    state.end(connection)
                    continue
                }
                state.entries[connection] = entry
            }
            return unanswered
        }
    }

    /// Ends the streams that were broken off, and the streams whose client has gone, because microhttpd ignores silent
    /// streams. Also ends idle connections whose client has gone, because microhttpd does not always notice a client
    /// that has gone.
    private func sweepStreams() {
        let lost = state.withLock { state in
            var lost: [HTTPStream] = []
            let watched = state.entries.filter { _, entry in
                entry.stream != nil || entry.isIdle && entry.deadline != .max
            }
            let haveHungUp = Self.hungUp(watched.values.map(\.descriptor))
            for (connection, entry) in watched {
                guard let stream = entry.stream else {
                    if haveHungUp.contains(entry.descriptor), entry.hasNothingToRead { state.end(connection) }
                    continue
                }
                let isSlow = stream.isBroken
                guard isSlow || haveHungUp.contains(entry.descriptor) else { continue }
                if isSlow { state.counts.late += 1 }
                // Noted before the shutdown, because the shutdown itself counts as an unacknowledged byte.
                stream.noteArrival()
                lost.append(stream)
                state.entries[connection]?.stream = nil
                state.end(connection)
            }
            return lost
        }
        for stream in lost { stream.breakOff() }
    }

    /// Refuses further requests. Returns the waiting requests and the streams.
    func stop() -> (waiting: [HTTPExchange], streams: [HTTPStream]) {
        state.withLock { state in
            state.isStopping = true
            return (state.entries.values.compactMap(\.waiting), state.entries.values.compactMap(\.stream))
        }
    }

    /// Waits until all responses are sent, at most for the given time.
    func waitUntilDone(milliseconds: Int) {
        let end = DispatchTime.now() + .milliseconds(milliseconds)
        while state.withLock({ $0.entries.values.contains(where: \.isServing) }) {
            guard isDone.wait(timeout: end) == .success else { return }
        }
    }
}

extension ConnectionTable.ConnectionTableState {
    /// Ends a connection at rest in favour of another connection.
    fileprivate mutating func giveWay(_ connection: ConnectionHandle) {
        end(connection)
        counts.gaveWay += 1
    }

    /// Shuts a connection down; microhttpd then closes the connection.
    fileprivate mutating func end(_ connection: ConnectionHandle) {
        guard let descriptor = entries[connection]?.descriptor else { return }
        // Under the lock: while the entry exists, the descriptor belongs to this connection.
        shutdown(descriptor, Int32(SHUT_RDWR))
        entries[connection]?.deadline = .max
        places.leave(connection, isBounded: false)
    }
}

extension ConnectionTable {
    /// Returns the descriptors whose client has closed its side, with a single `poll`. A client that has only finished
    /// sending also counts as gone, because no client keeps half of a stream open.
    fileprivate static func hungUp(_ descriptors: [Int32]) -> Set<Int32> {
        let signs = Int16(POLLHUP) | Int16(POLLERR) | peerHasClosed
        var waiting = descriptors.map { pollfd(fd: $0, events: peerHasClosed, revents: 0) }
        guard poll(&waiting, nfds_t(waiting.count), 0) > 0 else { return [] }
        return Set(waiting.filter { $0.revents & signs != 0 }.map(\.fd))
    }

    /// Linux's POLLRDHUP, which Glibc's module does not declare.
    private static let peerHasClosed: Int16 = 0x2000
}

extension ConnectionTable.ConnectionState {
    /// The client may have sent a last request before it finished sending.
    fileprivate var hasNothingToRead: Bool {
        var byte: UInt8 = 0
        return recv(descriptor, &byte, 1, Int32(MSG_PEEK) | Int32(MSG_DONTWAIT)) <= 0
    }

    /// Makes the kernel end the connection when the client's host acknowledges no sent byte for so long. A client that
    /// does not read, or has vanished, gives no other sign.
    fileprivate func noticeSilence(_ milliseconds: Int64) {
        var limit = UInt32(clamping: milliseconds)
        setsockopt(
            descriptor, Int32(IPPROTO_TCP), Self.userTimeout, &limit, socklen_t(MemoryLayout<UInt32>.size))
    }

    /// Linux's TCP_USER_TIMEOUT, which Glibc's module does not declare.
    private static let userTimeout: Int32 = 18
}
