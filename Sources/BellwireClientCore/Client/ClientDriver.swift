import SignalingProtocol
import Basics

/// The surroundings of the machine. The driver passes requests of the app, events of the transport and due deadlines to
/// the machine, in turn, and performs the machine's actions.
///
/// **The driver's order.** The machine is called under a lock. The effects of its actions are appended to a queue, and
/// a thread that finds no other thread working performs the effects, outside the lock. So messages to the broker,
/// outcomes of requests and events leave in the order of the machine's decisions, and the driver treats a call that an
/// app makes within a callback like any other call.
final class ClientDriver: Sendable {
    typealias Completion = @Sendable (Response.Outcome) -> Void
    typealias Effect = @Sendable () -> Void
    typealias DeliveryWaiter = @Sendable (SignalingError?) -> Void

    struct State {
        var machine: ClientMachine
        var phase = Phase.idle
        var standing = BellwireConnectionState.disconnected
        /// The present broker connection; nil while there is none.
        var link: (any BellwireTransportConnection)?
        var linkNumber = 0
        /// The events of a connection that came before the machine knew of the connection.
        var early: [BellwireTransportEvent] = []
        /// Tells the connecting task how its connection ended; nil asks for another connection, with another session or
        /// token.
        var endings: AsyncStream<BellwireTransportError?>.Continuation?
        var completions: [RequestID: Completion] = [:]
        var connectWaiters: [Int: ConnectWaiter] = [:]
        /// The callers of `deliver` that wait for a receipt.
        var deliveryWaiters: [MessageID: DeliveryWaiter] = [:]
        var closeWaiters: [Effect] = []
        var waiterCount = 0
        var effects: [Effect] = []
        var isWorking = false
        /// The time at which the machine's timer fires next.
        var alarm: Int64?
        var alarmCount = 0
        var token: String?
        /// How far the service's clock is ahead of this device's clock, in milliseconds; nil before the first welcome.
        var serverAhead: Int64?
        /// The end of the token's validity, by the service's clock; nil again once the app has been told.
        var tokenEnd: Int64?
        var pause: Task<Void, Never>?
        /// Whether the present or last connection was opened.
        var wasOpened = false
        /// Gives up the present attempt to connect, or the wait for a token.
        var abandon: Effect?
        /// The reason for which the last attempt to connect failed.
        var problem = "no answer yet"
        /// The token of the present or last attempt to connect.
        var password: String?
        /// Whether the last attempt failed since the token provider gave no token.
        var isWithoutToken = false
        /// Whether the last attempt failed since the broker refused a token that has ended.
        var hasEndedToken = false
        var iceServers: [BellwireIceServer] = []
        /// The error that the service sent on this connection before the broker ended it.
        var lastError: ErrorCode?
        var book: CallBook
    }

    struct ConnectWaiter {
        /// Whether the caller waits for the service, not only for the broker.
        let wantsService: Bool
        let resume: @Sendable (SignalingError?) -> Void
    }

    enum Phase: Equatable {
        /// The client has not started. Can transition to `running` and `closed`.
        case idle
        /// The client connects or is connected. Can transition to `stopping` and `closed`.
        case running
        /// The client logs out. Can transition to `closed`.
        case stopping
        /// Final: every request fails at once.
        case closed
    }

    let configuration: SignalingClient.Configuration
    let device: DeviceAddress
    let clock = MonotonicClock()
    let events: EventHub<ClientEvent>
    let incomingCalls: EventHub<BellwireCall>
    let refusals = Mutex(0)
    let requestPrefix = randomToken()
    let requestCount = Mutex<UInt64>(0)
    let state: Mutex<State>
    /// Gets every event at its place in the driver's order.
    let observer = Mutex<(@Sendable (ClientEvent) -> Void)?>(nil)

