import SignalingProtocol

/// Whose devices may have to be woken (docs/decisions/0021). Nothing is asked for where the deployment pushes nothing.
extension Deciding {
    /// Those of `users` of whom a device is registered; nil when the deployment pushes nothing.
    func pushable(_ users: [UserID]) throws(Undecided) -> [UserID]? {
        guard facts.isPushing else { return nil }
        let unknown = users.filter { facts.registered[$0] == nil }
        guard unknown.isEmpty else { throw .needs(Lookup(registered: unknown.unique)) }
        return users.filter { facts.registered[$0] ?? false }
    }

    /// The registration is written: whoever invites the user from now on sees it.
    func decideRegistered(_ user: UserID, _ decision: inout Decision) {
        // Also of one who is marked already, because of another device.
        mark([user], &decision)
    }

    /// A device that goes before it has acked the invitation is woken at once.
    func decideDeparted(_ device: DeviceAddress, _ decision: inout Decision) {
        guard let call = decision.call, call.isLive, let member = call.member(device.userID), member.mayBePushed,
            member.state.isPending
        else { return }
        let acked = decision.subject.acks.first { $0.device == device }?.revision ?? 0
        if acked < member.invitedRevision { decision.asksForPushes = true }
    }

    /// Who registered while somebody was about to invite the user may have been seen by neither.
    func decideUnmarked(_ decision: inout Decision) throws(Undecided) {
        guard let unmarked = decision.subject.machine?.unmarked, !unmarked.isEmpty else { return }
        guard let pushable = try pushable(unmarked), !pushable.isEmpty else { return }
        mark(pushable, &decision)
    }

    private func mark(_ users: [UserID], _ decision: inout Decision) {
        if decision.subject.machine?.markPushable(users) ?? false { decision.asksForPushes = true }
    }
}
