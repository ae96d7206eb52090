import Glibc
import Synchronization

/// What callers and the sender's thread hand each other.
final class SenderMailbox: Sendable {
    private struct State {
        var posted: [PostedRequest] = []
        var answers: [HTTPAnswer] = []
        /// Requests without an answer.
        var open = 0
        var inFlight = 0
        var isStopping = false
    }

    private let state = Mutex(State())
    private let mostOpen: Int
    /// Holds one byte while there are answers to be taken, and none otherwise.
    private let signal: (read: Int32, write: Int32)

    /// Readable while there are answers.
    var descriptor: Int32 { signal.read }
    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// Nil when there are no descriptors left.
    init?(mostOpen: Int) {
        var descriptors: [Int32] = [-1, -1]
        let kind = SOCK_STREAM.rawValue | SOCK_NONBLOCK.rawValue | SOCK_CLOEXEC.rawValue
        guard socketpair(AF_UNIX, Int32(kind), 0, &descriptors) == 0 else { return nil }
        signal = (descriptors[0], descriptors[1])
        self.mostOpen = mostOpen
    }

    deinit {
        close(signal.read)
        close(signal.write)
    }

    // MARK: For callers

    enum Receipt {
        /// The thread must be woken.
        case first
        /// It has others to take already.
        case further
        case full
        case stopping
    }

    func post(_ request: PostedRequest) -> Receipt {
        state.withLock { state in
            guard !state.isStopping else { return .stopping }
            guard state.open < mostOpen else { return .full }
            state.open += 1
            state.posted.append(request)
            return state.posted.count == 1 ? .first : .further
        }
    }

    func takeAnswers() -> [HTTPAnswer] {
        state.withLock { state in
            guard !state.answers.isEmpty else { return [] }
            var byte: UInt8 = 0
            _ = read(signal.read, &byte, 1)
            defer { state.answers = [] }
            return state.answers
        }
    }

    func stop() { state.withLock { $0.isStopping = true } }

    var counts: (inFlight: Int, waiting: Int) {
        state.withLock { ($0.inFlight, $0.open - $0.inFlight) }
    }

    // MARK: For the thread

    func takePosted() -> [PostedRequest] {
        state.withLock { state in
            defer { state.posted = [] }
            return state.posted
        }
    }

    /// Answers to requests that were posted.
    func deliver(_ answers: [HTTPAnswer], inFlight: Int) {
        state.withLock { state in
            state.open -= answers.count
            state.inFlight = inFlight
            append(answers, to: &state)
        }
    }

    /// An answer to a request that was not taken.
    func turnDown(_ answer: HTTPAnswer) {
        state.withLock { append([answer], to: &$0) }
    }

    private func append(_ answers: [HTTPAnswer], to state: inout State) {
        if state.answers.isEmpty, !answers.isEmpty {
            var byte: UInt8 = 1
            _ = write(signal.write, &byte, 1)
        }
        state.answers += answers
    }
}
