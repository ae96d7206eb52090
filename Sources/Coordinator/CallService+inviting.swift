import CallCore
import CallStore
import SignalingProtocol

/// What an invitation needs to know of other calls: claims, busy users, the other side of a glare.
extension CallService {
    func judgeInvite(
        _ invite: Request.Invite, _ received: ReceivedRequest, _ callID: CallID, _ stored: StoredRecord?,
        _ decision: Decision
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
            if let merged = try judgeGlare(invite, received, callID, stored, decision) { return merged }
        }
        var context = CallMachine.Context(key: received.key, now: now)
        context.withheld = try blocking(user, among: invite.invitees)
        let reserved = decision.reserved.count
        try limit(invite.invitees, by: user, &context, decision)
        let ringing = invitation.isCancelled ? 0 : invite.invitees.count - context.limited.count
        try checkQuotas(of: user, inviting: ringing, decision)
        context.activeElsewhere = try activeCall(of: user, besides: [callID], decision)
        if invite.ifBusy == .reject { invitation.busy = try busy(invite.invitees) }
        try lookUp([user] + invite.invitees, inviting: invite.invitees, &context)
        var machine = try CallMachine.invited(invitation, context, settings: settings.calls)
        let errors = invite.invitees.compactMap(context.problem)
        giveBack(decision, butFor: reserved, invitees: errors.map(\.userID))
        let invited = invite.invitees.filter { user in !errors.contains { $0.userID == user } }
        let outcome = RequestOutcome(
            key: received.key, offline: try offline(invited, withheld: context.withheld), errors: errors)
        machine.remember(outcome)
        decision.version = stored?.version ?? 0
        decision.alias = nil
        decision.record = nil
        decision.before = nil
        decision.acks = []
        // They were of the call to which the alias pointed.
        decision.notes = []
        decision.machine = machine
        return success(machine.call, outcome)
    }

    /// Glare: when the invitee rings this user alone, the invite is the acceptance of that call. Whoever commits
    /// second finds the other one's claim, also when both invite at the same instant on two replicas.
    private func judgeGlare(
        _ invite: Request.Invite, _ received: ReceivedRequest, _ callID: CallID, _ stored: StoredRecord?,
        _ decision: Decision
    ) throws -> Response.Outcome? {
        let user = received.device.userID
        let claim = Claim.ringing(from: invite.invitees[0], to: user)
        func isMergeable(_ other: Call) -> Bool {
            if other.outcome(of: received.key) != nil { return true }
            return other.isLive && other.inviter == invite.invitees[0] && other.members.count == 2
                && other.member(user)?.state.isPending ?? false
        }
        var holder: StoredRecord?
        if decision.alias != nil, let target = decision.call?.callID {
            // Another copy of this invite is about to merge into the call to which its alias points, or has done so since
            // that was loaded.
            holder = try store.load([target])[0].flatMap { stored in
                if case .call(let call) = stored.record, isMergeable(call) { stored } else { nil }
            }
        }
        if holder == nil {
            holder = try deservedHolder(of: claim, besides: [callID], decision, deserves: isMergeable)
        }
        if holder == nil {
            // Who rings somebody in two calls has one claim: when the later call is over, the earlier one rings on.
            let callIDs = try liveCalls(of: [user], limit: ServiceBounds.callsPerBusyCheck)[0]
            holder = try store.load(callIDs.filter { $0 != callID }).compactMap(\.self).first { stored in
                if case .call(let call) = stored.record { isMergeable(call) } else { false }
            }
        }
        guard let other = holder, case .call(let call) = other.record else { return nil }
        if let known = call.outcome(of: received.key) {
            return success(call, known)
        }
        var machine = CallMachine(call: call, settings: settings.calls)
        var context = CallMachine.Context(key: received.key, now: now)
        if call.mode == .advanced {
            context.activeElsewhere = try activeCall(of: user, besides: [call.callID, callID], decision)
        }
        try machine.acceptRequested(Request.Accept(callID: call.callID, extendedData: invite.extendedData), context)
        let outcome = RequestOutcome(key: received.key, offline: [], merged: true)
        machine.remember(outcome)
        adopt(decision, call, acks: other.acks)
        decision.alias = (callID, received.key, stored?.version ?? 0)
        decision.version = other.version
        decision.record = nil
        decision.machine = machine
        return success(machine.call, outcome)
    }

    /// The live advanced call in which the user is accepted, if it is another one. The commit will fail if that
    /// changes meanwhile.
    func activeCall(
        of user: UserID, besides own: [CallID], _ decision: Decision
    ) throws(StoreError) -> CallID? {
        guard settings.calls.oneActiveCall else { return nil }
        let claim = Claim.activeCall(of: user)
        let holder = try deservedHolder(of: claim, besides: own, decision) { other in
            other.isLive && other.mode == .advanced && other.member(user)?.state == .accepted
        }
        return holder?.id.callID
    }

    /// Looks at who holds a claim. Returns the record of the holder if it deserves the claim. Otherwise the commit expects
    /// this holder and no other, and the holder is fenced first: its version is bumped, so that whoever is about to
    /// make it deserve the claim loses that commit, and finds the claim taken.
    func deservedHolder(
        of claim: Claim, besides own: [CallID], _ decision: Decision, deserves: (Call) -> Bool
    ) throws(StoreError) -> StoredRecord? {
        for attempt in 0..<ServiceBounds.commitAttempts {
            let holder = try holder(of: claim)
            decision.expectedHolders.removeAll { $0.claim == claim }
            decision.expectedHolders.append((claim, holder))
            guard let holder, !own.contains(holder.callID) else { return nil }
            let stored = try store.load([holder.callID])[0]
            if let stored, case .call(let call) = stored.record, deserves(call) { return stored }
            // A holder without a call is most likely about to be committed; two replicas that fenced each other's
            // invitations at once would never come to an end.
            if stored?.isCall != true, attempt < ServiceBounds.looksBeforeFencing {
                pauseBriefly()
            } else if try fence(holder.callID, stored) {
                return nil
            }
        }
        throw StoreError("the holder of a claim keeps changing")
    }

    private func fence(_ callID: CallID, _ stored: StoredRecord?) throws(StoreError) -> Bool {
        // A record that nobody can read deserves nothing and cannot be changed by anybody.
        guard stored?.record != .unreadable else { return true }
        var deadline: Milliseconds?
        var expiresAt: Milliseconds? = now + ServiceBounds.voidRecordLife
        if case .call(let call)? = stored?.record {
            deadline = CallMachine(call: call, settings: settings.calls).nextDeadline
            expiresAt = call.endedAt.map { $0 + settings.historyRetention }
        }
        let commit = Commit(
            .call(callID), record: stored?.record ?? .void, expected: stored?.version ?? 0, deadline: deadline,
            expiresAt: expiresAt)
        return try self.commit([commit])[0]
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
        call.isLive && call.members.count == 2 && call.members[1].state.isPending && !call.members[1].isWithheld
    }

    /// Those of `users` who are calling, being called or in a live call.
    private func busy(_ users: [UserID]) throws(StoreError) -> [UserID] {
        var busy: [UserID] = []
        for (user, callIDs) in zip(users, try liveCalls(of: users, limit: ServiceBounds.callsPerBusyCheck)) {
            let isBusy = try store.load(callIDs).contains { stored in
                guard case .call(let call)? = stored?.record else { return false }
                return call.isLive && call.member(user)?.state.isLive ?? false
            }
            if isBusy { busy.append(user) }
        }
        return busy
    }

    /// Those of `users` without an online device: they ring when they come online. Who is not to be reached looks the same.
    func offline(_ users: [UserID], withheld: [UserID] = []) throws(StoreError) -> [UserID] {
        let presence = try presence(of: users)
        return users.filter { user in
            withheld.contains(user)
                || !(presence[user] ?? []).contains { $0.isReachable(at: now, lease: settings.presence.lease) }
        }
    }
}
