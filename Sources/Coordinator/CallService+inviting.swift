import CallCore
import CallStore
import SignalingProtocol

/// What an invitation needs to know of other calls: claims, busy users, the other side of a glare.
extension CallService {
    func judgeInvite(
        _ invite: Request.Invite, _ received: ReceivedRequest, _ callID: CallID, _ stored: StoredCall?,
        _ decision: inout Decision
    ) throws -> Response.Outcome {
        try CallMachine.check(invite, by: received.device.userID)
        if decision.call != nil {
            // Resends are answered before. An alias whose merge did not come about is judged again.
            guard decision.alias?.origin == received.key else { throw SignalingError.callExists }
        }
        let user = received.device.userID
        var invitation = CallMachine.Invitation(callID: callID, invite: invite)
        if case .cancelled(let owner, let at)? = decision.record ?? stored?.record {
            invitation.isCancelled = owner == user && at + settings.cancelMemory > now
        }
        if invite.glare == .merge, invite.invitees.count == 1, !invitation.isCancelled {
            if let merged = try judgeGlare(invite, received, callID, stored, &decision) { return merged }
        }
        var context = CallMachine.Context(key: received.key, now: now)
        context.activeElsewhere = try activeCall(of: user, besides: nil, &decision)
        if invite.ifBusy == .reject { invitation.busy = try busy(invite.invitees) }
        var machine = try CallMachine.invited(invitation, context, settings: settings.calls)
        let outcome = RequestOutcome(key: received.key, offline: try offline(invite.invitees))
        machine.remember(outcome)
        decision.version = stored?.version ?? 0
        decision.alias = nil
        decision.record = nil
        decision.before = nil
        decision.acks = []
        decision.machine = machine
        return success(machine.call, outcome)
    }

    /// Glare: when the invitee rings this user alone, the invite is the acceptance of that call. Whoever commits
    /// second finds the other one's claim, also when both invite at the same instant on two replicas.
    private func judgeGlare(
        _ invite: Request.Invite, _ received: ReceivedRequest, _ callID: CallID, _ stored: StoredCall?,
        _ decision: inout Decision
    ) throws -> Response.Outcome? {
        let user = received.device.userID
        let claim = Claim.ringing(from: invite.invitees[0], to: user)
        let holder = try store.holders(of: [claim])[0]
        decision.expectedHolders.append((claim, holder))
        guard let holder, let other = try store.load([holder])[0], case .call(let call) = other.record,
            call.isLive, call.inviter == invite.invitees[0], call.members.count == 2,
            let member = call.member(user)
        else { return nil }
        if let known = call.outcome(of: received.key) {
            return success(call, known)
        }
        guard member.state.isPending else { return nil }

        var machine = CallMachine(call: call, settings: settings.calls)
        var context = CallMachine.Context(key: received.key, now: now)
        context.activeElsewhere = try activeCall(of: user, besides: call, &decision)
        try machine.acceptRequested(Request.Accept(callID: holder, extendedData: invite.extendedData), context)
        let outcome = RequestOutcome(key: received.key, offline: [], merged: true)
        machine.remember(outcome)
        adopt(&decision, call, acks: other.acks)
        decision.alias = (callID, received.key, stored?.version ?? 0)
        decision.version = other.version
        decision.record = nil
        decision.machine = machine
        return success(machine.call, outcome)
    }

    /// The live advanced call in which the user is accepted, if it is another one. The commit will fail if that
    /// changes meanwhile.
    func activeCall(
        of user: UserID, besides call: Call?, _ decision: inout Decision
    ) throws(StoreError) -> CallID? {
        // A common call ends with its answer, so accepting one takes no user out of another call.
        guard settings.calls.oneActiveCall, call?.mode != .common else { return nil }
        let claim = Claim.activeCall(of: user)
        let holder = try store.holders(of: [claim])[0]
        if let holder, holder != call?.callID, case .call(let other)? = try store.load([holder])[0]?.record,
            other.isLive, other.mode == .advanced, other.member(user)?.state == .accepted
        {
            return holder
        }
        // A holder that no longer counts may be replaced, but only that one.
        decision.expectedHolders.removeAll { $0.claim == claim }
        decision.expectedHolders.append((claim, holder))
        return nil
    }

    /// Takes and gives up what follows from the call's new state.
    func setClaims(_ commit: inout Commit, before: Call?, after call: Call) {
        if call.mode == .advanced, settings.calls.oneActiveCall {
            for member in call.members {
                let was = before.map { $0.isLive && $0.member(member.userID)?.state == .accepted } ?? false
                let isNow = call.isLive && member.state == .accepted
                if isNow && !was { commit.claims.append(.activeCall(of: member.userID)) }
                if was && !isNow { commit.releases.append(.activeCall(of: member.userID)) }
            }
        }
        let claim = Claim.ringing(from: call.inviter, to: call.members[1].userID)
        let was = before.map(isRingingPair) ?? false
        let isNow = isRingingPair(call)
        if isNow && !was { commit.claims.append(claim) }
        if was && !isNow { commit.releases.append(claim) }
    }

    /// One user rings another one alone.
    private func isRingingPair(_ call: Call) -> Bool {
        call.isLive && call.members.count == 2 && call.members[1].state.isPending
    }

    /// Those of `users` who are calling, being called or in a live call.
    private func busy(_ users: [UserID]) throws(StoreError) -> [UserID] {
        var busy: [UserID] = []
        for user in users {
            let callIDs = try store.calls(
                of: user, endedAfter: .max - 1, limit: ServiceBounds.callsPerBusyCheck)
            let isBusy = try store.load(callIDs).contains { stored in
                guard case .call(let call)? = stored?.record else { return false }
                return call.isLive && call.member(user)?.state.isLive ?? false
            }
            if isBusy { busy.append(user) }
        }
        return busy
    }

    /// Those of `users` without an online device: they ring when they come online.
    func offline(_ users: [UserID]) throws(StoreError) -> [UserID] {
        let presence = try presence(of: users)
        return users.filter { user in
            !(presence[user] ?? []).contains { $0.isReachable(at: now, lease: settings.presence.lease) }
        }
    }
}
