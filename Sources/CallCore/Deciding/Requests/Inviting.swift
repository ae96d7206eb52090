import SignalingProtocol

/// The facts about other calls that an invitation needs: claims and busy users. `Glare.swift` handles glare.
extension Deciding {
    func decideInvite(
        _ invite: Request.Invite, _ received: ReceivedRequest, _ callID: CallID, _ stored: StoredRecord?,
        _ decision: inout Decision
    ) throws -> Response.Outcome {
        try CallMachine.check(invite, by: received.device.userID)
        if decision.call != nil {
            // Resends were answered before. An alias of a merge that did not come about is decided again.
            guard decision.subject.alias?.origin == received.key else { throw SignalingError.callExists }
            // Earlier events of this decision, under the same id, belong to the call of the alias. They must be written
            // first.
            guard decision.answered.isEmpty else { throw SignalingError.unavailable }
        }
        let user = received.device.userID
        var isCancelled = false
        if case .cancelled(let owner, let at)? = decision.subject.record ?? stored?.record {
            isCancelled = owner == user && at + settings.cancelMemory > now
        }
        if invite.isMergeable, !isCancelled {
            if let merged = try decideGlare(invite, received, callID, stored, &decision) { return merged }
        }
        let withheld = try facts.blocking(user, among: invite.invitees)
        let reserved = decision.reserved.count
        let limited = try limit(
            invite.invitees, by: user, bytes: invite.approximateBytes, withheld: withheld, &decision)
        let ringing = isCancelled ? [] : invite.invitees.filter { !limited.contains($0) }
        try checkQuotas(of: user, inviting: ringing, &decision)
        let active = try activeCall(of: user, besides: [callID], &decision)
        let busy = invite.ifBusy == .reject ? try busy(invite.invitees) : []
        let known = try invitees(
            invite.invitees, members: [user] + invite.invitees, limited: limited, withheld: withheld)
        var machine = try CallMachine.invited(
            CallMachine.Invitation(callID: callID, invite: invite, busy: busy, isCancelled: isCancelled),
            CallMachine.Acting(key: received.key, now: now, digest: received.request.body.digest), known,
            activeElsewhere: active, settings: settings.calls)
        let errors = invite.invitees.compactMap(known.problem)
        decision.giveBack(butFor: reserved, invitees: errors.map(\.userID))
        let invited = invite.invitees.filter { user in !errors.contains { $0.userID == user } }
        let outcome = RequestOutcome(
            key: received.key, type: received.request.body.type, offline: try offline(invited, withheld: withheld),
            errors: errors)
        machine.remember(outcome)
        // All earlier results of this decision under this id belonged to the call of the alias.
        decision.subject = Decision.Subject(version: stored?.version ?? 0, machine: machine)
        return success(machine.call, outcome)
    }

    /// Returns the other live advanced call in which the user is accepted; nil without such a call. The commit fails if
    /// this changes meanwhile.
    func activeCall(
        of user: UserID, besides own: [CallID], _ decision: inout Decision
    ) throws(Undecided) -> CallID? {
        guard settings.calls.oneActiveCall else { return nil }
        let claim = Claim.activeCall(of: user)
        let holder = try deservedHolder(of: claim, besides: own, &decision) { other in
            other.isLive && other.mode == .advanced && other.member(user)?.state == .accepted
        }
        return holder?.id.callID
    }

    /// Checks the holder of a claim. Returns the holder's record if the holder deserves the claim. Otherwise the commit
    /// expects exactly this holder, and the holder is fenced first: a write raises the version of the holder's record.
    /// A commit under way that would make the holder deserve the claim then loses, and the writer of that commit
    /// decides again and finds the claim taken.
    func deservedHolder(
        of claim: Claim, besides own: [CallID], _ decision: inout Decision, deserves: (Call) -> Bool
    ) throws(Undecided) -> StoredRecord? {
        let known = try facts.holder(of: claim)
        decision.expectedHolders.removeAll { $0.claim == claim }
        decision.expectedHolders.append((claim, known))
        guard let holder = known, !own.contains(holder.callID) else { return nil }
        let stored = try facts.records([holder.callID])[0]
        if let stored, case .call(let call) = stored.record, deserves(call) { return stored }
        // An unreadable record deserves no claim, and no coordinator can change such a record.
        if stored?.record == .unreadable || facts.fenced.contains(holder) { return nil }
        // A holder without a call is most likely about to be committed. Two coordinators that always fenced each
        // other's invitations at once would never finish.
        if stored?.isCall != true, facts.looks[claim, default: 0] < ServiceBounds.looksBeforeFencing {
            throw .wait(claim)
        }
        throw .fence(claim)
    }

    /// Returns the users in `users` who are calling, are being called or are in a live call.
    private func busy(_ users: [UserID]) throws(Undecided) -> [UserID] {
        let lists = try facts.liveCalls(of: users)
        _ = try facts.records(lists.flatMap(\.self))
        var busy: [UserID] = []
        for (user, callIDs) in zip(users, lists) {
            let isBusy = try facts.records(callIDs).contains { stored in
                guard case .call(let call)? = stored?.record else { return false }
                return call.isLive && call.member(user)?.state.isLive ?? false
            }
            if isBusy { busy.append(user) }
        }
        return busy
    }
}

extension Request.Invite {
    /// The approximate size, in bytes, of the event that rings an invitee.
    var approximateBytes: Int { 400 + 150 * invitees.count + jsonBytes(of: extendedData) }

    /// Whether the invite rings a single user and may become the acceptance of a call in which that user rings this
    /// user.
    package var isMergeable: Bool { glare == .merge && invitees.count == 1 }
}

/// Returns the number of bytes that a text takes in JSON.
func jsonBytes(of text: String?) -> Int {
    text?.utf8.reduce(0) { count, byte in
        switch byte {
        case ..<0x20: count + 6
        case UInt8(ascii: "\""), UInt8(ascii: "\\"): count + 2
        default: count + 1
        }
    } ?? 0
}
