import SignalingProtocol

extension CallMachine {
    /// A device sent `call.join`: enters the call, or moves it to this device. Nothing changes for a device that is in
    /// the call already: it may ask again, as an app does that was restarted.
    public mutating func joinRequested(_ join: Request.Join, _ context: Context) throws(SignalingError) {
        guard let index = index(context.user) else { return try joinAsStranger(join, context) }
        // To who has blocked the inviter it is a call of strangers, which may be open to all.
        if call.members[index].isWithheld {
            guard call.joinPolicy == .anyone, call.mode == .advanced, call.isLive else { throw .callNotFound }
        }
        try requireAdvanced()
        let member = call.members[index]
        guard call.isLive else { throw .callEnded(member.state) }
        if member.state == .accepted {
            guard member.device != context.device else { return }
            revise(at: context.now, by: context.user)
            // Other members are not told of the hand-over, so this is no change of the member's state.
            handle(index, on: context.device)
            return
        }
        try requireNoOtherCall(context)
        guard member.state.isLive || liveMembers < settings.maxMembers else { throw .callFull(settings.maxMembers) }
        revise(at: context.now, by: context.user)
        enter(index, on: context.device, extendedData: join.extendedData)
        call.emptySince = nil
    }

    private var liveMembers: Int { call.members.count { $0.state.isLive } }

    private mutating func joinAsStranger(_ join: Request.Join, _ context: Context) throws(SignalingError) {
        guard call.joinPolicy == .anyone, call.mode == .advanced, call.isLive else { throw .callNotFound }
        try requireNoOtherCall(context)
        guard liveMembers < settings.maxMembers, call.members.count < settings.maxMembersEver else {
            throw .callFull(settings.maxMembers)
        }
        revise(at: context.now, by: context.user)
        append(context.user, .accepted, context)
        enter(call.members.count - 1, on: context.device, extendedData: join.extendedData)
        call.emptySince = nil
    }

    /// A device sent `call.quit`.
    public mutating func quitRequested(_ quit: Request.Quit, _ context: Context) throws(SignalingError) {
        let index = try acceptedIndex(context.user)
        revise(at: context.now, by: context.user)
        move(index, to: .quit, extendedData: quit.extendedData)
        settle(cause: .quit)
    }

    /// A device sent `call.end`: the call ends for all; the members' states stay.
    public mutating func endRequested(_ end: Request.End, _ context: Context) throws(SignalingError) {
        let index = try acceptedIndex(context.user)
        revise(at: context.now, by: context.user)
        if end.reason != nil || end.extendedData != nil {
            move(index, to: .accepted, reason: end.reason, extendedData: end.extendedData)
        }
        call.endedBy = context.user
        close(.hangup)
    }

    /// A device sent `call.get`: a member, past or present, may see the call.
    public func getRequested(by user: UserID) throws(SignalingError) { _ = try memberIndex(user) }

    /// Remembers a successful request, so that a resend of it changes nothing and gets the same outcome (section 2).
    public mutating func remember(_ outcome: RequestOutcome) { call.remember(outcome) }
}
