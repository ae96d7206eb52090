import Dispatch
import MQTTClient
import SignalingProtocol
import Synchronization

/// Where the app's tasks and the connection's thread meet. Continuations are taken out under the lock and resumed
/// after it.
final class Mailbox: Sendable {
    typealias RequestWaiter = CheckedContinuation<Response.Outcome, Never>
    typealias ConnectWaiter = CheckedContinuation<SignalingError?, Never>

    enum Phase: Equatable {
        /// Nothing was started. Can transition to `connecting` and `closed`.
        case idle
        /// The thread tries to reach the broker. Can transition to `connected`, `stopping`, `closed`.
        case connecting
        /// Subscribed. Can transition to `connecting`, `stopping`, `closed`.
        case connected
        /// The thread says goodbye. Can transition to `closed`.
        case stopping
        /// Final: every request fails at once.
        case closed
    }

    private struct State {
        var phase = Phase.idle
        var requests: [Request] = []
        var signals: [Request.Signal] = []
        var requestWaiters: [RequestID: RequestWaiter] = [:]
        var connectWaiters: [Int: ConnectWaiter] = [:]
        var closeWaiters: [CheckedContinuation<Void, Never>] = []
        var waiterCount = 0
        var waker: Waker?
        /// Why the last attempt to connect failed.
        var problem = "no answer yet"
    }

    /// Ends the wait of the connection's `poll`.
    private struct Waker: @unchecked Sendable {
        // Sendable: `wake()` is the one method that any thread may call, and nothing else is called through this. The
        // thread that owns the connection takes the waker back before it lets the connection go.
        let connection: MQTTConnection
    }

    private let state = Mutex(State())
    /// Wakes the thread while it has no connection.
    private let idle = DispatchSemaphore(value: 0)

    // MARK: From the app

    enum ConnectStep {
        /// The caller starts the thread; the waiter is kept.
        case start(waiter: Int)
        case wait(waiter: Int)
        case done(SignalingError?)
    }

    func connectRequested(_ waiter: ConnectWaiter) -> ConnectStep {
        state.withLock { state in
            func keep() -> Int {
                state.waiterCount += 1
                state.connectWaiters[state.waiterCount] = waiter
                return state.waiterCount
            }
            switch state.phase {
            case .idle:
                state.phase = .connecting
                return .start(waiter: keep())
            case .connecting: return .wait(waiter: keep())
            case .connected: return .done(nil)
            case .stopping, .closed: return .done(Self.disconnected)
            }
        }
    }

    /// Gives up one wait for the connection; the thread goes on trying.
    func connectTimedOut(waiter: Int, broker: BrokerAddress) {
        let (taken, problem) = state.withLock { ($0.connectWaiters.removeValue(forKey: waiter), $0.problem) }
        let cause = problem.hasPrefix("\(broker)") ? problem : "\(broker): \(problem)"
        taken?.resume(returning: SignalingError(.notConnected, "cannot reach the broker: \(cause)"))
    }

    func send(_ request: Request, _ waiter: RequestWaiter) {
        let isAccepted = state.withLock { state in
            guard state.phase != .stopping, state.phase != .closed else { return false }
            state.requests.append(request)
            state.requestWaiters[request.id] = waiter
            wake(&state)
            return true
        }
        if !isAccepted { waiter.resume(returning: .failure(Self.disconnected)) }
    }

    /// Signals beyond this many at once are dropped: they are best effort.
    private static let waitingSignals = 1_024

    /// False when the signal is dropped.
    func send(_ signal: Request.Signal) -> Bool {
        state.withLock { state in
            guard state.phase != .stopping, state.phase != .closed, state.signals.count < Self.waitingSignals else {
                return false
            }
            state.signals.append(signal)
            wake(&state)
            return true
        }
    }

    /// Asks the thread to say goodbye; false when there is no thread to do it.
    @discardableResult
    func stop() -> Bool {
        state.withLock { state in
            switch state.phase {
            case .idle, .closed: return false
            case .connecting, .connected, .stopping:
                state.phase = .stopping
                wake(&state)
                return true
            }
        }
    }

    func closed(_ waiter: CheckedContinuation<Void, Never>) {
        let isClosed = state.withLock { state in
            if state.phase != .closed { state.closeWaiters.append(waiter) }
            return state.phase == .closed
        }
        if isClosed { waiter.resume() }
    }

    /// The end: whoever still waits is told.
    func close() {
        let (requests, connects, closes) = state.withLock { state in
            state.phase = .closed
            state.requests = []
            defer {
                state.requestWaiters = [:]
                state.connectWaiters = [:]
                state.closeWaiters = []
            }
            return (state.requestWaiters, state.connectWaiters, state.closeWaiters)
        }
        for waiter in requests.values { waiter.resume(returning: .failure(Self.disconnected)) }
        for waiter in connects.values { waiter.resume(returning: Self.disconnected) }
        for waiter in closes { waiter.resume() }
    }

    private static let disconnected = SignalingError(.disconnected, "the client is disconnected")

    /// Ends the thread's wait.
    func wake() { state.withLock { wake(&$0) } }

    private func wake(_ state: inout State) {
        if let waker = state.waker { waker.connection.wake() } else { idle.signal() }
    }

    // MARK: From the thread

    var isStopping: Bool { state.withLock { $0.phase == .stopping || $0.phase == .closed } }

    func takeRequests() -> [Request] {
        state.withLock { state in
            defer { state.requests = [] }
            return state.requests
        }
    }

    func takeSignals() -> [Request.Signal] {
        state.withLock { state in
            defer { state.signals = [] }
            return state.signals
        }
    }

    func complete(_ id: RequestID, _ outcome: Response.Outcome) {
        state.withLock { $0.requestWaiters.removeValue(forKey: id) }?.resume(returning: outcome)
    }

    func setWaker(_ connection: MQTTConnection?) {
        // Sendable: see `Waker`.
        let waker = connection.map(Waker.init)
        state.withLock { $0.waker = waker }
    }

    func connected() {
        let waiters = state.withLock { state in
            if state.phase == .connecting { state.phase = .connected }
            defer { state.connectWaiters = [:] }
            return state.connectWaiters
        }
        for waiter in waiters.values { waiter.resume(returning: nil) }
    }

    /// The connection or an attempt failed. A refusal by the broker is told at once, and a certificate that cannot
    /// be trusted: waiting will not change it.
    func disconnected(_ error: MQTTError) {
        let waiters = state.withLock { state -> [Int: ConnectWaiter] in
            if state.phase == .connected { state.phase = .connecting }
            state.problem = error.message
            guard error.kind == .refused || error.kind == .tls else { return [:] }
            defer { state.connectWaiters = [:] }
            return state.connectWaiters
        }
        for waiter in waiters.values { waiter.resume(returning: SignalingError(.notConnected, error.message)) }
    }

    /// Waits up to `milliseconds` for something to do while there is no connection.
    func waitIdle(milliseconds: Int64) {
        _ = idle.wait(timeout: .now() + .milliseconds(Int(max(0, milliseconds))))
    }
}
