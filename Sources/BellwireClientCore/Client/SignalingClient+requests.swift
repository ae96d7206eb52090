import SignalingProtocol
import Basics

/// The requests (docs/protocol.md, section 2). Each method returns the service's response, or throws the service's
/// error code or an error of the SDK's own (`noResponse`, `tooManyRequests`, `disconnected`). When a response brings a
/// newer state of a call, `events` delivers that state too, so that an app can follow a call by `events` alone.
extension SignalingClient {
    /// `call.invite`: invites users to a new call. A `callID` is made when the invite has none. With `glare: .merge`
    /// the response may name another call: the invitee's earlier invitation of this user.
    ///
    /// - Throws: `callExists`, `alreadyInCall`, `callFull`, `noInvitees`, `rateLimited`, `badRequest`.
    public func invite(_ invite: Request.Invite) async throws(SignalingError) -> Response.Success {
        var invite = invite
        if invite.callID == nil { invite.callID = Self.makeCallID() }
        return try await requests.perform(.invite(invite))
    }

    /// Invites users to a new call, as `invite` does, and returns the call as an object. With `glare: .merge` this may
    /// be the call of the invitee's earlier invitation of this user. Without a `mode` the call is common: the service
    /// ends a common call when a member accepts.
    public func call(_ invite: Request.Invite) async throws(SignalingError) -> BellwireCall {
        let success = try await self.invite(invite)
        let driver = driver
        return driver.turn { state in
            if let call = state.book[success.call.callID] {
                call.learn(offline: success.offline)
                return call
            }
            // The call has ended already, as when all invitees were busy. Events may have told that after the response.
            let known = state.machine.snapshot(of: success.call.callID) ?? success.call
            let call = BellwireCall(known, driver)
            call.learn(success.mediaSession)
            call.learn(offline: success.offline)
            state.effects += call.update { $0.received(known) + $0.over(.left) }
            return call
        }
    }

    /// Calls the user with the id `user` in an advanced call, which lives until a member ends the call.
    ///
    /// - Throws: the errors of `invite`; `badRequest` for a text that is not a user id.
    public func call(_ user: String, media: String? = nil) async throws(SignalingError) -> BellwireCall {
        try await call(.init(invitees: [UserID(word: user)], mode: .advanced, media: media))
    }

    /// Calls the users with these ids in an advanced call, as `call(_:media:)` does, with what else an invitation may
    /// say: the seconds until it expires (1 to 600, by default 60), data for the invitees' apps (at most 2048 bytes),
    /// and the texts of the push.
    ///
    /// - Throws: the errors of `invite`; `badRequest` for a text that is not a user id.
    public func call(
        _ users: [String], media: String? = nil, timeout: Int? = nil, extendedData: String? = nil,
        push: Request.Push? = nil
    ) async throws(SignalingError) -> BellwireCall {
        var invitees: [UserID] = []
        for user in users { invitees.append(try UserID(word: user)) }
        return try await call(
            .init(
                invitees: invitees, mode: .advanced, timeout: timeout, media: media, extendedData: extendedData,
                push: push))
    }

    /// The call as an object; nil when this device knows of no live call with this id.
    public subscript(callID: CallID) -> BellwireCall? { driver.state.withLock { $0.book[callID] } }

