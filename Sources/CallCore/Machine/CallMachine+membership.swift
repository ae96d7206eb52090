import SignalingProtocol

extension CallMachine {
    /// Handles `call.join`: the member enters the call, or the call moves to this device. For a device that is in the
    /// call already, the request succeeds without a change, because a restarted app may ask again. `profile` is the
    /// profile of a user who was no member before, if such a profile exists.
    package mutating func joinRequested(
        _ join: Request.Join, _ acting: Acting, activeElsewhere: CallID?, profile: UserProfile?
    ) throws(SignalingError) {
        defer { check() }
        guard let index = index(acting.user) else {
            return try joinAsStranger(join, acting, activeElsewhere: activeElsewhere, profile)
        }
        // For a user who has blocked the inviter, the call is a call of other users. Such a call may be open to all
        // users.
        if call.members[index].isWithheld {
            guard call.joinPolicy == .anyone, call.mode == .advanced, call.isLive else { throw .callNotFound }
        }
        try requireAdvanced()
        let member = call.members[index]
        guard call.isLive else { throw .callEnded(member.state) }
        if member.state == .accepted {
            guard member.device != acting.device else { return }
            revise(at: acting.now, by: acting.user)
            // Other members get no event for the move to another device, so the member's state does not change.
            handle(index, on: acting.device)
            return
        }
        try requireNoOtherCall(activeElsewhere)
        guard member.state.isLive || liveMembers < settings.maxMembers else { throw .callFull(settings.maxMembers) }
        revise(at: acting.now, by: acting.user)
        enter(index, on: acting.device, extendedData: join.extendedData)
        call.emptySince = nil
    }

    private var liveMembers: Int { call.members.count { $0.state.isLive } }

    private mutating func joinAsStranger(
        _ join: Request.Join, _ acting: Acting, activeElsewhere: CallID?, _ profile: UserProfile?
    ) throws(SignalingError) {
        guard call.joinPolicy == .anyone, call.mode == .advanced, call.isLive else { throw .callNotFound }
        try requireNoOtherCall(activeElsewhere)
        guard liveMembers < settings.maxMembers, call.members.count < settings.maxMembersEver else {
            throw .callFull(settings.maxMembers)
        }
        revise(at: acting.now, by: acting.user)
        append(acting.user, .accepted, at: acting.now, profile)
        enter(call.members.count - 1, on: acting.device, extendedData: join.extendedData)
        call.emptySince = nil
    }

    /// Handles `call.quit`.
    package mutating func quitRequested(_ quit: Request.Quit, _ acting: Acting) throws(SignalingError) {
        defer { check() }
        let index = try acceptedIndex(acting.user)
        revise(at: acting.now, by: acting.user)
        move(index, to: .quit, extendedData: quit.extendedData)
        endIfOver(cause: .quit)
    }

    /// Handles `call.end`: the call ends for all members, and the members' states stay.
    package mutating func endRequested(_ end: Request.End, _ acting: Acting) throws(SignalingError) {
        defer { check() }
        let index = try acceptedIndex(acting.user)
        revise(at: acting.now, by: acting.user)
        if end.reason != nil || end.extendedData != nil {
            move(index, to: .accepted, reason: end.reason, extendedData: end.extendedData)
        }
        call.endedBy = acting.user
        endKeepingStates(.hangup)
    }

    /// Handles `call.get`, which past and present members may send.
    package func getRequested(by user: UserID) throws(SignalingError) { _ = try memberIndex(user) }

    /// Remembers a successful request, so that its resend changes no state and gets the same response (section 2).
    package mutating func remember(_ outcome: RequestOutcome) { call.remember(outcome) }
}
