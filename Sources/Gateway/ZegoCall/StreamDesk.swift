import HTTPServing
import SignalingProtocol
import Support
import Synchronization
import Tokens

/// The bounds of `StreamDesk`.
enum StreamDeskBounds {
    /// The bound of one user's streams on this gateway.
    static let perUser = 10
    /// The bound of all streams, unless the settings name another.
    static let streams = 512
    /// The bound of unsent bytes of a stream.
    static let waiting = 64 * 1_024
}

/// Opens streams of events, and counts them. May be used on any thread; the relay's thread takes new and ended streams
/// from here.
final class StreamDesk: Sendable {
    struct Opened: Sendable {
        let number: Int
        let bearer: Bearer
        let stream: HTTPStream
        /// The header `Last-Event-ID`: the id of the last event that the client received; nil without this header.
        var lastEventID: String?

        var device: DeviceAddress { bearer.zegoCallDevice }
    }

    private struct StreamDeskState {
        var lastNumber = 0
        var streams = 0
        var ofUser: [UserID: Int] = [:]
        /// Opened streams that the relay's thread has not taken yet.
        var opened: [Opened] = []
        var ended: [Int] = []
        var isStopping = false
    }

    private let state = Mutex(StreamDeskState())
    private let wakeUp: WakeUp
    private let most: Int
    var descriptor: Int32 { wakeUp.descriptor }
    var count: Int { state.withLock(\.streams) }

    /// - Parameter most: the bound of open streams.
    init?(most: Int) {
        guard let wakeUp = WakeUp() else { return nil }
        self.most = most
        self.wakeUp = wakeUp
    }

    func open(_ bearer: Bearer, lastEventID: String?) throws(Problem) -> HTTPStream {
        let opened: Result<HTTPStream, Problem> = state.withLock { state in
            guard state.streams < most, !state.isStopping else { return .failure(.overloaded) }
            guard state.ofUser[bearer.token.user, default: 0] < StreamDeskBounds.perUser else {
                return .failure(.tooManyStreams)
            }
            return .success(open(bearer, lastEventID, &state))
        }
        wakeUp.wake()
        return try opened.get()
    }

    private func open(_ bearer: Bearer, _ lastEventID: String?, _ state: inout StreamDeskState) -> HTTPStream {
        state.lastNumber += 1
        state.streams += 1
        state.ofUser[bearer.token.user, default: 0] += 1
        let (number, user) = (state.lastNumber, bearer.token.user)
        let stream = HTTPStream(mostWaiting: StreamDeskBounds.waiting) { [weak self] in self?.ended(number, user) }
        state.opened.append(Opened(number: number, bearer: bearer, stream: stream, lastEventID: lastEventID))
        return stream
    }

    private func ended(_ number: Int, _ user: UserID) {
        state.withLock { state in
            state.streams -= 1
            let left = state.ofUser[user, default: 1] - 1
            state.ofUser[user] = left > 0 ? left : nil
            // The relay's thread has not taken this stream, and need not know of the stream.
            if let place = state.opened.firstIndex(where: { $0.number == number }) {
                state.opened.remove(at: place)
            } else {
                state.ended.append(number)
            }
        }
        wakeUp.wake()
    }

    /// Returns the streams that opened and ended since the last call.
    func take() -> (opened: [Opened], ended: [Int]) {
        wakeUp.clear()
        return state.withLock { state in
            defer { (state.opened, state.ended) = ([], []) }
            return (state.opened, state.ended)
        }
    }

    /// Refuses new streams from now on. Returns the streams that the relay's thread has not taken.
    func stop() -> [Opened] {
        state.withLock { $0.isStopping = true }
        return take().opened
    }
}
