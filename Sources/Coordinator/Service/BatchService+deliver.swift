import CallCore
import CallStore
import SignalingProtocol

/// Delivers committed decisions: encodes their messages, and adds to the timelines and the counters.
extension BatchService {
    /// Sends the messages of a decision. Deliveries to other users go first: the phone rings before its inviter
    /// gets the response. A user with a response receives events after the response, since the response has the
    /// revision of the served request. `presence` is the presence of `decision.told` after the commit, or nil when
    /// presence could not be read: the resends then deliver the events.
    func deliver(_ decision: borrowing Decision, of callID: CallID, _ presence: Presence?) {
        context.counters.add(decision.counts)
        context.budgets.note(decision.counts)
        if decision.isUnreadable { context.setAside.insert(.call(callID), now: now) }
        guard let call = decision.call else { return deliverReplies(decision, nil) }
        note(decision, call)
        for (milestone, role) in decision.observed { context.counters.durations.add(milestone, role: role) }
        for ack in decision.ringAcks {
            context.counters.durations.add(.ringAck, ack.after * 1_000, ack.isAfterPush ? "push" : "connected")
        }
        var ringsSince = decision.ringsSince
        let deliveries =
            presence.map { Delivering(settings: settings, now: now).deliveries(of: decision, call, $0) } ?? []
        let snapshot = call.snapshot
        for device in decision.stale { context.budgets.answered(device, staleOn: call.callID, now: now) }
        for delivery in deliveries where !decision.answered.contains(delivery.user) {
            deliverEvent(delivery, of: call, snapshot, decision.subject.acks, &ringsSince)
        }
        deliverReplies(decision, call)
        for delivery in deliveries where decision.answered.contains(delivery.user) {
            deliverEvent(delivery, of: call, snapshot, decision.subject.acks, &ringsSince)
        }
    }

    private func deliverReplies(_ decision: borrowing Decision, _ call: Call?) {
        for reply in decision.replies {
            guard let call, mayHaveMediaSession(reply) else {
                deliverReply(reply)
                continue
            }
            deliverReply(withMediaSession(reply, of: call))
        }
        for passed in decision.signals {
            let payload = DownMessage.signal(passed.signal).encoded()
            charge(payload.count * passed.devices.count, to: passed.signal.from.userID)
            for device in passed.devices {
                send(
                    OutboundMessage(
                        topic: settings.topics.down(device), payload: payload,
                        expirySeconds: ServiceBounds.messageExpirySeconds, brokers: brokers(of: device)))
            }
        }
    }

    /// Sends a response and charges the user of the request. Any holder of its key may send a ring check, so that
    /// ring checks have a limit of their own and are not charged.
    func deliverReply(_ reply: Reply) {
        let message = context.encoder.message(reply)
        if !reply.isOfRingCheck { charge(message.payload.count, to: reply.device.userID) }
        send(message)
    }

    private func deliverEvent(
        _ delivery: Delivery, of call: Call, _ snapshot: CallSnapshot, _ acks: [DeviceAck], _ ringsSince: inout Int64?
    ) {
        context.counters.add(delivery.isResend ? .eventsResent : .eventsSent, delivery.event.name.rawValue)
        if delivery.isTraced || !delivery.isResend {
            record(
                [
                    .send(
                        delivery.event.name, to: delivery.user, device: delivery.device, revision: call.revision,
                        online: delivery.online, isResend: delivery.isResend)
                ], of: call)
        }
        // The counters and the timeline above count an event to a former member as if the event was sent.
        guard call.hasMember(delivery.user) else { return }
        let event = call.event(delivery.event, for: delivery.user, now: now, snapshot: snapshot)
        let expiry = event.expiresIn.map { UInt32(clamping: max(1, $0 / 1000)) } ?? ServiceBounds.messageExpirySeconds
        let device = delivery.device.map { DeviceAddress(userID: delivery.user, deviceID: $0) }
        let topic = device.map(settings.topics.down) ?? settings.topics.down(delivery.user)
        // When too much is on its way to the device already, the event goes without `extendedData`, and the device can
        // ask for that data. An event that follows from the user's own ack counts as the inviter's; for an event that a
        // timer sends, the inviter's room decides as well.
        let cause = delivery.cause == delivery.user ? call.inviter : delivery.cause
        // A user in the call receives the full event, so that members of the call hear all that other members say. For
        // a user without a device, no bytes wait anywhere, so that the full event is published as well.
        let hasReader = delivery.online > 0 || delivery.device != nil
        let most =
            call.member(delivery.user)?.state == .accepted || !hasReader
            ? Limits.downBytes : context.budgets.room(from: cause ?? call.inviter, to: delivery.user, now: now)
        let (payload, isTrimmed) = context.encoder.bounded(.event(event), most: most)
        if let budget = delivery.budget { context.budgets.charge(payload.count, to: budget, now: now) }
        if delivery.isResend {
            let target = ResendPacing.Target(delivery.user, delivery.device)
            context.budgets.charge(payload.count - call.approximateBytes, resentTo: target, now: now)
        }
        if let cause, hasReader {
            context.budgets.charge(payload.count, from: cause, to: delivery.user, now: now)
        }
        var message = OutboundMessage(
            topic: topic, payload: payload, expirySeconds: expiry,
            brokers: device.map(brokers) ?? brokers(of: delivery.user, acks), isTrimmed: isTrimmed)
        if let readAt = ringsSince, delivery.event.name == .invited, !delivery.isResend, hasReader {
            message.timing = .ring(readAt: readAt)
            ringsSince = nil
        }
        send(message)
    }