    init(_ configuration: SignalingClient.Configuration) {
        self.configuration = configuration
        device = configuration.address
        events = EventHub(limit: configuration.eventBuffer)
        incomingCalls = EventHub(limit: configuration.eventBuffer)
        var settings = ClientMachine.Configuration()
        settings.requestTimeout = configuration.requestTimeout.milliseconds
        settings.signalStream = randomToken()
        settings.publishesPresence = configuration.publishesPresence
        settings.renewsTokens = configuration.tokenProvider != nil
        settings.sendsHeartbeats = configuration.sendsHeartbeats
        settings.resumesCalls = configuration.resumesCalls
        state = Mutex(
            State(
                machine: ClientMachine(device: configuration.address, configuration: settings),
                token: configuration.tokenProvider == nil ? configuration.token : nil,
                book: CallBook(user: configuration.user, device: configuration.device)))
        state.withLock { $0.machine.offlineReason = "the app has not called connect()" }
    }

    var requests: RequestMaker { RequestMaker(driver: self) }

    // MARK: The driver's order

    /// Changes the state, appends the effects of the change to the queue, and works the queue off.
    @discardableResult
    func turn<Result: Sendable>(_ change: (inout State) -> Result) -> Result {
        let result = state.withLock { state in
            let result = change(&state)
            setAlarm(&state)
            return result
        }
        work()
        return result
    }

    private func work() {
        while true {
            let effects = state.withLock { state -> [Effect] in
                guard !state.isWorking, !state.effects.isEmpty else { return [] }
                state.isWorking = true
                defer { state.effects = [] }
                return state.effects
            }
            if effects.isEmpty { return }
            for effect in effects { effect() }
            state.withLock { $0.isWorking = false }
        }
    }

    /// Performs the machine's actions in their order.
    func perform(_ actions: [ClientMachine.Action], _ state: inout State) {
        for action in actions {
            switch action {
            case .publish(let message): publish(message, &state)
            case .publishPresence(let presence): publish(presence, &state)
            case .deliver(let event): deliver(event, &state)
            case .succeed(let id, let success): complete(id, .success(success), &state)
            case .answer(let id, let answer): complete(id, .answer(answer), &state)
            case .fail(let id, let error): complete(id, .failure(error), &state)
            case .refuse(let callID):
                refusals.withLock { $0 += 1 }
                log(.info, &state, "call \(callID) is ignored: too many calls ring")
            case .renewSession: state.endings?.yield(nil)
            case .endTakenOver: state.endings?.yield(BellwireTransportError(.takenOver, Self.takenOver))
            case .renewToken: askForToken()
            }
        }
    }

    private func complete(_ id: RequestID, _ outcome: Response.Outcome, _ state: inout State) {
        guard let completion = state.completions.removeValue(forKey: id) else { return }
        if case .failure(let error) = outcome {
            log(.debug, &state, "request \(id) has failed: \(error.code)")
        } else {
            log(.debug, &state, "request \(id) has succeeded")
        }
        state.effects.append { completion(outcome) }
    }

    /// Delivers an event to the app, after the event has changed the connection state and the calls.
    func deliver(_ event: ClientEvent, _ state: inout State) {
        if case .online = event { stand(.connected, &state) }
        if case .error(let error) = event { state.lastError = error.code }
        if case .receipt(let receipt) = event { received(receipt, &state) }
        if case .event(let event) = event {
            log(.debug, &state, "\(event.name.rawValue) of call \(event.callID), revision \(event.revision)")
        }
        let news = state.book.received(event, by: self)
        state.effects.append { [self] in
            tell(event)
            for effect in news { effect() }
        }
    }

    private func tell(_ event: ClientEvent) {
        observer.withLock { $0 }?(event)
        events.tell(event)
    }

    /// Sets the connection state, and tells the app and the callers that wait for the connection.
    func stand(_ standing: BellwireConnectionState, _ state: inout State) {
        if state.standing != standing {
            state.standing = standing
            log(.info, &state, "connection: \(standing.name)")
            state.effects.append { [self] in tell(.connection(standing)) }
        }
        state.machine.offlineReason = offlineReason(standing)
        switch standing {
        case .connected: answerWaiters(nil, &state)
        case .refused, .tokenExpired, .takenOver: answerWaiters(refusal(state), &state)
        case .disconnected, .connecting, .reconnecting: break
        }
    }

