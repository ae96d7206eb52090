import SignalingProtocol
import Synchronization

/// The requests (docs/protocol.md, section 2). Each returns the service's response, or throws its refusal, or one of the
/// SDK's own errors (`noResponse`, `tooManyRequests`, `disconnected`). The state of a call that a response brings is also
/// told in `events` when it is news, so that an app can follow a call there alone.
extension SignalingClient {
    /// `call.invite`. Without a `callID` one is made. The response may name another call: with `glare: .merge` the
    /// invitee's own.
    public func invite(_ invite: Request.Invite) async throws(SignalingError) -> Response.Success {
        var invite = invite
        if invite.callID == nil { invite.callID = Self.makeCallID() }
        return try await requests.perform(.invite(invite))
    }

    /// Calls somebody: `invite`, and the call as an object. With `glare: .merge` it may be the invitee's own.
    public func call(_ invite: Request.Invite) async throws(SignalingError) -> Call {
        let success = try await self.invite(invite)
        let driver = driver
        return driver.turn { state in
            if let call = state.book[success.call.callID] { return call }
            // It is over already, as with invitees who were all busy. That may have been told behind the response.
            let known = state.machine.snapshot(of: success.call.callID) ?? success.call
            let call = Call(known, driver)
            state.effects += call.update { $0.received(known) + $0.over(.left) }
            return call
        }
    }

    /// Calls one user, whose id is given as text: an advanced call, which lives until somebody ends it.
    ///
    /// - Throws: `badRequest` also for a text that is no user id.
    public func call(_ user: String, media: String? = nil) async throws(SignalingError) -> Call {
        try await call(.init(invitees: [UserID(word: user)], mode: .advanced, media: media))
    }

    /// The call as an object; nil when this device knows of no live call of this id.
    public subscript(callID: CallID) -> Call? { driver.state.withLock { $0.book[callID] } }

