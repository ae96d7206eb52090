import SignalingProtocol

extension Call {
    /// A sentence about the invariant that the call breaks; nil when the call breaks none. `CallMachine` asserts the
    /// invariants after each event, and simulated coordinators check each record that they write.
    package var brokenInvariant: String? {
        if members.count < 2 || members[0].userID != inviter {
            return "the inviter is the first of two members or more"
        }
        if Set(members.map(\.userID)).count < members.count { return "a user is a member once" }
        if createdAt > updatedAt { return "the call is changed before it was made" }
        if (state == .active) != (acceptedAt != nil), isLive { return "the call is active since an invitee accepted" }
        if isLive != (endedAt == nil) || isLive != (endReason == nil) { return "an ended call has its time and reason" }
        if !isLive, callerLostAt != nil || heartbeatDue != nil || emptySince != nil {
            return "an ended call waits for nothing"
        }
        if !isLive, endReason != .hangup, members.contains(where: \.state.isPending) {
            return "nobody is pending in an ended call unless a member ended it"
        }
        if emptySince != nil, mode == .common || autoEnd || members.contains(where: \.state.isLive) {
            return "the empty call has no live member"
        }
        if isLive, mode == .advanced, heartbeatDue == nil, members.contains(where: { $0.state == .accepted }) {
            return "accepted members are checked for silence"
        }
        return members.lazy.compactMap { $0.brokenInvariant(in: self) }.first
    }
}

extension Member {
    fileprivate func brokenInvariant(in call: Call) -> String? {
        if max(invitedRevision, changedRevision, handledRevision) > call.revision {
            return "\(userID): a later revision"
        }
        if updatedAt > call.updatedAt { return "\(userID): changed after the call" }
        if state.isPending, invitedBy == nil || expiresAt == nil { return "\(userID): pending without an invitation" }
        if state == .accepted, device == nil { return "\(userID): accepted on no device" }
        if mayBePushed, isWithheld || invitedRevision == 0 { return "\(userID): pushed, and not rung" }
        if state == .quit, call.mode == .common { return "\(userID): quit a common call" }
        return nil
    }
}

extension CallMachine {
    /// Asserts the invariants. Each event defers this call.
    func check() {
        assert(call.brokenInvariant == nil, "\(call.callID): \(call.brokenInvariant ?? "")")
    }
}
