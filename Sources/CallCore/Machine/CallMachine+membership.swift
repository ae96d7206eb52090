import SignalingProtocol

extension CallMachine {
    /// A device sent `call.join`: enters the call, or moves it to this device. Nothing changes for a device that is in
    /// the call already: it may ask again, as an app does that was restarted.
    /// `profile`: of a user who was no member so far, as far as there is one.
    package mutating func joinRequested(
        _ join: Request.Join, _ acting: Acting, activeElsewhere: CallID?, profile: UserProfile?
    ) throws(SignalingError) {
        defer { check() }
        guard let index = index(acting.user) else {
            return try joinAsStranger(join, acting, activeElsewhere: activeElsewhere, profile)
        }
        // To who has blocked the inviter it is a call of strangers, which may be open to all.
        if call.members[index].isWithheld {
            guard call.joinPolicy == .anyone, call.mode == .advanced, call.isLive else { throw .callNotFound }
        }
        try requireAdvanced()
        let member = call.members[index]
        guard call.isLive else { throw .callEnded(member.state) }
        if member.state == .accepted {
            guard member.device != acting.device else { return }
            revise(at: acting.now, by: acting.user)
            // Other members are not told of the hand-over, so this is no change of the member's state.
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

    /// A device sent `call.quit`.
    package mutating func quitRequested(_ quit: Request.Quit, _ acting: Acting) throws(SignalingError) {
        defer { check() }
        let index = try acceptedIndex(acting.user)
        revise(at: acting.now, by: acting.user)
        move(index, to: .quit, extendedData: quit.extendedData)
        settle(cause: .quit)
    }

    /// A device sent `call.end`: the call ends for all; the members' states stay.
    package mutating func endRequested(_ end: Request.End, _ acting: Acting) throws(SignalingError) {
        defer { check() }
        let index = try acceptedIndex(acting.user)
        revise(at: acting.now, by: acting.user)
        if end.reason != nil || end.extendedData != nil {
            move(index, to: .accepted, reason: end.reason, extendedData: end.extendedData)
        }
        call.endedBy = acting.user
        close(.hangup)
    }

    /// A device sent `call.get`: a member, past or present, may see the call.
    package func getRequested(by user: UserID) throws(SignalingError) { _ = try memberIndex(user) }

    /// Remembers a successful request, so that a resend of it changes nothing and gets the same outcome (section 2).
    package mutating func remember(_ outcome: RequestOutcome) { call.remember(outcome) }
}
