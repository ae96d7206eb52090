import SignalingProtocol

extension CallMachine {
    /// Data outside of the call that a deadline of the call needs.
    package struct DeadlineContext: Sendable {
        package let now: Milliseconds
        /// The time of the last sign of life of each accepted member.
        package let heard: [UserID: Milliseconds]
        /// The time since when the service has been listening without a break. A member is not responsible for silence
        /// before this time.
        package let listeningSince: Milliseconds
        /// Whether the inviting device is online after all.
        package let isInviterOnline: Bool

        package init(
            now: Milliseconds, heard: [UserID: Milliseconds], listeningSince: Milliseconds, isInviterOnline: Bool
        ) {
            self.now = now
            self.heard = heard
            self.listeningSince = listeningSince
            self.isInviterOnline = isInviterOnline
        }
    }

    /// Serves every deadline that has come, in their order, except resends: `Deciding.decideResends` serves resends
    /// and reports them by `delivered`.
    package mutating func deadlineReached(_ context: DeadlineContext) {
        defer { check() }
        while let next = nextTransition, next.at <= context.now {
            switch next.kind {
            case .expiry: invitationsExpired(context)
            case .notReceived: invitationsNotReceived(context)
            case .callerLost: callerStayedAway(context)
            case .heartbeat: heartbeatsChecked(context)
            case .empty: emptyCallExpired(context)
            }
        }
    }

    private enum DeadlineKind { case expiry, notReceived, callerLost, heartbeat, empty }

    /// The earliest deadline that can change the call.
    private var nextTransition: (at: Milliseconds, kind: DeadlineKind)? {
        guard call.isLive else { return nil }
        var next: (at: Milliseconds, kind: DeadlineKind)?
        func consider(_ at: Milliseconds?, _ kind: DeadlineKind) {
            if let at, at < next?.at ?? .max { next = (at, kind) }
        }
        for member in call.members where member.state.isPending {
            consider(member.expiresAt, .expiry)
            if member.state == .inviting { consider(member.notReceivedAt, .notReceived) }
        }
        consider(call.callerLostAt, .callerLost)
        consider(call.heartbeatDue, .heartbeat)
        consider(call.emptySince.map { $0 + settings.emptyCallTimeout }, .empty)
        return next
    }

    /// The time at which this call must be served next, including resends (docs/architecture.md, principle 4).
    package var nextDeadline: Milliseconds? {
        guard let transition = nextTransition?.at else { return call.deliveryDue }
        return min(transition, call.deliveryDue ?? .max)
    }

    /// Whether the next deadline is only a resend.
    package var isNextDeadlineResend: Bool {
        guard let delivery = call.deliveryDue else { return false }
        return nextTransition.map { $0.at > delivery } ?? true
    }

    /// Moves pending invitees whose invitation has expired to `timeout`, and ends the call when this leaves no reason
    /// to go on (section 3).
    private mutating func invitationsExpired(_ context: DeadlineContext) {
        revise(at: context.now, by: nil)
        for index in call.members.indices {
            let member = call.members[index]
            guard member.state.isPending, let expiresAt = member.expiresAt, expiresAt <= context.now else { continue }
            move(index, to: .timeout, reason: MemberState.timeout.rawValue)
        }
        endIfOver(cause: .timeout)
    }

    /// In a call with `notReceivedCheck`, moves invitees without an ack to `notYetReceived`. The time since the
    /// invitation is the request's `notReceivedAfter`, otherwise `--not-received-after` (5 s by default). The other
    /// members get `call.userStateChanged`.
    private mutating func invitationsNotReceived(_ context: DeadlineContext) {
        revise(at: context.now, by: nil)
        for index in call.members.indices {
            let member = call.members[index]
            guard member.state == .inviting, let due = member.notReceivedAt, due <= context.now else { continue }
            move(index, to: .notYetReceived, extendedData: member.extendedData)
        }
    }

    /// Cancels the pending invitations after the grace, unless the inviting device is online again (section 3, Caller
    /// lost).
    private mutating func callerStayedAway(_ context: DeadlineContext) {
        call.callerLostAt = nil
        guard !context.isInviterOnline, call.members.contains(where: \.state.isPending) else { return }
        cancelForLostCaller(now: context.now)
    }

    /// Moves accepted members without a sign of life for the permitted silence to `quit` (section 3), and finds the
    /// time of the next check.
    private mutating func heartbeatsChecked(_ context: DeadlineContext) {
        var next: Milliseconds?
        var silent: [Int] = []
        for index in call.members.indices where call.members[index].state == .accepted {
            let member = call.members[index]
            let heard = max(context.heard[member.userID] ?? 0, member.updatedAt, context.listeningSince)
            let end = heard + settings.silence(of: member.device)
            if end <= context.now {
                silent.append(index)
            } else {
                next = min(next ?? .max, end)
            }
        }
        call.heartbeatDue = next
        guard !silent.isEmpty else { return }
        revise(at: context.now, by: nil)
        for index in silent { move(index, to: .quit, reason: EndReason.heartbeatTimeout.rawValue) }
        endIfOver(cause: .heartbeatTimeout)
    }

    /// Ends an advanced call without `autoEnd` to which no member has returned. The cause of the last change is the end
    /// reason.
    private mutating func emptyCallExpired(_ context: DeadlineContext) {
        revise(at: context.now, by: nil)
        let last = call.members.max { $0.changedRevision < $1.changedRevision }
        endKeepingStates(last.flatMap(Self.endReason) ?? .quit)
    }

    private static func endReason(after member: Member) -> EndReason? {
        switch member.state {
        case .rejected: member.reason == WellKnownReason.busy ? .busy : .rejected
        case .timeout: .timeout
        case .cancelled: member.reason == EndReason.callerLost.rawValue ? .callerLost : .cancelled
        case .quit: member.reason == EndReason.heartbeatTimeout.rawValue ? .heartbeatTimeout : .quit
        case .inviting, .notYetReceived, .received, .accepted: nil
        }
    }

    /// Records that resends were served up to `now`. `next` is the time of the next resend, nil when no resend is left.
    package mutating func delivered(at now: Milliseconds, next: Milliseconds?) {
        defer { check() }
        call.deliveryServedAt = now
        call.deliveryDue = next
    }

    /// Records that a device with an open delivery came online: resends are due at `moment` at the latest.
    package mutating func scheduleDelivery(at moment: Milliseconds) {
        defer { check() }
        guard moment < call.deliveryDue ?? .max else { return }
        call.deliveryDue = moment
    }
}