    /// `call.cancel`: takes back this user's pending invitations of `invitees`, or all of them.
    /// May be called before the response to `invite`: no device rings then.
    public func cancel(
        _ callID: CallID, invitees: [UserID]? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.cancel(.init(callID: callID, invitees: invitees, extendedData: extendedData)))
    }

    /// `call.accept`, on this device.
    public func accept(
        _ callID: CallID, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.accept(.init(callID: callID, extendedData: extendedData)))
    }

    /// `call.reject`. The reason is `declined`, `busy` or any text of at most 256 bytes.
    public func reject(
        _ callID: CallID, reason: String = WellKnownReason.declined, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.reject(.init(callID: callID, reason: reason, extendedData: extendedData)))
    }

    /// `call.add`, advanced mode: invites more users. `timeout` in seconds; the call's own when nil.
    public func add(
        _ invitees: [UserID], to callID: CallID, timeout: Int? = nil, extendedData: String? = nil,
        push: Request.Push? = nil
    ) async throws(SignalingError) -> Response.Success {
        let add = Request.Add(
            callID: callID, invitees: invitees, timeout: timeout, extendedData: extendedData, push: push)
        return try await requests.perform(.add(add))
    }

    /// `call.join`, advanced mode: enters a call, or moves it to this device.
    public func join(_ callID: CallID, extendedData: String? = nil) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.join(.init(callID: callID, extendedData: extendedData)))
    }

    /// `call.quit`, advanced mode: leaves the call.
    public func quit(_ callID: CallID, extendedData: String? = nil) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.quit(.init(callID: callID, extendedData: extendedData)))
    }

    /// `call.end`, advanced mode: ends the call for all.
    public func end(
        _ callID: CallID, reason: String? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.end(.init(callID: callID, reason: reason, extendedData: extendedData)))
    }

    /// `call.get`: the call as it is now.
    public func get(_ callID: CallID) async throws(SignalingError) -> CallSnapshot {
        try await requests.perform(.get(.init(callID: callID))).call
    }

    // MARK: Within a call

    /// `call.signal`: something for the other accepted members of a live call, or for some of them, such as a session
    /// description or an ICE candidate; at most 32 KiB. Best effort: it is sent once. Receivers get it in order, as
    /// `ClientEvent.signal`. What the service refuses is told as `ClientEvent.error`.
    ///
    /// Returns false when it is dropped here, because too many wait to be sent or the client was disconnected.
    @discardableResult
    public func signal(_ callID: CallID, _ data: JSONText, to users: [UserID]? = nil) -> Bool {
        driver.send(Request.Signal(callID: callID, to: users, data: data))
    }

    /// `call.report`: how long the call took to reach its milestones, each in milliseconds from this party's own start: the
    /// invite for the inviter, the ringing for an invitee. Well-known names are in `Milestone.wellKnown`.
    @discardableResult
    public func report(
        _ callID: CallID, _ milestones: [Milestone]
    ) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.report(.init(callID: callID, milestones: milestones)))
    }

    /// `call.trace`: the call's timeline, to see why a phone did or did not ring (section 6).
    /// The response carries it as `timeline`, and what devices reported as `reports`.
    public func trace(_ callID: CallID) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.trace(.init(callID: callID)))
    }

    /// `call.heartbeat`, for an app that beats by itself (`Configuration.sendsHeartbeats`).
    public func heartbeat(_ callID: CallID) { driver.heartbeat(callID) }

    // MARK: Calls of an earlier run

    /// Calls of an earlier run of the app that this device must leave before it makes or takes `callID`: the service lets a user take part in
    /// one call only.
    package func orphanedCalls(besides callID: CallID) -> [CallID] { driver.orphanedCalls.filter { $0 != callID } }

    /// `then` is called once, when the service has answered for each call, or has not within the time.
    package func quit(_ calls: [CallID], within time: Duration, then done: @escaping @Sendable () -> Void) {
        guard let call = calls.first else { return done() }
        let others = Array(calls.dropFirst())
        perform(.quit(.init(callID: call)), within: time) { [weak self] _ in
            guard let self else { return done() }
            quit(others, within: time, then: done)
        }
    }

    // MARK: Beyond calls

    /// `call.query`: the user's own calls, the newest first, 1 to 100 at once. The cursor is the next page's; nil when there
    /// are no more.
    public func calls(
        count: Int = 20, after cursor: String? = nil
    ) async throws(SignalingError) -> (calls: [CallSnapshot], cursor: String?) {
        guard case .calls(let calls, let cursor) = try await requests.ask(.query(.init(count: count, cursor: cursor)))
        else {
            throw RequestMaker.unexpected
        }
        return (calls, cursor == Answer.lastCursor ? nil : cursor)
    }

    /// `message.send`: a reliable message to all devices of a user, at most 32 KiB. Returns its id once the service has it;
    /// what becomes of it is told as `ClientEvent.receipt`. `ttl` in seconds, 1 to 600; 30 when nil.
    ///
    /// `within`: how long it is tried to hand it to the service; `Configuration.requestTimeout` when nil, and at most. It is then not sent any
    /// more, unless it has left already.
    ///
    /// `isOrdered`: the user's app is told of it after the ordered messages that this client has sent to that user before,
    /// in the order in which `send` was called; `seq` is then given by the client (docs/protocol.md, section 2, Peer messages).
    @discardableResult
    public func send(
        _ data: JSONText, to user: UserID, ttl: Int? = nil, messageID: MessageID? = nil, seq: Int64? = nil,
        within: Duration? = nil, isOrdered: Bool = false
    ) async throws(SignalingError) -> MessageID {
        let messageID = messageID ?? Self.makeMessageID()
        let message = Request.Message(to: user, data: data, ttl: ttl, messageID: messageID, seq: seq)
        let answer = try await requests.ask(.message(message), within: within, isOrdered: isOrdered)
        guard case .message(let messageID, _, _) = answer else { throw RequestMaker.unexpected }
        return messageID
    }

    /// A reliable message, of which is waited for that a device of the user has it: `send`, and its receipt. `within` bounds both, 1 s to 600 s; the
    /// message expires then. `isOrdered`: as of `send`.
    ///
    /// - Throws: `notDelivered` when no device has taken it in that time; what `send` throws.
    public func deliver(
        _ data: JSONText, to user: UserID, within: Duration = .seconds(30), isOrdered: Bool = false
    ) async throws(SignalingError) {
        let limit = min(max(within, .seconds(1)), .seconds(Limits.messageTTL.upperBound))
        let ttl = Int((limit.milliseconds + 999) / 1_000)
        let message = Request.Message(to: user, data: data, ttl: ttl, messageID: Self.makeMessageID(), seq: nil)
        let failure = await withCheckedContinuation { waiter in
            driver.deliver(message, within: limit, isOrdered: isOrdered) { waiter.resume(returning: $0) }
        }
        if let failure { throw failure }
    }

    /// `user.update`: changes the own profile. What is nil stays, the empty string removes.
    @discardableResult
    public func update(
        name: String? = nil, avatarURL: String? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> UserSnapshot {
        let update = Request.UserUpdate(name: name, avatarURL: avatarURL, extendedData: extendedData)
        guard case .user(let user) = try await requests.ask(.userUpdate(update)) else { throw RequestMaker.unexpected }
        return user
    }

    /// `user.query`: profiles of 1 to 100 users, and whether they are online. Unknown users are in `errors`.
    public func users(
        _ users: [UserID]
    ) async throws(SignalingError) -> (users: [UserSnapshot], errors: [UserError]) {
        guard case .users(let users, let errors) = try await requests.ask(.userQuery(.init(userIDs: users))) else {
            throw RequestMaker.unexpected
        }
        return (users, errors)
    }

    /// `user.block`: from now on the other user's invitations and messages do not reach this user, and the other one does not
    /// learn that. Returns whom this user has blocked. Throws `tooLarge` beyond 500 users.
    @discardableResult
    public func block(_ user: UserID) async throws(SignalingError) -> [UserID] {
        try await blocked(.userBlock(.init(userID: user, isBlocked: true)))
    }

    /// `user.unblock`. Returns whom this user has blocked.
    @discardableResult
    public func unblock(_ user: UserID) async throws(SignalingError) -> [UserID] {
        try await blocked(.userBlock(.init(userID: user, isBlocked: false)))
    }

    /// `user.blockList`: whom this user has blocked.
    public func blockedUsers() async throws(SignalingError) -> [UserID] { try await blocked(.userBlockList) }

    // MARK: Push

    /// `push.register`: this device is woken by pushes while it is not connected, for the app's settings of this name (section 7). To be done
    /// whenever the client has connected: tokens change.
    public func registerPush(
        _ platform: PushPlatform, _ target: PushTarget, app: AppName = .standard
    ) async throws(SignalingError) {
        _ = try await requests.ask(.pushRegister(.init(platform: platform, app: app, target: target)))
    }

    /// `push.unregister`: nil stands for all that this device is registered for.
    public func unregisterPush(
        _ platform: PushPlatform? = nil, app: AppName? = nil
    ) async throws(SignalingError) {
        _ = try await requests.ask(.pushUnregister(.init(platform: platform, app: app)))
    }

    private func blocked(_ body: Request.Body) async throws(SignalingError) -> [UserID] {
        guard case .blocked(let users) = try await requests.ask(body) else { throw RequestMaker.unexpected }
        return users
    }
}

/// The same with callbacks, for who needs the one order: each is called once, before the events of the request's success, on any thread.
extension SignalingClient {
    /// A request. `within`: how long it is tried; `Configuration.requestTimeout` when nil, and at most. `isOrdered`: as of `send`.
    package func perform(
        _ body: Request.Body, within: Duration? = nil, isOrdered: Bool = false,
        then completion: @escaping @Sendable (Response.Outcome) -> Void
    ) {
        let request = Request(id: requests.makeID(), body: body)
        driver.send(request, within: within, isOrdered: isOrdered, then: completion)
    }

    /// The same under an id of the caller's: no other request of this client may have it.
    package func perform(_ request: Request, then completion: @escaping @Sendable (Response.Outcome) -> Void) {
        driver.send(request, then: completion)
    }
}