    // MARK: Timelines (docs/protocol.md, section 6)

    /// Adds the decision's steps to the timeline, once the decision is committed.
    private func note(_ decision: borrowing Decision, _ call: Call) {
        record(steps(of: decision, call), of: call, origins: context.onTimelineEnd == nil ? [:] : origins(decision))
    }

    /// Returns the origins of the requests among the decision's steps, by the places of the steps. The replies stand in
    /// the order of their steps; some replies have no step.
    private func origins(_ decision: borrowing Decision) -> [Int: TraceOrigin] {
        var origins: [Int: TraceOrigin] = [:]
        var replies = decision.replies[...]
        let done = context.stopwatch()
        for (place, step) in decision.steps.enumerated() {
            guard case .request(let device, let type, let outcome) = step,
                let found = replies.firstIndex(where: { $0.isTold(as: type, outcome, by: device) }),
                let origin = replies[found].path.origin
            else { continue }
            replies = replies[(found + 1)...]
            origins[place] = TraceOrigin(
                parent: origin.parent, waited: max(0, nowReadAt - origin.readAt), served: max(0, done - nowReadAt))
        }
        return origins
    }

    private func steps(of decision: borrowing Decision, _ call: Call) -> [TraceEntry.Step] {
        guard decision.isVisiblyChanged else { return decision.steps }
        let known = decision.subject.before?.revision ?? 0
        let changes = call.members.filter { $0.changedRevision > known }.map { member in
            // `extendedData` does not explain a timeline, and is long.
            var change = member.change
            change.extendedData = nil
            return change
        }
        return decision.steps + [
            .transition(
                revision: call.revision, state: call.state, endReason: call.endReason, actor: call.actor,
                changes: changes)
        ]
    }

    /// Adds to the call's timeline, and charges the entries to the call's inviter. Coordinators read times from the
    /// store's clock that differ by some milliseconds, so that an entry is never dated before the call's last update.
    func record(
        _ steps: @autoclosure () -> [TraceEntry.Step], of call: Call, origins: [Int: TraceOrigin] = [:]
    ) {
        guard context.recorder.isTraced(call.callID) else { return }
        let steps = steps()
        context.recorder.add(steps, origins, of: call.callID, at: max(now, call.updatedAt))
        context.usage.add(entries: steps.count, of: call.callID, to: call.inviter)
    }
}

extension Reply {
    /// Whether this is the response to a request with this step.
    fileprivate func isTold(as type: String, _ outcome: String, by device: DeviceAddress) -> Bool {
        guard self.device == device, path.origin?.type == type, case .response(_, let own) = content else {
            return false
        }
        return own.name == outcome
    }
}

extension Decision {
    /// The time at which the coordinator read the request that rings users, by the boot clock, in microseconds; nil
    /// when no request of the decision rings users.
    fileprivate var ringsSince: Int64? {
        for reply in replies {
            guard case .response(_, .success) = reply.content, let origin = reply.path.origin,
                origin.type == "call.invite" || origin.type == "call.add"
            else { continue }
            return origin.readAt
        }
        return nil
    }
}
