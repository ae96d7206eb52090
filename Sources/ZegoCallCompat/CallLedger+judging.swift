internal import BellwireClientCore
internal import SignalingProtocol
internal import ZegoCallProtocol

/// The search for news in the calls that the service sends.
extension CallLedger {
    /// Returns the notifications that follow from this user's own state.
    func ownNews(
        _ own: MemberSnapshot, _ call: CallSnapshot, _ isElsewhere: Bool, _ known: inout Known
    ) -> [ToldNotification] {
        let rang = known.phase == .ringing
        switch own.state {
        case .inviting, .notYetReceived, .received:
            return call.state == .ended ? endedWhileRinging(call, &known) : invited(own, call, &known)
        case .accepted where own.device == device && !isElsewhere:
            (known.phase, known.invitation) = (.taken, own.expiresAt)
            return []
        case .accepted, .rejected, .cancelled:
            let isOwnDoing = own.state == .rejected && own.device == device && !isElsewhere
            let stops = rang && !isOwnDoing
            // If the invitation is still valid after all, the stopped call rings again.
            (known.phase, known.invitation) = (.over, stops ? nil : own.expiresAt)
            return stops ? [canceled(known)] : []
        // Document 003 has no notification of a timeout, and a user who has quit needs none.
        case .timeout, .quit:
            (known.phase, known.invitation) = (.over, own.expiresAt)
            return []
        }
    }

    /// Returns the notification of an invitation, once for each invitation.
    private func invited(
        _ own: MemberSnapshot, _ call: CallSnapshot, _ known: inout Known
    ) -> [ToldNotification] {
        let invitation = own.expiresAt ?? 0
        guard known.invitation != invitation else { return [] }
        (known.invitation, known.phase, known.isEnding) = (invitation, .ringing, false)
        known.call = ZegoCall(call)
        return [.invited(known.call)]
    }

    private func endedWhileRinging(_ call: CallSnapshot, _ known: inout Known) -> [ToldNotification] {
        let rang = known.phase == .ringing
        known.phase = .over
        return rang ? [.ended(callID: known.call.id, by: (call.endedBy ?? call.inviter).string)] : []
    }

    /// Returns the notifications about the other members, if this user is in the call.
    func othersNews(
        _ call: CallSnapshot, _ own: MemberSnapshot, isInformed: Bool, _ known: inout Known
    ) -> [ToldNotification] {
        let changed = known.members.news(in: call)
        guard isInformed, own.state == .accepted else { return [] }
        return changed.filter { $0.userID != user }
            .flatMap { memberNews($0, isCaller: call.inviter == user, known.call.id) }
    }

    private func memberNews(_ member: MemberSnapshot, isCaller: Bool, _ callID: String) -> [ToldNotification] {
        let id = member.userID.string
        switch member.state {
        case .accepted: return isCaller ? [.accepted(callID: callID, callee: id)] : []
        case .rejected:
            return isCaller ? [.declined(callID: callID, callee: id, ZegoCall.Decline(reason: member.reason))] : []
        case .quit:
            return member.isSilent ? [.timedOut(callID: callID, user: id)] : []
        case .inviting, .notYetReceived, .received, .cancelled, .timeout: return []
        }
    }

    /// Returns the notifications of the call's end, for a user who was in the call. An end that follows from earlier
    /// notifications, or without a notification in the document, is not reported.
    func endNews(_ call: CallSnapshot, _ own: MemberSnapshot, _ known: Known) -> [ToldNotification] {
        switch call.endReason {
        case .hangup where known.isEnding && call.endedBy == user: return []
        case .hangup: return [.ended(callID: known.call.id, by: (call.endedBy ?? call.inviter).string)]
        case .quit: return [.ended(callID: known.call.id, by: quitter(call) ?? peer(of: known))]
        // Only the inviter was in the call, and this device is the inviter's: the device itself was offline.
        case .callerLost: return [.ended(callID: known.call.id, by: user.string)]
        case .answered, .rejected, .busy, .timeout, .cancelled, .heartbeatTimeout, nil: return []
        }
    }

    private func quitter(_ call: CallSnapshot) -> String? {
        call.members.last { $0.state == .quit && $0.userID != user }?.userID.string
    }

    func peer(of known: Known) -> String {
        let parties = [known.call.caller] + known.call.callees
        return parties.first { $0.id != user.string }?.id ?? known.call.caller.id
    }

    func canceled(_ known: Known) -> ToldNotification {
        .canceled(callID: known.call.id, caller: known.call.caller.id, callee: user.string)
    }
}

extension MemberSnapshot {
    /// Whether the member quit because of missing heartbeats.
    fileprivate var isSilent: Bool { reason == EndReason.heartbeatTimeout.rawValue }
}
