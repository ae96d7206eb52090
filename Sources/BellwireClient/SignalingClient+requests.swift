import SignalingProtocol

/// The requests (docs/protocol.md, section 2). Each returns the service's response, or throws its refusal, or one of the
/// SDK's own errors (`noResponse`, `tooManyRequests`, `disconnected`). The state of a call that a response brings is also
/// told in `events` when it is news, so that an app can follow a call there alone.
extension SignalingClient {
    /// `call.invite`. Without a `callID` one is made. The response may name another call: with `glare: .merge` the
    /// invitee's own.
    public func invite(_ invite: Request.Invite) async throws(SignalingError) -> Response.Success {
        var invite = invite
        if invite.callID == nil { invite.callID = Self.makeCallID() }
        return try await perform(.invite(invite))
    }

    /// `call.cancel`: takes back this user's pending invitations of `invitees`, or all of them.
    /// May be called before the response to `invite`: no device rings then.
    public func cancel(
        _ callID: CallID, invitees: [UserID]? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await perform(.cancel(.init(callID: callID, invitees: invitees, extendedData: extendedData)))
    }

    /// `call.accept`, on this device.
    public func accept(
        _ callID: CallID, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await perform(.accept(.init(callID: callID, extendedData: extendedData)))
    }

    /// `call.reject`. The reason is `declined`, `busy` or any text of at most 256 bytes.
    public func reject(
        _ callID: CallID, reason: String = WellKnownReason.declined, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await perform(.reject(.init(callID: callID, reason: reason, extendedData: extendedData)))
    }

    /// `call.add`, advanced mode: invites more users. `timeout` in seconds; the call's own when nil.
    public func add(
        _ invitees: [UserID], to callID: CallID, timeout: Int? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await perform(
            .add(.init(callID: callID, invitees: invitees, timeout: timeout, extendedData: extendedData)))
    }

    /// `call.join`, advanced mode: enters a call, or moves it to this device.
    public func join(_ callID: CallID, extendedData: String? = nil) async throws(SignalingError) -> Response.Success {
        try await perform(.join(.init(callID: callID, extendedData: extendedData)))
    }

    /// `call.quit`, advanced mode: leaves the call.
    public func quit(_ callID: CallID, extendedData: String? = nil) async throws(SignalingError) -> Response.Success {
        try await perform(.quit(.init(callID: callID, extendedData: extendedData)))
    }

    /// `call.end`, advanced mode: ends the call for all.
    public func end(
        _ callID: CallID, reason: String? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> Response.Success {
        try await perform(.end(.init(callID: callID, reason: reason, extendedData: extendedData)))
    }

    /// `call.get`: the call as it is now.
    public func get(_ callID: CallID) async throws(SignalingError) -> CallSnapshot {
        try await perform(.get(.init(callID: callID))).call
    }

    // MARK: Within a call

    /// `call.signal`: something for the other accepted members of a live call, or for some of them, such as a session
    /// description or an ICE candidate; at most 32 KiB. Best effort: it is sent once. Receivers get it in order, as
    /// `ClientEvent.signal`. What the service refuses is told as `ClientEvent.error`.
    ///
    /// Returns false when it is dropped here, because too many wait to be sent or the client was disconnected.
    @discardableResult
    public func signal(_ callID: CallID, _ data: JSONText, to users: [UserID]? = nil) -> Bool {
        mailbox.send(Request.Signal(callID: callID, to: users, data: data))
    }

    /// `call.report`: how long the call took to reach its milestones, each in milliseconds from this party's own start: the
    /// invite for the inviter, the ringing for an invitee. Well-known names are in `Milestone.wellKnown`.
    @discardableResult
    public func report(
        _ callID: CallID, _ milestones: [Milestone]
    ) async throws(SignalingError) -> Response.Success {
        try await perform(.report(.init(callID: callID, milestones: milestones)))
    }

    /// `call.trace`: the call's timeline, to see why a phone did or did not ring (section 6).
    /// The response carries it as `timeline`, and what devices reported as `reports`.
    public func trace(_ callID: CallID) async throws(SignalingError) -> Response.Success {
        try await perform(.trace(.init(callID: callID)))
    }

    // MARK: Beyond calls

    /// `call.query`: the user's own calls, the newest first, 1 to 100 at once. The cursor is the next page's; nil when there
    /// are no more.
    public func calls(
        count: Int = 20, after cursor: String? = nil
    ) async throws(SignalingError) -> (calls: [CallSnapshot], cursor: String?) {
        guard case .calls(let calls, let cursor) = try await ask(.query(.init(count: count, cursor: cursor))) else {
            throw Self.unexpected
        }
        return (calls, cursor == Answer.lastCursor ? nil : cursor)
    }

    /// `message.send`: a reliable message to all devices of a user, at most 32 KiB. Returns its id once the service has it;
    /// what becomes of it is told as `ClientEvent.receipt`. `ttl` in seconds, 1 to 600; 30 when nil.
    @discardableResult
    public func send(
        _ data: JSONText, to user: UserID, ttl: Int? = nil, messageID: MessageID? = nil, seq: Int64? = nil
    ) async throws(SignalingError) -> MessageID {
        let messageID = messageID ?? Self.makeMessageID()
        let message = Request.Message(to: user, data: data, ttl: ttl, messageID: messageID, seq: seq)
        guard case .message(let messageID, _, _) = try await ask(.message(message)) else { throw Self.unexpected }
        return messageID
    }

    /// `user.update`: changes the own profile. What is nil stays, the empty string removes.
    @discardableResult
    public func update(
        name: String? = nil, avatarURL: String? = nil, extendedData: String? = nil
    ) async throws(SignalingError) -> UserSnapshot {
        let update = Request.UserUpdate(name: name, avatarURL: avatarURL, extendedData: extendedData)
        guard case .user(let user) = try await ask(.userUpdate(update)) else { throw Self.unexpected }
        return user
    }

    /// `user.query`: profiles of 1 to 100 users, and whether they are online. Unknown users are in `errors`.
    public func users(
        _ users: [UserID]
    ) async throws(SignalingError) -> (users: [UserSnapshot], errors: [UserError]) {
        guard case .users(let users, let errors) = try await ask(.userQuery(.init(userIDs: users))) else {
            throw Self.unexpected
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

    private func blocked(_ body: Request.Body) async throws(SignalingError) -> [UserID] {
        guard case .blocked(let users) = try await ask(body) else { throw Self.unexpected }
        return users
    }

    // MARK: Asking

    private static let unexpected = SignalingError(.internal, "the response is not one to this request")

    private func perform(_ body: Request.Body) async throws(SignalingError) -> Response.Success {
        switch await outcome(body) {
        case .success(let success): return success
        case .answer: throw Self.unexpected
        case .failure(let error): throw error
        }
    }

    private func ask(_ body: Request.Body) async throws(SignalingError) -> Answer {
        switch await outcome(body) {
        case .success: throw Self.unexpected
        case .answer(let answer): return answer
        case .failure(let error): throw error
        }
    }

    private func outcome(_ body: Request.Body) async -> Response.Outcome {
        let request = Request(id: makeRequestID(), body: body)
        let mailbox = mailbox
        return await withCheckedContinuation { mailbox.send(request, $0) }
    }
}