    /// The error of `connect()` in this state; nil while another attempt may succeed.
    func refusal(_ state: State) -> SignalingError? {
        switch state.standing {
        case .refused(let reason): SignalingError(state.hasEndedToken ? .tokenExpired : .notConnected, reason)
        case .tokenExpired: SignalingError(.tokenExpired, Self.tokenExpired)
        case .takenOver: SignalingError(.notConnected, Self.takenOver)
        case .disconnected, .connecting, .connected, .reconnecting: nil
        }
    }

    static let takenOver = "another connection has this device id"
    static let tokenExpired = "the token has ended"

    /// Returns the reason for which requests have no response in this state.
    private func offlineReason(_ standing: BellwireConnectionState) -> String {
        switch standing {
        case .refused(let reason): reason
        case .tokenExpired: Self.tokenExpired
        case .reconnecting(let reason): "the broker cannot be reached: \(reason)"
        case .disconnected, .connecting, .connected, .takenOver: "the broker cannot be reached"
        }
    }

    /// Answers the callers that wait for the connection, in the order of their calls.
    func answerWaiters(_ error: SignalingError?, _ state: inout State, forService: Bool = true) {
        for (number, waiter) in state.connectWaiters.sorted(by: { $0.key < $1.key })
        where forService || !waiter.wantsService {
            state.connectWaiters[number] = nil
            state.effects.append { waiter.resume(error) }
        }
    }

    // MARK: Publishing

    private func publish(_ message: UpMessage, _ state: inout State) {
        guard let link = state.link else { return }
        let outgoing = BellwireOutgoingMessage(
            topic: configuration.topics.up(device), payload: message.encoded(),
            expirySeconds: state.machine.expirySeconds(of: message, now: clock.now))
        state.effects.append { [self] in
            do throws(BellwireTransportError) {
                try link.publish(outgoing)
            } catch {
                refuse(message, error)
            }
        }
    }

    private func publish(_ presence: PresenceMessage, _ state: inout State) {
        guard let link = state.link else { return }
        let outgoing = BellwireOutgoingMessage(
            topic: configuration.topics.presence(device), payload: presence.encoded())
        state.effects.append { try? link.publish(outgoing) }
    }

    /// Fails a request at once that can never be sent, such as a request over the broker's packet size.
    private func refuse(_ message: UpMessage, _ error: BellwireTransportError) {
        guard error.kind == .invalid, case .request(let request) = message else { return }
        let refusal = SignalingError(.tooLarge, "the request cannot be sent: \(error.message)")
        let response = Response(id: request.id, outcome: .failure(refusal))
        turn { perform($0.machine.received(.response(response), now: clock.now), &$0) }
    }

    // MARK: Time

    /// Starts a task that wakes the driver at the machine's next deadline.
    private func setAlarm(_ state: inout State) {
        guard let due = state.machine.nextDeadline, due < state.alarm ?? .max, state.phase != .closed else { return }
        state.alarm = due
        state.alarmCount += 1
        let (clock, number) = (clock, state.alarmCount)
        Task { [weak self] in
            await clock.sleep(until: due)
            self?.alarmRang(number)
        }
    }

    private func alarmRang(_ number: Int) {
        turn { state in
            guard state.alarmCount == number else { return }
            state.alarm = nil
            let now = clock.now
            guard let due = state.machine.nextDeadline, due <= now else { return }
            let actions = state.machine.timerFired(now: now)
            perform(actions, &state)
            // A resend may mean that the connection is dead, and a keepalive of a minute reveals that too late.
            if actions.contains(where: \.isRequest), let link = state.link { state.effects.append { link.probe() } }
        }
    }
}

extension ClientMachine.Action {
    fileprivate var isRequest: Bool {
        if case .publish(.request) = self { true } else { false }
    }
}
