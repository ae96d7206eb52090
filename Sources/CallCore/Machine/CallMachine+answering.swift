import SignalingProtocol

extension CallMachine {
    /// Handles `call.accept`. `activeElsewhere` is the other live advanced call in which the user is accepted. Common
    /// mode ignores `activeElsewhere`, because a common call ends with its answer.
    package mutating func acceptRequested(
        _ accept: Request.Accept, _ acting: Acting, activeElsewhere: CallID?
    ) throws(SignalingError) {
        defer { check() }
        let index = try requirePendingInvitation(acting)
        if call.mode == .advanced { try requireNoOtherCall(activeElsewhere) }
        revise(at: acting.now, by: acting.user)
        enter(index, on: acting.device, extendedData: accept.extendedData)
        endIfOver(cause: .answered)
    }

    /// Handles `call.reject`. `isCheck` says that the reject came by a ring check, so that an app that the same device
    /// has connected does not know of the reject.
    package mutating func rejectRequested(
        _ reject: Request.Reject, _ acting: Acting, isCheck: Bool
    ) throws(SignalingError) {
        defer { check() }
        let index = try requirePendingInvitation(acting)
        revise(at: acting.now, by: acting.user)
        move(index, to: .rejected, reason: reject.reason, extendedData: reject.extendedData)
        handle(index, on: acting.device)
        call.members[index].isHandledByCheck = isCheck
        endIfOver(cause: reject.reason == WellKnownReason.busy ? .busy : .rejected)
    }

    /// Returns the index of a member with a pending invitation. Otherwise the error names the event that came first.
    private func requirePendingInvitation(_ acting: Acting) throws(SignalingError) -> Int {
        let index = try memberIndex(acting.user)
        let member = call.members[index]
        if call.isLive && member.state.isPending { return index }
        switch member.state {
        case .accepted, .rejected:
            if let device = member.device, device != acting.device {
                throw SignalingError(
                    .answeredElsewhere, "the user answered on another device", state: member.state.rawValue)
            }
        case .inviting, .notYetReceived, .received, .cancelled, .timeout, .quit: break
        }
        throw call.isLive ? .invalidState(member.state) : .callEnded(member.state)
    }

    func requireNoOtherCall(_ activeElsewhere: CallID?) throws(SignalingError) {
        if settings.oneActiveCall, let active = activeElsewhere, active != call.callID {
            throw .alreadyInCall(active)
        }
    }

    /// Handles `call.cancel`. Returns an error for each named user whose invitation the user could not cancel.
    package mutating func cancelRequested(_ cancel: Request.Cancel, _ acting: Acting) throws(SignalingError)
        -> [UserError]
    {
        defer { check() }
        let own = try memberIndex(acting.user)
        if call.endReason == .hangup { throw .callEnded(call.members[own].state) }
        guard call.members.contains(where: { $0.invitedBy == acting.user }) else {
            throw SignalingError(.notInviter, "the user invited nobody to this call")
        }
        let named = cancel.invitees ?? call.members.filter { $0.invitedBy == acting.user }.map(\.userID)
        var errors: [UserError] = []
        var cancelled: [Int] = []
        for user in named {
            switch cancellability(of: user, by: acting.user) {
            case .success(let index): cancelled.append(index)
            case .failure(let error): errors.append(UserError(userID: user, code: error.code))
            }
        }
        guard !cancelled.isEmpty else { throw nothingToCancel(named, errors) }

        revise(at: acting.now, by: acting.user)
        for index in cancelled {
            move(index, to: .cancelled, reason: EndReason.cancelled.rawValue, extendedData: cancel.extendedData)
        }
        endIfOver(cause: .cancelled)
        return cancel.invitees == nil ? [] : errors
    }

    /// Returns the member's place when `inviter` may cancel the invitation. An accept that came first has moved the
    /// member out of the pending states, and the error names the member's state.
    private func cancellability(of user: UserID, by inviter: UserID) -> Result<Int, SignalingError> {
        guard let index = index(user) else { return .failure(.callNotFound) }
        let member = call.members[index]
        guard member.invitedBy == inviter else {
            return .failure(SignalingError(.notInviter, "invited by another user"))
        }
        guard call.isLive, member.state.isPending else { return .failure(.invalidState(member.state)) }
        return .success(index)
    }

    /// Returns the error of a cancel without a pending invitee. The state in the error tells the event that came first.
    private func nothingToCancel(_ named: [UserID], _ errors: [UserError]) -> SignalingError {
        if !errors.isEmpty, errors.allSatisfy({ $0.code != .invalidState }) {
            return SignalingError(.notInviter, "the user did not invite the named members")
        }
        // Among several members, the state of the last change is the best answer.
        let last = named.compactMap(call.entry).max { $0.changedRevision < $1.changedRevision }
        return .invalidState(last?.state ?? .cancelled)
    }

    /// Handles `call.cancel` of an id that was merged into this call: the user leaves the call, and the call ends
    /// (section 2).
    package mutating func mergedCancelRequested(_ cancel: Request.Cancel, _ acting: Acting) throws(SignalingError) {
        defer { check() }
        let member = call.members[try memberIndex(acting.user)]
        if call.isLive, member.state.isPending {
            let reject = Request.Reject(callID: call.callID, extendedData: cancel.extendedData)
            try rejectRequested(reject, acting, isCheck: false)
        } else if call.mode == .advanced {
            try endRequested(Request.End(callID: call.callID, extendedData: cancel.extendedData), acting)
        } else {
            // The response is the same as for each cancel after the answer.
            throw .invalidState(member.state)
        }
    }
}
