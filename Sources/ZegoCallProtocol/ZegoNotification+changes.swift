import SignalingProtocol

extension ZegoNotification {
    /// Returns the notifications that follow from `changes`, which led to `call`, in order.
    ///
    /// A decline or a cancel is reported once, and no end follows. An expired invitation is not reported, since ZEGO's
    /// protocol has no notification of an expiry. A call that was cancelled before its beginning is not reported
    /// either.
    package static func told(of call: CallSnapshot, _ changes: [MemberChange]) -> [ZegoNotification] {
        let named = ZegoCall(call)
        return changes.flatMap { told(of: $0, call, named) } + ended(call, named)
    }

    private static func told(of change: MemberChange, _ call: CallSnapshot, _ named: ZegoCall) -> [ZegoNotification] {
        let user = change.userID
        let inviter = call.member(user)?.invitedBy ?? call.inviter
        // The caller is in the call from the start, so no notification is sent.
        let isCaller = inviter == user
        switch change.state {
        case .inviting: return [invited(named, to: user)]
        case .accepted: return isCaller ? [] : [accept(named, by: user, to: inviter)]
        case .rejected:
            return [decline(named, by: user, as: ZegoCall.Decline(reason: change.reason), to: inviter)]
        case .cancelled: return call.revision > 1 ? [canceled(named, to: user)] : []
        case .quit: return left(change, call, named)
        case .notYetReceived, .received, .timeout: return []
        }
    }

    /// Reports to the remaining members that a member has left. While a call of several members goes on, only the
    /// leaving of a member without heartbeats is reported.
    private static func left(_ change: MemberChange, _ call: CallSnapshot, _ named: ZegoCall) -> [ZegoNotification] {
        let others = call.members.filter { $0.userID != change.userID && $0.state == .accepted }.map(\.userID)
        if change.reason == EndReason.heartbeatTimeout.rawValue {
            return others.map { timeout(named, of: change.userID, to: $0) }
        }
        guard call.state == .ended else { return [] }
        return others.map { end(named, by: change.userID, to: $0) }
    }

    /// Reports `call.end`, which changes the state of no member.
    private static func ended(_ call: CallSnapshot, _ named: ZegoCall) -> [ZegoNotification] {
        guard call.state == .ended, call.endReason == .hangup, let by = call.endedBy else { return [] }
        return call.members.filter { $0.state.isLive && $0.userID != by }.map { end(named, by: by, to: $0.userID) }
    }
}
