import Synchronization

/// The body of a response that has no end yet: bytes go out as they come (`HTTPResponse.stream`). For any thread.
///
/// A client that does not read is dropped: when more would wait for it than may, or when its host takes nothing of what was sent for as
/// long as the server's settings give clients.
package final class HTTPStream: Sendable {
    fileprivate enum Phase {
        case open
        /// What waits is sent, and then the end.
        case ending
        /// Nothing more is sent.
        case broken
        /// The connection has left it.
        case over
    }

    fileprivate struct State {
        var phase = Phase.open
        var waiting: [UInt8] = []
        var suspended: ConnectionHandle?
        /// The client's host has acknowledged all that was sent: it was seen before the stream was over.
        var hadArrived = false
    }

    private let state = Mutex(State())
    private let mostWaiting: Int
    private let whenOver: @Sendable () -> Void

    /// - Parameters:
    ///   - mostWaiting: bytes that wait for the client at most.
    ///   - whenOver: called once, on whatever thread, when nothing can be sent any more.
    package init(mostWaiting: Int, whenOver: @escaping @Sendable () -> Void = {}) {
        self.mostWaiting = mostWaiting
        self.whenOver = whenOver
    }

    /// False when nobody will read this: the stream is over, or its client is too slow, which ends it.
    package func send(_ bytes: [UInt8]) -> Bool {
        state.withLock { state in
            guard case .open = state.phase else { return false }
            guard state.waiting.count + bytes.count <= mostWaiting else {
                state.breakOff()
                return false
            }
            state.waiting += bytes
            state.hadArrived = false
            state.resume()
            return true
        }
    }

    /// Sends what waits, and ends the response.
    package func end() {
        state.withLock { state in
            guard case .open = state.phase else { return }
            state.phase = .ending
            if state.hasArrived { state.hadArrived = true }
            state.resume()
        }
    }

    /// Whether the client's host has acknowledged all that was sent; of a stream that is over, whether it had. A proxy acknowledges for the
    /// client behind it. False also when it cannot be known.
    package var hasArrived: Bool { state.withLock { $0.hasArrived || $0.hadArrived } }

    /// The client has gone, and the connection is about to be shut down.
    func noteArrival() {
        state.withLock { state in if state.hasArrived { state.hadArrived = true } }
    }

    /// For tests without a connection.
    func arrived() { state.withLock { $0.hadArrived = true } }

    /// What nobody has taken yet.
    var waitingBytes: [UInt8] { state.withLock(\.waiting) }

    /// All has been taken, and the connection waits for more.
    var isSuspended: Bool { state.withLock { $0.suspended != nil } }

    // MARK: For the server

    /// The client has gone, or is too slow.
    func breakOff() { state.withLock { $0.breakOff() } }

    /// It was broken off: the connection is to be closed.
    var isBroken: Bool {
        state.withLock { state in
            switch state.phase {
            case .broken: true
            case .open, .ending, .over: false
            }
        }
    }

    /// What microhttpd sends next.
    enum Piece: Equatable {
        case bytes(Int)
        /// The connection is suspended until there is something.
        case none
        case end
        case broken
    }

    /// For microhttpd's thread.
    func take(into buffer: UnsafeMutableRawBufferPointer, suspending connection: ConnectionHandle) -> Piece {
        state.withLock { state in
            switch state.phase {
            case .broken, .over: return .broken
            case .open where state.waiting.isEmpty:
                // Under the lock: nobody can resume it before it is suspended.
                connection.suspend()
                state.suspended = connection
                return .none
            case .ending where state.waiting.isEmpty: return .end
            case .open, .ending: return .bytes(state.take(into: buffer))
            }
        }
    }

    /// The connection has left it. The first call counts.
    func finish() {
        let isFirst = state.withLock { state in
            if case .over = state.phase { return false }
            state.phase = .over
            state.waiting = []
            state.suspended = nil
            return true
        }
        if isFirst { whenOver() }
    }
}

extension HTTPStream.State {
    /// A suspended connection has handed all to the kernel. Nobody resumes it, so that it could be closed, but under the lock of the state.
    fileprivate var hasArrived: Bool { suspended?.hasNothingUnacknowledged ?? false }

    fileprivate mutating func resume() {
        suspended?.resume()
        suspended = nil
    }

    fileprivate mutating func breakOff() {
        switch phase {
        case .open, .ending: phase = .broken
        case .broken, .over: return
        }
        waiting = []
        resume()
    }

    fileprivate mutating func take(into buffer: UnsafeMutableRawBufferPointer) -> Int {
        let count = min(buffer.count, waiting.count)
        buffer.copyBytes(from: waiting[..<count])
        waiting.removeFirst(count)
        return count
    }
}