    /// `call.cancel`: takes back this user's pending invitations of `invitees`, or all its invitations when nil. A
    /// cancel before the response to `invite` is allowed: no device rings then. The response's `errors` name the
    /// invitees whose invitations were not cancelled.
    ///
    /// - Throws: `callNotFound`, `callEnded`, `notInviter`, `invalidState`.
    public func cancel(
        _ callID: CallID, invitees: [UserID]? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.cancel(.init(callID: callID, invitees: invitees, extendedData: extendedData)))
    }

    /// `call.accept`: accepts the invitation on this device.
    ///
    /// - Throws: `answeredElsewhere`, `callEnded`, `invalidState`, `callNotFound`; in advanced mode `alreadyInCall`.
    public func accept(
        _ callID: CallID, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.accept(.init(callID: callID, extendedData: extendedData)))
    }

    /// `call.reject`: rejects the invitation. The reason is `declined`, `busy` or any text of at most 256 bytes.
    ///
    /// - Throws: `answeredElsewhere`, `callEnded`, `invalidState`, `callNotFound`.
    public func reject(
        _ callID: CallID, reason: String = WellKnownReason.declined, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.reject(.init(callID: callID, reason: reason, extendedData: extendedData)))
    }

    /// `call.add`, advanced mode: invites more users. `timeout` in seconds, 1 to 600; the call's own timeout when nil.
    /// The response's `errors` name the invitees that could not be added.
    ///
    /// - Throws: `wrongMode`, `invalidState`, `callEnded`, `callFull`, `noInvitees`, `rateLimited`, `callNotFound`.
    public func add(
        _ invitees: [UserID], to callID: CallID, timeout: Int? = nil, extendedData: String? = nil,
        push: Request.Push? = nil
    ) async throws(SignalingError) -> Response.Success {
        let add = Request.Add(
            callID: callID, invitees: invitees, timeout: timeout, extendedData: extendedData, push: push)
        return try await requests.perform(.add(add))
    }

    /// `call.join`, advanced mode: enters a call, or moves the call to this device.
    ///
    /// - Throws: `wrongMode`, `callEnded`, `alreadyInCall`, `callNotFound`.
    public func join(_ callID: CallID, extendedData: String? = nil) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.join(.init(callID: callID, extendedData: extendedData)))
    }

    /// `call.quit`, advanced mode: leaves the call.
    ///
    /// - Throws: `wrongMode`, `invalidState`, `callEnded`, `callNotFound`.
    public func quit(_ callID: CallID, extendedData: String? = nil) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.quit(.init(callID: callID, extendedData: extendedData)))
    }

    /// `call.end`, advanced mode: ends the call for all members. The reason has at most 256 bytes.
    ///
    /// - Throws: `wrongMode`, `invalidState`, `callEnded`, `callNotFound`.
    public func end(
        _ callID: CallID, reason: String? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.end(.init(callID: callID, reason: reason, extendedData: extendedData)))
    }

    /// `call.get`: returns the present state of the call.
    ///
    /// - Throws: `callNotFound`.
    public func get(_ callID: CallID) async throws(SignalingError) -> CallSnapshot {
        try await requests.perform(.get(.init(callID: callID))).call
    }

    // MARK: Within a call

    /// `call.signal`: sends data, such as a session description or an ICE candidate, to the other accepted members of a
    /// live call, or only to `users`; at most 32 KiB. Best effort: the signal is sent once. Receivers get signals in
    /// order, as `ClientEvent.signal`. A refusal by the service comes as `ClientEvent.error` (docs/protocol.md, section
    /// 2, Signals).
    ///
    /// Returns false when the app has disconnected the client, which then drops the signal. A client without a
    /// connection keeps 256 signals for 5 s each, and drops the oldest beyond that.
    @discardableResult
    public func signal(_ callID: CallID, _ data: JSONText, to users: [UserID]? = nil) -> Bool {
        driver.send(Request.Signal(callID: callID, to: users, data: data))
    }

    /// `call.report`: reports how long the call took to reach its milestones, in milliseconds, 0 to 86,400,000, from
    /// this member's own start: the invite for the inviter, the ringing for an invitee. 1 to 32 milestones at once;
    /// `Milestone.wellKnown` has the well-known names (docs/protocol.md, section 2, Reports).
    ///
    /// - Throws: `callNotFound`, `badRequest`.
    @discardableResult
    public func report(
        _ callID: CallID, _ milestones: [Milestone]
    ) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.report(.init(callID: callID, milestones: milestones)))
    }

    /// `call.trace`: returns the call's timeline, to see why a phone did or did not ring (docs/protocol.md, section 6).
    /// The response has the timeline in `timeline`, and the milestones that devices reported in `reports`.
    ///
    /// - Throws: `callNotFound`.
    public func trace(_ callID: CallID) async throws(SignalingError) -> Response.Success {
        try await requests.perform(.trace(.init(callID: callID)))
    }

    /// `call.heartbeat`, for an app that sends the heartbeats itself (`Configuration.sendsHeartbeats`; section 3).
    public func heartbeat(_ callID: CallID) { driver.heartbeat(callID) }

    // MARK: Calls of an earlier run

    /// Returns the calls of an earlier run of the app that this device must leave before it makes or accepts `callID`:
    /// the service lets a user take part in a single call only.
    package func orphanedCalls(besides callID: CallID) -> [CallID] { driver.orphanedCalls.filter { $0 != callID } }

    /// Quits the calls in turn. `time` is the time limit of each request; `done` is called once, after the last request
    /// has its outcome.
    package func quit(_ calls: [CallID], within time: Duration, then done: @escaping @Sendable () -> Void) {
        guard let call = calls.first else { return done() }
        let others = Array(calls.dropFirst())
        perform(.quit(.init(callID: call)), within: time) { [weak self] _ in
            guard let self else { return done() }
            quit(others, within: time, then: done)
        }
    }

    // MARK: Beyond calls

    /// `call.query`: returns the user's own calls, the newest first, 1 to 100 at once (docs/protocol.md, section 2,
    /// Queries). `cursor` is the `after` of the next page; nil after the last page.
    ///
    /// - Throws: `badRequest` for a count below 1, or a cursor that the service did not give.
    public func calls(
        count: Int = 20, after cursor: String? = nil
    ) async throws(SignalingError) -> (calls: [CallSnapshot], cursor: String?) {
        guard case .calls(let calls, let cursor) = try await requests.ask(.query(.init(count: count, cursor: cursor)))
        else {
            throw RequestMaker.unexpected
        }
        return (calls, cursor == Answer.lastCursor ? nil : cursor)
    }

    /// `message.send`: sends a reliable message of at most 32 KiB to all devices of a user (docs/protocol.md, section
    /// 2, Peer messages). Returns the message's id once the service has the message; `ClientEvent.receipt` tells its
    /// outcome. `ttl` in seconds, 1 to 600; 30 when nil.
    ///
    /// `within` is the time limit for handing the message to the service, at most `Configuration.requestTimeout`, the
    /// default. After that a message that has not left this device is not sent any more.
    ///
    /// With `isOrdered` the recipient's app gets the message after the ordered messages that this client has sent to
    /// the same user before, in the order of the calls of `send`; the client then sets `seq`.
    ///
    /// - Throws: `rateLimited`, `badRequest`; `userNotRegistered` where the service knows registered users only.
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

    /// Sends a reliable message as `send` does, and returns when a device of the user has acknowledged the message.
    /// `within` bounds the whole, 1 s to 600 s; the message expires then. `isOrdered` means the same as for `send`.
    ///
    /// - Throws: `notDelivered` when no device has acknowledged the message in that time; the errors of `send`.
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

    /// `user.update`: changes the own profile. Nil leaves a value unchanged, an empty text removes the value. `name`
    /// has at most 256 bytes, `avatarURL` 512, `extendedData` 2048 (docs/protocol.md, section 2, Users).
    ///
    /// - Throws: `badRequest`.
    @discardableResult
    public func update(
        name: String? = nil, avatarURL: String? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> UserSnapshot {
        let update = Request.UserUpdate(name: name, avatarURL: avatarURL, extendedData: extendedData)
        guard case .user(let user) = try await requests.ask(.userUpdate(update)) else { throw RequestMaker.unexpected }
        return user
    }

    /// `user.query`: returns the profiles of 1 to 100 users, and whether the users are online. `errors` names unknown
    /// users.
    public func users(
        _ users: [UserID]
    ) async throws(SignalingError) -> (users: [UserSnapshot], errors: [UserError]) {
        guard case .users(let users, let errors) = try await requests.ask(.userQuery(.init(userIDs: users))) else {
            throw RequestMaker.unexpected
        }
        return (users, errors)
    }

    /// `user.block`: from now on the other user's invitations and messages do not reach this user, and the other user
    /// does not learn of that (docs/protocol.md, section 2, Blocked users). Returns all users that this user has
    /// blocked.
    ///
    /// - Throws: `tooLarge` beyond 500 users; `badRequest` for the own user.
    @discardableResult
    public func block(_ user: UserID) async throws(SignalingError) -> [UserID] {
        try await blocked(.userBlock(.init(userID: user, isBlocked: true)))
    }

    /// `user.unblock`: ends the block. Returns all users that this user has blocked.
    @discardableResult
    public func unblock(_ user: UserID) async throws(SignalingError) -> [UserID] {
        try await blocked(.userBlock(.init(userID: user, isBlocked: false)))
    }

    /// `user.blockList`: returns all users that this user has blocked.
    public func blockedUsers() async throws(SignalingError) -> [UserID] { try await blocked(.userBlockList) }

    // MARK: Push

    /// `push.register`: lets pushes wake this device while the client is not connected, by the deployment's settings
    /// for `app` (docs/protocol.md, section 7). An app registers whenever the client has connected, since tokens
    /// change.
    ///
    /// - Throws: `badRequest` when the deployment does not serve the platform or the app, or the target is not valid.
    public func registerPush(
        _ platform: PushPlatform, _ target: PushTarget, app: AppName = .standard
    ) async throws(SignalingError) {
        _ = try await requests.ask(.pushRegister(.init(platform: platform, app: app, target: target)))
    }

    /// `push.unregister`: ends registrations of this device. Nil stands for every platform, or for every app. `within`
    /// is the time limit, at most `Configuration.requestTimeout`, the default.
    ///
    /// - Throws: `noResponse` without a connection: the registration stays, and the phone rings for the user further
    ///   on. An app tries again before `disconnect()`, or lets Apple or Google end the push token.
    public func unregisterPush(
        _ platform: PushPlatform? = nil, app: AppName? = nil, within: Duration? = nil
    ) async throws(SignalingError) {
        _ = try await requests.ask(.pushUnregister(.init(platform: platform, app: app)), within: within)
    }

    private func blocked(_ body: Request.Body) async throws(SignalingError) -> [UserID] {
        guard case .blocked(let users) = try await requests.ask(body) else { throw RequestMaker.unexpected }
        return users
    }
}

/// The same requests with callbacks, for callers that need the driver's order: each callback is called once, before the
/// events of the request's success, on any thread.
extension SignalingClient {
    /// Sends a request. `within` is its time limit, at most `Configuration.requestTimeout`, the default. `isOrdered`
    /// means the same as for `send`.
    package func perform(
        _ body: Request.Body, within: Duration? = nil, isOrdered: Bool = false,
        then completion: @escaping @Sendable (Response.Outcome) -> Void
    ) {
        let request = Request(id: requests.makeID(), body: body)
        driver.send(request, within: within, isOrdered: isOrdered, then: completion)
    }

    /// Sends a request under an id that the caller has chosen: no other request of this client may have the same id.
    package func perform(_ request: Request, then completion: @escaping @Sendable (Response.Outcome) -> Void) {
        driver.send(request, then: completion)
    }
}
