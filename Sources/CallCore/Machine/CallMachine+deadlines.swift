import SignalingProtocol

extension CallMachine {
    /// What must be known beyond the call when one of its deadlines comes.
    package struct DeadlineContext: Sendable {
        package let now: Milliseconds
        /// When each accepted member was last heard of.
        package let heard: [UserID: Milliseconds]
        /// Since when the service has been listening without a break: silence before that is not the member's.
        package let listeningSince: Milliseconds
        /// The inviting device is online after all.
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

    /// Serves every deadline that has come, each in its turn, except resends, which the shell serves by `delivered`.
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

    /// When this call next needs to be looked at, resends included (docs/architecture.md, principle 4).
    package var nextDeadline: Milliseconds? {
        guard let transition = nextTransition?.at else { return call.deliveryDue }
        return min(transition, call.deliveryDue ?? .max)
    }

    /// Nothing but resends is due at the next deadline.
    package var isNextDeadlineResend: Bool {
        guard let delivery = call.deliveryDue else { return false }
        return nextTransition.map { $0.at > delivery } ?? true
    }

    private mutating func invitationsExpired(_ context: DeadlineContext) {
        revise(at: context.now, by: nil)
        for index in call.members.indices {
            let member = call.members[index]
            guard member.state.isPending, let expiresAt = member.expiresAt, expiresAt <= context.now else { continue }
            move(index, to: .timeout, reason: MemberState.timeout.rawValue)
        }
        settle(cause: .timeout)
    }

    private mutating func invitationsNotReceived(_ context: DeadlineContext) {
        revise(at: context.now, by: nil)
        for index in call.members.indices {
            let member = call.members[index]
            guard member.state == .inviting, let due = member.notReceivedAt, due <= context.now else { continue }
            move(index, to: .notYetReceived, extendedData: member.extendedData)
        }
    }

    private mutating func callerStayedAway(_ context: DeadlineContext) {
        call.callerLostAt = nil
        guard !context.isInviterOnline, call.members.contains(where: \.state.isPending) else { return }
        cancelForLostCaller(now: context.now)
    }

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
        settle(cause: .heartbeatTimeout)
    }

    /// An advanced call without `autoEnd` that nobody came back to. The last cause is the reason.
    private mutating func emptyCallExpired(_ context: DeadlineContext) {
        revise(at: context.now, by: nil)
        let last = call.members.max { $0.changedRevision < $1.changedRevision }
        close(last.flatMap(Self.endReason) ?? .quit)
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

    /// Resends were served up to `now`; the next one is due at `next`, if any.
    package mutating func delivered(at now: Milliseconds, next: Milliseconds?) {
        defer { check() }
        call.deliveryServedAt = now
        call.deliveryDue = next
    }

    /// A device came online and is owed something: resends are due at `moment` at the latest.
    package mutating func scheduleDelivery(at moment: Milliseconds) {
        defer { check() }
        guard moment < call.deliveryDue ?? .max else { return }
        call.deliveryDue = moment
    }
}
