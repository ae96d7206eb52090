import SignalingProtocol
import Basics

/// A manager of one call at a time, as on a telephone: the state machine that every calling app needs, after
/// ZEGOCLOUD's calling best practice and Agora's CallAPI. The manager makes and answers calls of a client, and reports
/// the state of the app's one call and the reasons of its changes.
///
///     idle → calling → connecting → connected → idle
///     idle → ringing → connecting → connected → idle
///
/// `Policies.busy` decides whether calls that ring meanwhile are delivered or rejected; two users who call each other
/// at the same time are connected when `Policies.glare` is `merge`. All methods may be called from any task.
public final class BellwireCallManager: Sendable {
    struct Current {
        /// The number of the present call, counted by this manager.
        var number = 0
        var state = State.idle
        var call: BellwireCall?
        /// The id of this user's call, also before the service has answered.
        var callID: CallID?
        /// The users that this user calls.
        var callees: [UserID] = []
        /// The calls from `callees` that ring here. The service may merge a call of these with this user's own (glare).
        var crossing: [BellwireCall] = []
        /// This user's last step, the reason of the service's next event.
        var intent: Reason?
    }

    package let client: SignalingClient
    let policies: Policies
    let current = Mutex(Current())
    let hub = EventHub<Change>(limit: 256)
    let waiting = EventHub<BellwireCall>(limit: 256)

    /// Creates a manager that takes over the incoming calls of `client` from now on. The manager does not connect the
    /// client.
    public init(_ client: SignalingClient, policies: Policies = Policies()) {
        self.client = client
        self.policies = policies
        let calls = client.incomingCalls
        Task { [weak self, hub, waiting] in
            for await call in calls { self?.rings(call) }
            // The client has disconnected, so the manager's streams end.
            hub.finish()
            waiting.finish()
        }
    }

    deinit {
        hub.finish()
        waiting.finish()
    }

    /// The state of the manager's call.
    public var state: State { current.withLock(\.state) }
    /// The manager's call; nil in `idle`, and in `calling` before the service has answered.
    public var call: BellwireCall? { current.withLock(\.call) }
    /// The id of the manager's call, also in `calling` before the service has answered; nil in `idle`.
    package var callID: CallID? { current.withLock(\.callID) }
    /// The changes of the state, each once. Each access returns another reader; the first reader also gets the earlier
    /// changes. Ends with the client.
    public var changes: AsyncStream<Change> { hub.stream() }
    /// The changes from now on; takes no changes from the first reader of `changes`.
    package var changesFromNow: AsyncStream<Change> { hub.stream(fromNow: true) }
    /// With `Policies.busy == .tell`: the calls that ring while there is another call. `take(_:)` makes a waiting call
    /// the manager's call. Ends with the client.
    public var waitingCalls: AsyncStream<BellwireCall> { waiting.stream() }

    // MARK: Requests of this user

    /// Calls one user or several. `timeout` in seconds, 1 to 600; 60 when nil.
    ///
    /// - Throws: `invalidState` when there is a call already; the errors of `SignalingClient.invite`, after which the
    ///   state is `idle` again.
    @discardableResult
    public func call(
        _ users: [UserID], media: String? = nil, timeout: Int? = nil, extendedData: String? = nil,
        push: Request.Push? = nil
    ) async throws(SignalingError) -> BellwireCall {
        try await call(
            SignalingClient.makeCallID(), users, media: media, timeout: timeout, extendedData: extendedData, push: push)
    }

    /// Calls users like `call(_:media:timeout:extendedData:push:)`, under a new id of the caller's own.
    package func call(
        _ callID: CallID, _ users: [UserID], media: String?, timeout: Int?, extendedData: String?, push: Request.Push?
    ) async throws(SignalingError) -> BellwireCall {
        guard begin(.calling, .localCall, id: callID, to: users) else { throw Self.isBusy }
        let invite = Request.Invite(
            invitees: users, callID: callID, mode: policies.mode, timeout: timeout, media: media,
            extendedData: extendedData, glare: policies.glare, push: push)
        do throws(SignalingError) {
            let call = try await client.call(invite)
            if current.withLock({ $0.callID == callID }) {
                follow(call)
            } else {
                // The app has hung up meanwhile, and the cancel may have met another call than the merged call.
                try? await call.hangUp()
            }
            return call
        } catch {
            over(callID, nil, .failed(error))
            if error.code == .noResponse { takeBack(callID) }
            throw error
        }
    }

