import HTTPServing
import SignalingProtocol
import Support
import Synchronization
import Tokens

/// Opens streams of events, and knows how many there are. For any thread; who tells what happens takes from it which have come and gone.
final class StreamDesk: Sendable {
    enum Bounds {
        /// Of one user, on this gateway.
        static let perUser = 10
        /// Unless the settings say another number.
        static let streams = 512
        /// Bytes that wait for a client.
        static let waiting = 64 * 1_024
    }

    struct Opened: Sendable {
        let number: Int
        let bearer: Bearer
        let stream: HTTPStream
        /// `Last-Event-ID`: what the client has been told, in the words of an id; nil when it does not say.
        var lastEventID: String?

        var device: DeviceAddress { bearer.zegoCallDevice }
    }

    private struct State {
        var lastNumber = 0
        var streams = 0
        var ofUser: [UserID: Int] = [:]
        /// Not taken yet.
        var opened: [Opened] = []
        var ended: [Int] = []
        var isStopping = false
    }

    private let state = Mutex(State())
    private let wakeUp: WakeUp
    private let most: Int
    var descriptor: Int32 { wakeUp.descriptor }
    var count: Int { state.withLock(\.streams) }

    /// `most`: streams at once.
    init?(most: Int) {
        guard let wakeUp = WakeUp() else { return nil }
        self.most = most
        self.wakeUp = wakeUp
    }

    func open(_ bearer: Bearer, lastEventID: String?) throws(Problem) -> HTTPStream {
        let opened: Result<HTTPStream, Problem> = state.withLock { state in
            guard state.streams < most, !state.isStopping else { return .failure(.overloaded) }
            guard state.ofUser[bearer.token.user, default: 0] < Bounds.perUser else {
                return .failure(.tooManyStreams)
            }
            return .success(open(bearer, lastEventID, &state))
        }
        wakeUp.wake()
        return try opened.get()
    }

    private func open(_ bearer: Bearer, _ lastEventID: String?, _ state: inout State) -> HTTPStream {
        state.lastNumber += 1
        state.streams += 1
        state.ofUser[bearer.token.user, default: 0] += 1
        let (number, user) = (state.lastNumber, bearer.token.user)
        let stream = HTTPStream(mostWaiting: Bounds.waiting) { [weak self] in self?.ended(number, user) }
        state.opened.append(Opened(number: number, bearer: bearer, stream: stream, lastEventID: lastEventID))
        return stream
    }

    private func ended(_ number: Int, _ user: UserID) {
        state.withLock { state in
            state.streams -= 1
            let left = state.ofUser[user, default: 1] - 1
            state.ofUser[user] = left > 0 ? left : nil
            // One that nobody has taken was never there.
            if let place = state.opened.firstIndex(where: { $0.number == number }) {
                state.opened.remove(at: place)
            } else {
                state.ended.append(number)
            }
        }
        wakeUp.wake()
    }

    /// What has come and gone since the last time.
    func take() -> (opened: [Opened], ended: [Int]) {
        wakeUp.clear()
        return state.withLock { state in
            defer { (state.opened, state.ended) = ([], []) }
            return (state.opened, state.ended)
        }
    }

    /// From now on none is opened. Returns those that nobody has taken.
    func stop() -> [Opened] {
        state.withLock { $0.isStopping = true }
        return take().opened
    }
}
