internal import BellwireClient
internal import DropInSupport
internal import SignalingProtocol
internal import Basics

/// A login: a client, and the notices for its app.
///
/// **Order.** The client calls its observer, the outcomes of requests and the waiter of `connect` in the driver's
/// order; each call puts its effects on the main queue before the driver makes the next call.
final class Session: Sendable {
    /// The time limit of a request, also without a connection: an app that was told of a failure must not find its call
    /// made a minute later.
    static let requestTime = Duration.seconds(15)
    /// The time that the login waits for the profile to be stored.
    static let profileTime = Duration.seconds(5)

    /// The time limit for ending the registrations for pushes at a logout.
    static let unregisteringTime = Duration.seconds(2)

    /// The time limit for quitting a call in which an earlier run of the app left this device. Such calls are quit
    /// before a request that makes, accepts or joins another call.
    static let quitTime = Duration.seconds(5)

    private struct State {
        var narration: Narration
        /// Whether the login callback was called.
        var isOpen = false
        /// The notices from before the login callback.
        var waiting: [Notice] = []
        var isClosing = false
        var standing = BellwireConnectionState.disconnected
        var pages = Pages()
        var rooms = Rooms()
        /// Whether the app was told that the service refuses its push tokens.
        var hasToldOfPushes = false
    }

    let client: SignalingClient
    private let state: Mutex<State>
    private let tell: @Sendable (Notice) -> Void
    private let requestTime: Duration
    private let tokens: TokenWatch
    private let pushes: PushApps

    init(
        _ configuration: SignalingClient.Configuration, tokens: TokenWatch, pushes: PushApps,
        requestTime: Duration = Session.requestTime, tell: @escaping @Sendable (Notice) -> Void
    ) {
        client = SignalingClient(configuration)
        let hasLastToken = configuration.token != nil && configuration.tokenProvider == nil
        let narration = Narration(
            user: configuration.user, device: configuration.device, hasLastToken: hasLastToken)
        state = Mutex(State(narration: narration))
        self.tell = tell
        self.requestTime = requestTime
        self.tokens = tokens
        self.pushes = pushes
    }

    /// Whether the app was told of a logout, for any reason, and so may log in again.
    var isLoggedOut: Bool { state.withLock { $0.narration.connection?.state == .disconnected } }

    // MARK: Beginning and end

    /// Logs in. `profile` is stored with the login. `done` is called once. Notices that come during the
    /// login are held until `done` was called with success; notices about the connection are not held.
    func start(_ profile: Request.UserUpdate?, done: @escaping @Sendable (Refusal?) -> Void) {
        client.observe { [weak self] in self?.received($0) }
        client.connect { [self] error in
            if let error { return fail(error, done) }
            guard let profile else { return open(done) }
            client.perform(.userUpdate(profile), within: Self.profileTime) { [self] outcome in
                open(done)
                if case .failure(let error) = outcome { tell(.error(Refusal(error))) }
            }
        }
    }

    private func open(_ done: @Sendable (Refusal?) -> Void) {
        done(nil)
        let waiting = state.withLock { state in
            state.isOpen = true
            defer { state.waiting = [] }
            return state.waiting
        }
        for notice in waiting { tell(notice) }
    }

    private func fail(_ error: SignalingError, _ done: @Sendable (Refusal?) -> Void) {
        let (notices, refusal) = state.withLock { state in
            state.isClosing = true
            var refusal = Refusal(error)
            if case .refused = state.standing { refusal.code = refusedCode }
            return (state.narration.loginFailed(), refusal)
        }
        for notice in notices { tell(notice) }
        done(refusal)
    }

    /// The code of a refused login: a broker that refuses a token gives no reason.
    private var refusedCode: ZIMErrorCode {
        tokens.hasEnded ? .networkModuleTokenExpired : .networkModuleTokenInvalid
    }

    func renew(_ token: String) {
        tokens.note(token)
        client.renew(token)
    }

    /// Disconnects; returns when the service has been told, or cannot be told. The phone gets no more pushes.
    func close() async {
        let isConnected = state.withLock { state in
            state.isClosing = true
            return state.standing == .connected
        }
        if isConnected, !ZPNs.shared().tokens.isEmpty {
            await withCheckedContinuation { waiter in
                client.perform(.pushUnregister(.init(platform: nil, app: nil)), within: Self.unregisteringTime) { _ in
                    waiter.resume()
                }
            }
        }
        await client.disconnect()
    }

    // MARK: Events of the client

    private func received(_ event: ClientEvent) {
        let notices = state.withLock { state -> [Notice] in
            guard case .connection(let standing) = event else {
                return state.isClosing ? [] : later(state.narration.received(event), &state)
            }
            state.standing = standing
            state.narration.hasEndedToken = tokens.hasEnded
            return state.narration.received(event)
        }
        for notice in notices { tell(notice) }
        if case .gone(let call) = event { ask(whatBecameOf: call.callID) }
        if case .connection(.connected) = event { registerPushes() }
    }

