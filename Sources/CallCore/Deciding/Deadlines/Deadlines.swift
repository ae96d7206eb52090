import SignalingProtocol

/// Deadlines of a call: expiries, not-received checks, lost callers, silent members, resends.
extension Deciding {
    func decideDeadline(_ stored: StoredRecord?, _ decision: inout Decision) throws(Undecided) {
        if stored?.record == .unreadable {
            decision.counts.add(.unreadableRecords)
            decision.isUnreadable = true
        }
        guard let machine = decision.subject.machine, let due = machine.nextDeadline, due <= now else { return }
        decision.counts.add(.deadlines)
        let presence = try facts.presence(of: machine.call.members.map(\.userID))
        var isInviterOnline = false
        if let device = machine.call.members[0].device {
            let inviter = DeviceAddress(userID: machine.call.inviter, deviceID: device)
            isInviterOnline = try isReachable(inviter)
        }
        decision.subject.machine?.deadlineReached(
            CallMachine.DeadlineContext(
                now: now,
                heard: Dictionary((stored?.heard ?? []).map { ($0.userID, $0.at) }, uniquingKeysWith: { $1 }),
                listeningSince: facts.listeningSince, isInviterOnline: isInviterOnline))
        try decideUnmarked(&decision)
        decideResends(presence, &decision)
        // The timeline leaves out a deadline without consequences.
        if decision.isVisiblyChanged || decision.resends.contains(where: \.isTraced) {
            decision.steps.append(.deadline(late: now - due))
        }
    }

    /// Decides the due resends, and the time of the next resend.
    private func decideResends(_ presence: Presence, _ decision: inout Decision) {
        guard let call = decision.call, let due = call.deliveryDue, due <= now else { return }
        let (resends, next) = delivering.resends(of: call, decision.subject.acks, presence)
        pace(resends, of: call, &decision)
        decision.subject.machine?.delivered(at: now, next: next)
    }

    /// Decides resends of deliveries that were held back from the device.
    func decideReleased(_ device: DeviceAddress, _ decision: inout Decision) throws(Undecided) {
        guard let call = decision.call, call.hasMember(device.userID) else { return }
        let presence = try facts.presence(of: [device.userID])
        pace(delivering.resend(to: device, of: call, decision.subject.acks, presence), of: call, &decision)
    }

    /// Resends the due deliveries that the pacing of each device allows, and holds the others back.
    private func pace(_ resends: [Delivery], of call: Call, _ decision: inout Decision) {
        for delivery in resends {
            let target = ResendPacing.Target(delivery.user, delivery.device)
            let candidate = ResendPacing.Candidate(
                .call(call.callID), isRinging: delivery.event.name == .invited, createdAt: call.createdAt,
                bytes: call.approximateBytes, isFirst: delivery.isFirstResend)
            if allowances.mayResend(candidate, to: target, now: now) {
                decision.resends.append(delivery)
                decision.sentAgain.append((candidate, target))
            } else {
                decision.heldBack.append((candidate, target))
                decision.counts.add(.resendsHeldBack)
            }
        }
    }

    /// Clears the delivery deadline of an ended call after every device has acknowledged the end.
    func decideRest(_ presence: Presence, _ decision: inout Decision) {
        guard let call = decision.call, !call.isLive, call.deliveryDue != nil else { return }
        let (resends, next) = delivering.resends(of: call, decision.subject.acks, presence)
        if resends.isEmpty, next == nil { decision.subject.machine?.delivered(at: now, next: nil) }
    }

    var delivering: Delivering { Delivering(settings: settings, now: now) }
}
