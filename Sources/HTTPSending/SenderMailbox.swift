import Support
import Synchronization

/// The exchange between callers and the sender's thread.
final class SenderMailbox: Sendable {
    private struct MailboxState {
        var posted: [PostedRequest] = []
        var answers: [HTTPAnswer] = []
        /// The number of requests without an answer.
        var open = 0
        var inFlight = 0
        var isStopping = false
    }

    private let state = Mutex(MailboxState())
    private let mostOpen: Int
    /// Signalled while answers wait to be taken.
    private let taker: WakeUp

    /// Readable while answers wait to be taken.
    var descriptor: Int32 { taker.descriptor }
    var isStopping: Bool { state.withLock { $0.isStopping } }

    /// Returns nil when no descriptors are left.
    init?(mostOpen: Int) {
        guard let taker = WakeUp() else { return nil }
        self.taker = taker
        self.mostOpen = mostOpen
    }

    // MARK: For callers

    enum Receipt {
        /// The thread must be woken.
        case first
        /// The thread already has requests to take.
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
            taker.clear()
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

    /// Delivers the answers to posted requests.
    func deliver(_ answers: [HTTPAnswer], inFlight: Int) {
        state.withLock { state in
            state.open -= answers.count
            state.inFlight = inFlight
            append(answers, to: &state)
        }
    }

    /// Delivers the answer to a request that was refused.
    func turnDown(_ answer: HTTPAnswer) {
        state.withLock { append([answer], to: &$0) }
    }

    private func append(_ answers: [HTTPAnswer], to state: inout MailboxState) {
        if state.answers.isEmpty, !answers.isEmpty { taker.wake() }
        state.answers += answers
    }
}