    /// Registers the app's push tokens. The app is told of the first refusal: the deployment may send no pushes.
    func registerPushes() {
        guard state.withLock({ $0.standing == .connected && !$0.isClosing }) else { return }
        for request in ZPNs.shared().tokens.requests(pushes) {
            client.perform(request, within: requestTime) { [self] outcome in
                guard case .failure(let error) = outcome else { return }
                let notices = state.withLock { state -> [Notice] in
                    guard !state.hasToldOfPushes, !state.isClosing else { return [] }
                    state.hasToldOfPushes = true
                    return later([.error(Refusal(error))], &state)
                }
                for notice in notices { tell(notice) }
            }
        }
    }

    private func later(_ notices: [Notice], _ state: inout State) -> [Notice] {
        guard !state.isOpen else { return notices }
        state.waiting += notices
        return []
    }

    private func tellCalls(_ change: (inout Narration) -> [Notice]) {
        let notices = state.withLock { state in
            state.isClosing ? [] : later(change(&state.narration), &state)
        }
        for notice in notices { tell(notice) }
    }

    private func ask(whatBecameOf callID: CallID) {
        guard state.withLock({ $0.narration.follows(callID) && !$0.isClosing }) else { return }
        client.perform(.get(.init(callID: callID)), within: requestTime) { [self] outcome in
            let call: CallSnapshot? = if case .success(let success) = outcome { success.call } else { nil }
            tellCalls { $0.vanished(callID, call) }
        }
    }

    // MARK: Requests

    /// Sends a request about a call: `SignalingClient.perform` passes the request on to `ClientDriver.send`, and that
    /// to `ClientMachine.send`. `done` is called once, before the notices that follow from the request.
    func perform(
        _ body: Request.Body, done: @escaping @Sendable (Result<Response.Success, Refusal>) -> Void
    ) {
        guard let callID = body.callID else { return done(.failure(.unexpected)) }
        let orphaned = body.takesPart ? client.orphanedCalls(besides: callID) : []
        state.withLock { state in
            state.narration.asks(callID)
            for orphan in orphaned { state.narration.abandon(orphan) }
        }
        client.quit(orphaned, within: Self.quitTime) { [self] in ask(body, about: callID, done) }
    }

    private func ask(
        _ body: Request.Body, about callID: CallID,
        _ done: @escaping @Sendable (Result<Response.Success, Refusal>) -> Void
    ) {
        client.perform(body, within: requestTime) { [self] outcome in
            switch outcome {
            case .success(let success):
                done(.success(success))
                tellCalls { $0.answered(callID, with: success, isInvite: body.isInvite) }
            case .answer: refused(body, callID, .unexpected, done)
            case .failure(let error): refused(body, callID, refusal(error), done)
            }
        }
    }

    private func refused(
        _ body: Request.Body, _ callID: CallID, _ refusal: Refusal,
        _ done: @Sendable (Result<Response.Success, Refusal>) -> Void
    ) {
        done(.failure(refusal))
        let isUnanswered = refusal.code == .networkModuleRequestTimeout || refusal.code == .networkModuleNetworkError
        if body.isInvite, isUnanswered { giveUp(callID) }
        tellCalls { $0.answered(callID, with: nil) }
    }

    /// Cancels an invitation without a response: the invitation may be under way, and no phone is to ring for a call
    /// that the app takes for not made.
    private func giveUp(_ callID: CallID) {
        state.withLock { $0.narration.abandon(callID) }
        client.perform(.cancel(.init(callID: callID))) { _ in }
    }

    /// Sends any other request.
    func ask(_ body: Request.Body, done: @escaping @Sendable (Result<Answer, Refusal>) -> Void) {
        client.perform(body, within: requestTime) { [self] outcome in
            switch outcome {
            case .success: done(.failure(.unexpected))
            case .answer(let answer): done(.success(answer))
            case .failure(let error): done(.failure(refusal(error)))
            }
        }
    }

    /// Reports a profile that this device has changed.
    func changed(_ profile: UserSnapshot) { tellCalls { _ in [.profile(profile)] } }

    /// Returns the refusal for a failed request. Without a connection, the state of the connection explains a missing
    /// response.
    private func refusal(_ error: SignalingError) -> Refusal {
        var refusal = Refusal(error)
        guard error.code == .noResponse else { return refusal }
        switch state.withLock(\.standing) {
        case .connected: break
        case .tokenExpired: refusal.code = .networkModuleTokenExpired
        case .refused where tokens.hasEnded: refusal.code = .networkModuleTokenExpired
        case .disconnected, .connecting, .reconnecting, .refused, .takenOver: refusal.code = .networkModuleNetworkError
        }
        return refusal
    }

    // MARK: Pages

    func cursor(_ flag: Int64) -> String? { state.withLock { $0.pages.cursor(flag) } }

    func flag(_ cursor: String) -> Int64 { state.withLock { $0.pages.flag(cursor) } }

    // MARK: Rooms

    func enterRoom(_ roomID: String) throws(Refusal) {
        try state.withLock { state throws(Refusal) in try state.rooms.enter(roomID) }
    }

    func leaveRoom(_ roomID: String) throws(Refusal) {
        try state.withLock { state throws(Refusal) in try state.rooms.leave(roomID) }
    }
}

extension Request.Body {
    fileprivate var isInvite: Bool {
        if case .invite = self { true } else { false }
    }

    /// Whether the device is in the call after the request.
    fileprivate var takesPart: Bool {
        switch self {
        case .invite, .accept, .join: true
        default: false
        }
    }
}
