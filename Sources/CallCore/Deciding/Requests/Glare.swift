import SignalingProtocol

/// Glare: two users invite each other at the same time (docs/protocol.md, section 3).
extension Deciding {
    /// Turns an invite into the acceptance of the call in which the invitee rings only this user. The second commit
    /// finds the claim of the first, even when both users invite at the same instant at two coordinators.
    func decideGlare(
        _ invite: Request.Invite, _ received: ReceivedRequest, _ callID: CallID, _ stored: StoredRecord?,
        _ decision: inout Decision
    ) throws -> Response.Outcome? {
        let user = received.device.userID
        guard let other = try ringingCall(invite, received, callID, &decision), case .call(let call) = other.record
        else {
            return nil
        }
        if let known = call.outcome(of: received.key) {
            guard call.isOutcome(known, of: received.request.body) else {
                throw SignalingError.usedID(for: known.type)
            }
            return success(call, known)
        }
        var machine = CallMachine(call: call, settings: settings.calls)
        let active =
            call.mode == .advanced ? try activeCall(of: user, besides: [call.callID, callID], &decision) : nil
        try machine.acceptRequested(
            Request.Accept(callID: call.callID, extendedData: invite.extendedData), acting(received),
            activeElsewhere: active)
        let outcome = RequestOutcome(
            key: received.key, type: received.request.body.type, digest: received.request.body.digest, offline: [],
            merged: true)
        machine.remember(outcome)
        decision.adopt(call, acks: other.acks, version: other.version, settings: settings.calls)
        decision.subject.alias = (callID, received.key, stored?.version ?? 0)
        decision.subject.record = nil
        decision.subject.machine = machine
        return success(machine.call, outcome)
    }

    /// Returns the call in which the invitee rings only this user, or the call into which a copy of this invite was
    /// merged.
    private func ringingCall(
        _ invite: Request.Invite, _ received: ReceivedRequest, _ callID: CallID, _ decision: inout Decision
    ) throws(Undecided) -> StoredRecord? {
        let user = received.device.userID
        func isMergeable(_ stored: StoredRecord) -> Bool {
            guard case .call(let other) = stored.record else { return false }
            return isMergeable(other)
        }
        func isMergeable(_ other: Call) -> Bool {
            if other.outcome(of: received.key) != nil { return true }
            return other.isLive && other.inviter == invite.invitees[0] && other.members.count == 2
                && other.member(user)?.state.isPending ?? false
        }
        if decision.subject.alias != nil, let target = decision.call?.callID {
            // Another copy of this invite is about to be merged into the call to which its alias points, or was merged
            // since that call was loaded.
            if let holder = try facts.records([target])[0], isMergeable(holder) { return holder }
        }
        let claim = Claim.ringing(from: invite.invitees[0], to: user)
        if let holder = try deservedHolder(of: claim, besides: [callID], &decision, deserves: isMergeable) {
            return holder
        }
        // A user who rings another user in two calls has a single claim. When the later call is over, the earlier call
        // rings on.
        let callIDs = try facts.liveCalls(of: [user])[0].filter { $0 != callID }
        return try facts.records(callIDs).compactMap(\.self).first(where: isMergeable)
    }
}
