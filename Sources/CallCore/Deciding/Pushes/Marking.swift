import SignalingProtocol

/// The users whose devices may need pushes (docs/decisions/0021). Without pushes in the deployment, these functions
/// need no facts.
extension Deciding {
    /// Returns the users in `users` with a push registration; nil when the deployment sends no pushes.
    func pushable(_ users: [UserID]) throws(Undecided) -> [UserID]? {
        guard facts.isPushing else { return nil }
        return try facts.registered(among: users)
    }

    /// Decides that a device of the user has registered. The registration is stored already, so each later invitation
    /// sees the registration.
    func decideRegistered(_ user: UserID, _ decision: inout Decision) {
        // The push queue also gets a call of a user who is marked already because of another device.
        mark([user], &decision)
    }

    /// Decides that a device went offline. A device that has not acked the invitation gets a push at once.
    func decideDeparted(_ device: DeviceAddress, _ decision: inout Decision) {
        guard let call = decision.call, call.isLive, let member = call.member(device.userID), member.mayBePushed,
            member.state.isPending
        else { return }
        let acked = decision.subject.acks.first { $0.device == device }?.revision ?? 0
        if acked < member.invitedRevision { decision.asksForPushes = true }
    }

    /// Marks users who registered while an invitation was being decided: the invitation may not have seen the
    /// registration, and the registration may not have seen the invitation.
    func decideUnmarked(_ decision: inout Decision) throws(Undecided) {
        guard let unmarked = decision.subject.machine?.unmarked, !unmarked.isEmpty else { return }
        guard let pushable = try pushable(unmarked), !pushable.isEmpty else { return }
        mark(pushable, &decision)
    }

    private func mark(_ users: [UserID], _ decision: inout Decision) {
        if decision.subject.machine?.markPushable(users) ?? false { decision.asksForPushes = true }
    }
}
