import SignalingProtocol
import Synchronization

/// One call at a time, as a telephone has it: the machine that every calling app writes, after ZEGOCLOUD's calling best practice and Agora's
/// CallAPI. It makes and answers calls of a client, and says in which state the app's one call is, and why.
///
///     idle → calling → connecting → connected → idle
///     idle → ringing → connecting → connected → idle
///
/// Calls that ring meanwhile are told or turned away, as `Policies.busy` says; two people who call each other at the same moment are put
/// through when `Policies.glare` is `merge`. All methods may be called from any task.
public final class CallManager: Sendable {
    struct Current {
        /// Counts the calls of this manager.
        var number = 0
        var state = State.idle
        var call: Call?
        /// The id under which this user calls, before the service has answered.
        var callID: CallID?
        /// Whom this user calls.
        var callees: [UserID] = []
        /// Calls of these, which the service may make one with the own (glare).
        var crossing: [Call] = []
        /// What this side did last, which explains what the service tells.
        var intent: Reason?
    }

    let client: SignalingClient
    let policies: Policies
    let current = Mutex(Current())
    let hub = EventHub<Change>(limit: 256)
    let waiting = EventHub<Call>(limit: 256)

    /// Takes over the incoming calls of `client` from now on. It does not connect it.
    public init(_ client: SignalingClient, policies: Policies = Policies()) {
        self.client = client
        self.policies = policies
        let calls = client.incomingCalls
        Task { [weak self, hub, waiting] in
            for await call in calls { self?.rings(call) }
            // The client is disconnected: so is who reads here.
            hub.finish()
            waiting.finish()
        }
    }

    deinit {
        hub.finish()
        waiting.finish()
    }

    /// Where the one call stands.
    public var state: State { current.withLock(\.state) }
    /// The one call; nil in `idle`.
    public var call: Call? { current.withLock(\.call) }
    /// Each change of the state, once; each access is another reader, the first one is also told of what was before. Ends with the client.
    public var changes: AsyncStream<Change> { hub.stream() }
    /// With `Policies.busy == .tell`: calls that ring while there is another one. `take(_:)` makes one of them the one call. Ends with the client.
    public var waitingCalls: AsyncStream<Call> { waiting.stream() }

    // MARK: What this user does

    /// Calls somebody, one or several.
    ///
    /// - Throws: `invalidState` when there is a call already; what `SignalingClient.invite` throws, and the state is `idle` again.
    @discardableResult
    public func call(
        _ users: [UserID], media: String? = nil, timeout: Int? = nil, extendedData: String? = nil,
        push: Request.Push? = nil
    ) async throws(SignalingError) -> Call {
        let callID = SignalingClient.makeCallID()
        guard begin(.calling, .localCall, id: callID, to: users) else { throw Self.isBusy }
        let invite = Request.Invite(
            invitees: users, callID: callID, mode: policies.mode, timeout: timeout, media: media,
            extendedData: extendedData, glare: policies.glare, push: push)
        do throws(SignalingError) {
            let call = try await client.call(invite)
            if current.withLock({ $0.callID == callID }) {
                follow(call)
            } else {
                // Hung up meanwhile, and the cancel may have met another call than the one that this became.
                try? await call.hangUp()
            }
            return call
        } catch {
            over(callID, nil, .failed(error))
            if error.code == .noResponse { takeBack(callID) }
            throw error
        }
    }

    /// An invitation without an answer may have been served all the same: nobody is to ring, or to talk to nobody, because of it.
    private func takeBack(_ callID: CallID) {
        let client = client
        Task {
            if (try? await client.cancel(callID)) == nil { _ = try? await client.end(callID) }
        }
    }

    /// Calls one user, whose id is given as text.
    ///
    /// - Throws: `badRequest` also for a text that is no user id.
    @discardableResult
    public func call(_ user: String, media: String? = nil) async throws(SignalingError) -> Call {
        try await call([UserID(word: user)], media: media)
    }

    /// A call that rang while there was another one (`waitingCalls`) becomes the one call, and rings: `accept()` and `reject(_:)` are about it.
    /// The one there was has to be hung up before.
    ///
    /// - Throws: `invalidState` when there is another call, or when this one does not ring any more.
    public func take(_ call: Call) throws(SignalingError) {
        guard call.ownMember?.state.isPending ?? false else {
            throw SignalingError(.invalidState, "the call does not ring any more")
        }
        guard begin(.ringing, .remoteCall, call) else { throw Self.isBusy }
        follow(call)
    }

    /// Answers the call that rings.
    public func accept(extendedData: String? = nil) async throws(SignalingError) {
        let call = try call(in: .ringing, as: .localAccepted)
        try await perform(call) { call throws(SignalingError) in try await call.accept(extendedData: extendedData) }
        advance(call, to: .connecting, .localAccepted)
    }

    /// Turns the call that rings away.
    public func reject(_ reason: String = WellKnownReason.declined) async throws(SignalingError) {
        let call = try call(in: .ringing, as: .localRejected)
        try await perform(call) { call throws(SignalingError) in try await call.reject(reason) }
        over(call.id, call, .localRejected)
    }

    /// Ends whatever there is: cancels, rejects or hangs up (`Call.hangUp`); of several people who talk this one leaves. A call that the service
    /// has not answered yet is cancelled under its id. Nothing to do in `idle`.
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
        // The answer to the invitation may have come meanwhile, and with it another call (glare).
        let (later, laterID) = current.withLock { $0.number == number ? ($0.call, $0.callID) : (nil, nil) }
        if let later, later != call { try await later.hangUp() }
        over(laterID, later, intent)
    }

    /// The app says that the media flows: `connecting` becomes `connected`.
    public func mediaConnected() {
        guard let call, state == .connecting else { return }
        advance(call, to: .connected, .mediaConnected)
    }

    private static let isBusy = SignalingError(.invalidState, "there is a call already")

    private func call(in state: State, as intent: Reason) throws(SignalingError) -> Call {
        let call = current.withLock { current -> Call? in
            guard current.state == state else { return nil }
            current.intent = intent
            return current.call
        }
        guard let call else { throw SignalingError(.invalidState, "there is no call in this state") }
        return call
    }

    /// A request that failed explains nothing.
    private func perform(
        _ call: Call, _ request: (Call) async throws(SignalingError) -> Void
    ) async throws(SignalingError) {
        do throws(SignalingError) {
            try await request(call)
        } catch {
            current.withLock { $0.intent = nil }
            throw error
        }
    }
}
