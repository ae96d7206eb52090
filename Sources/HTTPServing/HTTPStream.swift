import Synchronization

/// The body of an unfinished response: bytes are sent as they come (`HTTPResponse.stream`). May be used on any thread.
///
/// A client that does not read is disconnected: when more bytes wait than allowed, or when the client's host
/// acknowledges no sent bytes for as long as the server's settings allow.
package final class HTTPStream: Sendable {
    fileprivate enum Phase {
        case open
        /// The waiting bytes are sent, and then the end.
        case ending
        /// No more bytes are sent.
        case broken
        /// The connection has dropped the stream.
        case over
    }

    fileprivate struct HTTPStreamState {
        var phase = Phase.open
        var waiting: [UInt8] = []
        var suspended: ConnectionHandle?
        /// Whether the client's host had acknowledged all sent bytes when the response ended or the connection was shut
        /// down.
        var hadArrived = false
    }

    private let state = Mutex(HTTPStreamState())
    private let mostWaiting: Int
    private let whenOver: @Sendable () -> Void

    /// - Parameters:
    ///   - mostWaiting: the bound of bytes that wait for the client.
    ///   - whenOver: called once, on any thread, when no more bytes can be sent.
    package init(mostWaiting: Int, whenOver: @escaping @Sendable () -> Void = {}) {
        self.mostWaiting = mostWaiting
        self.whenOver = whenOver
    }

    /// Sends bytes. Returns false when no client will read the bytes, because the stream is over, or because the client
    /// is too slow and the stream therefore ends.
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

    /// Sends the waiting bytes, and ends the response.
    package func end() {
        state.withLock { state in
            guard case .open = state.phase else { return }
            state.phase = .ending
            if state.hasArrived { state.hadArrived = true }
            state.resume()
        }
    }

    /// Whether the client's host has acknowledged all sent bytes; for a stream that is over, whether the host had done
    /// so before. A proxy acknowledges in place of the client behind the proxy. False also when this is unknown.
    package var hasArrived: Bool { state.withLock { $0.hasArrived || $0.hadArrived } }

    /// Notes the acknowledged bytes before a connection is shut down whose client has gone.
    func noteArrival() {
        state.withLock { state in if state.hasArrived { state.hadArrived = true } }
    }

    /// Stands, in tests without a connection, for a client that has received the bytes.
    func arrived() { state.withLock { $0.hadArrived = true } }

    /// The bytes that were not sent yet.
    var waitingBytes: [UInt8] { state.withLock(\.waiting) }

    /// Whether all bytes were sent, and the connection waits for more.
    var isSuspended: Bool { state.withLock { $0.suspended != nil } }

    // MARK: For the server

    /// Breaks the stream off, because the client has gone or is too slow.
    func breakOff() { state.withLock { $0.breakOff() } }

    /// Whether the stream was broken off, so that the connection must be closed.
    var isBroken: Bool {
        state.withLock { state in
            switch state.phase {
            case .broken: true
            case .open, .ending, .over: false
            }
        }
    }

    /// The next piece for microhttpd to send.
    enum Piece: Equatable {
        case bytes(Int)
        /// No bytes to send; the connection is suspended until more bytes come.
        case none
        case end
        case broken
    }

    /// Takes the next bytes into microhttpd's buffer. Called by microhttpd's thread.
    func take(into buffer: UnsafeMutableRawBufferPointer, suspending connection: ConnectionHandle) -> Piece {
        state.withLock { state in
            switch state.phase {
            case .broken, .over: return .broken
            case .open where state.waiting.isEmpty:
                // This call is under the lock, so that no thread resumes the connection before the suspension.
                connection.suspend()
                state.suspended = connection
                return .none
            case .ending where state.waiting.isEmpty: return .end
            case .open, .ending: return .bytes(state.take(into: buffer))
            }
        }
    }

    /// Notes that the connection has dropped the stream. Only the first call counts.
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

extension HTTPStream.HTTPStreamState {
    /// Only a suspended connection has handed all bytes to the kernel. Resuming, which allows the connection to close,
    /// happens only under the lock of the state.
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