    /// Ends a call after its invitation got no response: the service may have served the invitation, and no phone is to
    /// ring on.
    private func takeBack(_ callID: CallID) {
        let client = client
        Task {
            let cancelled = try? await client.cancel(callID)
            // An invitee may have answered meanwhile: the call is then live, and the cancel did not end the call.
            if cancelled?.call.state != .ended { _ = try? await client.end(callID) }
        }
    }

    /// Calls the user with the id `user`.
    ///
    /// - Throws: the errors of `call(_:)` for several users; `badRequest` for a text that is not a user id.
    @discardableResult
    public func call(_ user: String, media: String? = nil) async throws(SignalingError) -> BellwireCall {
        try await call([UserID(word: user)], media: media)
    }

    /// Makes a waiting call (`waitingCalls`) the manager's call, which rings: `accept()` and `reject(_:)` then apply to
    /// the call. The app must hang up the present call before.
    ///
    /// - Throws: `invalidState` when there is another call, or when the waiting call does not ring any more.
    public func take(_ call: BellwireCall) throws(SignalingError) {
        guard call.ownMember?.state.isPending ?? false else {
            throw SignalingError(.invalidState, "the call does not ring any more")
        }
        guard begin(.ringing, .remoteCall, call) else { throw Self.isBusy }
        follow(call)
    }

    /// Accepts the call that rings.
    ///
    /// - Throws: `invalidState` when no call rings; the errors of `BellwireCall.accept`.
    public func accept(extendedData: String? = nil) async throws(SignalingError) {
        let call = try call(in: .ringing, as: .localAccepted)
        try await perform(call) { call throws(SignalingError) in try await call.accept(extendedData: extendedData) }
        advance(call, to: .connecting, .localAccepted)
    }

    /// Rejects the call that rings.
    ///
    /// - Throws: `invalidState` when no call rings; the errors of `BellwireCall.reject`.
    public func reject(_ reason: String = WellKnownReason.declined) async throws(SignalingError) {
        let call = try call(in: .ringing, as: .localRejected)
        try await perform(call) { call throws(SignalingError) in try await call.reject(reason) }
        over(call.id, call, .localRejected)
    }

    /// Ends the present call: cancels, rejects or hangs up (`BellwireCall.hangUp`); this user leaves a call of several
    /// members, which goes on. A call without a response is cancelled under its id. Does nothing in `idle`.
    public func hangUp() async throws(SignalingError) {
        switch state {
        case .idle: return
        case .ringing: try await reject()
        case .calling: try await hangUp(.localCancelled)
        case .connecting, .connected: try await hangUp(.localHangup)
        }
    }

    private func hangUp(_ intent: Reason) async throws(SignalingError) {
        let (call, callID, number) = current.withLock { current in
            current.intent = intent
            return (current.call, current.callID, current.number)
        }
        do throws(SignalingError) {
            if let call {
                try await call.hangUp()
            } else if let callID {
                do throws(SignalingError) {
                    _ = try await client.cancel(callID)
                } catch {
                    guard error.code.isOfCallThatIsOver else { throw error }
                }
            }
        } catch {
            current.withLock { $0.intent = nil }
            throw error
        }
        // The response to the invitation may have come meanwhile, with another call (glare).
        let (later, laterID) = current.withLock { $0.number == number ? ($0.call, $0.callID) : (nil, nil) }
        if let later, later != call { try await later.hangUp() }
        over(laterID, later, intent)
    }

    /// Notes that the media flows, as the app reports: `connecting` becomes `connected`.
    public func mediaConnected() {
        guard let call, state == .connecting else { return }
        advance(call, to: .connected, .mediaConnected)
    }

    private static let isBusy = SignalingError(.invalidState, "there is a call already")

    private func call(in state: State, as intent: Reason) throws(SignalingError) -> BellwireCall {
        let call = current.withLock { current -> BellwireCall? in
            guard current.state == state else { return nil }
            current.intent = intent
            return current.call
        }
        guard let call else { throw SignalingError(.invalidState, "there is no call in this state") }
        return call
    }

    /// Sends a request; a failed request is not the reason of later events.
    private func perform(
        _ call: BellwireCall, _ request: (BellwireCall) async throws(SignalingError) -> Void
    ) async throws(SignalingError) {
        do throws(SignalingError) {
            try await request(call)
        } catch {
            current.withLock { $0.intent = nil }
            throw error
        }
    }
}
