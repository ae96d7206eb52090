import SignalingProtocol

extension CallMachine {
    /// Data outside of the request that the creation of a call needs.
    package struct Invitation: Sendable {
        package let callID: CallID
        package let invite: Request.Invite
        /// The invitees in other live calls, for `ifBusy: reject`.
        package let busy: [UserID]
        /// Whether an early cancel of the inviter came before this request (section 2).
        package let isCancelled: Bool

        package init(callID: CallID, invite: Request.Invite, busy: [UserID], isCancelled: Bool) {
            self.callID = callID
            self.invite = invite
            self.busy = busy
            self.isCancelled = isCancelled
        }
    }

    /// Refuses an invite that is wrong in itself, regardless of the record under its call id.
    package static func check(_ invite: Request.Invite, by user: UserID) throws(SignalingError) {
        guard !invite.invitees.contains(user) else {
            throw SignalingError(.badRequest, "invitees: must not contain the inviter")
        }
    }

    /// Handles `call.invite`: creates the call with its inviter accepted and its invitees inviting.
    package static func invited(
        _ invitation: Invitation, _ acting: Acting, _ known: Invitees, activeElsewhere: CallID?,
        settings: CallSettings
    ) throws(SignalingError) -> CallMachine {
        let invite = invitation.invite
        try check(invite, by: acting.user)
        if settings.oneActiveCall, let active = activeElsewhere { throw .alreadyInCall(active) }
        guard invite.invitees.count < settings.maxMembers else { throw .callFull(settings.maxMembers) }
        let invitees = invite.invitees.filter { known.problem(with: $0) == nil }
        guard !invitees.isEmpty else { throw SignalingError(.noInvitees, "no invitee is registered") }

        let call = Call(
            callID: invitation.callID, mode: invite.mode, media: invite.media, inviter: acting.user,
            createdAt: acting.now, timeout: invite.timeout ?? settings.invitationTimeout,
            extendedData: invite.extendedData, joinPolicy: invite.joinPolicy, autoEnd: invite.autoEnd,
            notReceivedAfter: invite.notReceivedCheck
                ? invite.notReceivedAfter.map { Milliseconds($0) * 1000 } ?? settings.notReceivedAfter : nil,
            origin: acting.key, originDigest: acting.digest)
        var machine = CallMachine(call: call, settings: settings)
        machine.revise(at: acting.now, by: acting.user)
        machine.append(acting.user, .accepted, at: acting.now, known.profiles[acting.user])
        machine.enter(0, on: acting.device, extendedData: nil)
        for user in invitees {
            machine.append(user, .inviting, at: acting.now, known.profiles[user])
            let isWithheld = known.withheld.contains(user)
            let isBusy = invite.ifBusy == .reject && invitation.busy.contains(user) && !isWithheld
            machine.invite(
                machine.call.members.count - 1, by: acting.user, timeout: call.timeout, extendedData: nil,
                ringing: !isBusy && !invitation.isCancelled, isWithheld: isWithheld,
                mayBePushed: known.pushable?.contains(user) ?? false)
            if isBusy && !invitation.isCancelled {
                machine.move(machine.call.members.count - 1, to: .rejected, reason: WellKnownReason.busy)
            }
        }
        if known.pushable != nil { machine.keepPushTexts(invite.push) }
        if invitation.isCancelled {
            machine.end(.cancelled)
        } else {
            machine.endIfOver(cause: .busy)
        }
        machine.check()
        return machine
    }

    /// Handles `call.add`. Returns an error for each user who could not be invited.
    package mutating func addRequested(
        _ add: Request.Add, _ acting: Acting, _ known: Invitees
    ) throws(SignalingError) -> [UserError] {
        defer { check() }
        _ = try acceptedIndex(acting.user)
        let failed = add.invitees.compactMap { user -> UserError? in
            if let place = index(user), call.members[place].state.isLive {
                return UserError(userID: user, code: .invalidState)
            }
            return known.problem(with: user)
        }
        let invited = add.invitees.filter { user in !failed.contains { $0.userID == user } }
        guard !invited.isEmpty else {
            throw SignalingError(.noInvitees, "every invitee is in the call already, or not registered")
        }
        let newcomers = invited.count { index($0) == nil }
        guard call.members.count(where: { $0.state.isLive }) + invited.count <= settings.maxMembers,
            call.members.count + newcomers <= settings.maxMembersEver
        else { throw .callFull(settings.maxMembers) }

        revise(at: acting.now, by: acting.user)
        for user in invited {
            if index(user) == nil { append(user, .inviting, at: acting.now, known.profiles[user]) }
            let place = index(user)!
            call.members[place].show(known.profiles[user])
            invite(
                place, by: acting.user, timeout: add.timeout ?? call.timeout, extendedData: add.extendedData,
                ringing: true, isWithheld: known.withheld.contains(user),
                mayBePushed: known.pushable?.contains(user) ?? false)
        }
        if known.pushable != nil { keepPushTexts(add.push) }
        call.emptySince = nil
        return failed
    }

    /// Starts the member's invitation. With `ringing` false, no device gets the invitation.
    private mutating func invite(
        _ index: Int, by inviter: UserID, timeout: Int, extendedData: String?, ringing: Bool, isWithheld: Bool,
        mayBePushed: Bool
    ) {
        // A member who has taken part knows the call already, no matter which user invites again.
        call.members[index].isWithheld = isWithheld && !call.members[index].hasResponded
        call.members[index].mayBePushed = mayBePushed && ringing && !call.members[index].isWithheld
        move(index, to: .inviting, extendedData: extendedData)
        call.members[index].invitedBy = inviter
        call.members[index].device = nil
        call.members[index].handledRevision = 0
        call.members[index].isHandledByCheck = false
        call.members[index].invitedRevision = ringing ? call.revision : 0
        call.members[index].expiresAt = call.updatedAt + Milliseconds(timeout) * 1000
        call.members[index].ownInvitedAt = timeout == call.timeout ? nil : call.updatedAt
        call.members[index].notReceivedAt = call.notReceivedAfter.map { call.updatedAt + $0 }
    }

    /// Handles an ack of a pending user's device, for the invitation or a later revision (section 3, `received`).
    /// Returns whether the call changed.
    package mutating func acknowledged(by user: UserID, revision: Int, now: Milliseconds) -> Bool {
        defer { check() }
        guard call.isLive, let index = index(user), !call.members[index].isWithheld else { return false }
        let member = call.members[index]
        switch member.state {
        case .inviting, .notYetReceived: break
        case .received, .accepted, .rejected, .cancelled, .timeout, .quit: return false
        }
        guard member.invitedRevision > 0, min(revision, call.revision) >= member.invitedRevision else { return false }
        revise(at: now, by: user)
        move(index, to: .received, extendedData: member.extendedData)
        return true
    }
}

extension SignalingError {
    static func callFull(_ limit: Int) -> SignalingError {
        SignalingError(.callFull, "a call has at most \(limit) members")
    }
}
