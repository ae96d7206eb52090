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

    private func perform(_ body: Request.Body) async throws(SignalingError) -> Response.Success {
        let request = Request(id: makeRequestID(), body: body)
        let mailbox = mailbox
        return try await withCheckedContinuation { mailbox.send(request, $0) }.get()
    }
}
