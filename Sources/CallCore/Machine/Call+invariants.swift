import SignalingProtocol

extension Call {
    /// What is wrong with the call whatever has happened to it; nil when nothing is. Asserted after each event of `CallMachine`, and
    /// of each record that a simulated coordinator writes.
    package var brokenInvariant: String? {
        if members.count < 2 || members[0].userID != inviter {
            return "the inviter is the first of two members or more"
        }
        if Set(members.map(\.userID)).count < members.count { return "a user is a member once" }
        if createdAt > updatedAt { return "it is changed before it was made" }
        if (state == .active) != (acceptedAt != nil), isLive { return "it is active since an invitee accepted" }
        if isLive != (endedAt == nil) || isLive != (endReason == nil) { return "an ended call has its time and reason" }
        if !isLive, callerLostAt != nil || heartbeatDue != nil || emptySince != nil {
            return "an ended call waits for nothing"
        }
        if !isLive, endReason != .hangup, members.contains(where: \.state.isPending) {
            return "nobody is pending in an ended call unless a member ended it"
        }
        if emptySince != nil, mode == .common || autoEnd || members.contains(where: \.state.isLive) {
            return "the empty call is one that nobody is in"
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
    /// To be deferred by each event.
    func check() {
        assert(call.brokenInvariant == nil, "\(call.callID): \(call.brokenInvariant ?? "")")
    }
}
