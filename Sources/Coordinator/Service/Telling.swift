import CallCore
import CallStore
import SignalingProtocol

/// Tells what was decided, once it is written: encodes it, and notes it in the timeline and the counters.
struct Telling {
    let serving: Serving

    private var context: ServiceContext { serving.context }
    private var settings: ServiceSettings { serving.settings }
    private var now: Milliseconds { serving.now }

    /// Publishes what a decision says. First what others are owed: the phone rings before its caller is answered. A user who
    /// is answered has events after the response, which is of the revision at which the request was served. `presence`: of
    /// `decision.told`, as it was after the commit; nil when it could not be read: then the events are left to the resends.
    func tell(_ decision: borrowing Decision, of callID: CallID, _ presence: Presence?) {
        context.counters.add(decision.counts)
        if decision.isUnreadable { context.setAside.insert(.call(callID), now: now) }
        guard let call = decision.call else { return tellReplies(decision) }
        note(decision, call)
        for (milestone, role) in decision.observed { context.counters.observe(milestone, role: role) }
        let owed = presence.map { Delivering(settings: settings, now: now).owed(decision, call, $0) } ?? []
        let snapshot = call.snapshot
        for device in decision.stale { context.budgets.answered(device, staleOn: call.callID, now: now) }
        for delivery in owed where !decision.answered.contains(delivery.user) { send(delivery, of: call, snapshot) }
        tellReplies(decision)
        for delivery in owed where decision.answered.contains(delivery.user) { send(delivery, of: call, snapshot) }
    }

    private func tellReplies(_ decision: borrowing Decision) {
        decision.replies.forEach(tell)
        for passed in decision.signals {
            let payload = DownMessage.signal(passed.signal).encoded()
            serving.charge(payload.count * passed.devices.count, to: passed.signal.from.userID)
            for device in passed.devices {
                serving.publish(
                    OutboundMessage(
                        topic: settings.topics.down(device), payload: payload,
                        expirySeconds: ServiceBounds.messageExpirySeconds))
            }
        }
    }

    /// Counts with who asked; a ring check is asked by whoever has its key, and is bounded for itself.
    func tell(_ reply: Reply) {
        let message = context.encoder.message(reply)
        if !reply.isOfRingCheck { serving.charge(message.payload.count, to: reply.device.userID) }
        serving.publish(message)
    }

    private func send(_ delivery: Delivery, of call: Call, _ snapshot: CallSnapshot) {
        context.counters.add(delivery.isResend ? .eventsResent : .eventsSent, delivery.owed.name.rawValue)
        if delivery.isTraced || !delivery.isResend {
            record(
                [
                    .send(
                        delivery.owed.name, to: delivery.user, device: delivery.device, revision: call.revision,
                        online: delivery.online, isResend: delivery.isResend)
                ], of: call)
        }
        // Written down as if it had gone out.
        guard call.hasMember(delivery.user) else { return }
        let event = call.event(delivery.owed, for: delivery.user, now: now, snapshot: snapshot)
        let expiry = event.expiresIn.map { UInt32(clamping: max(1, $0 / 1000)) } ?? ServiceBounds.messageExpirySeconds
        let topic =
            delivery.device.map { settings.topics.down(DeviceAddress(userID: delivery.user, deviceID: $0)) }
            ?? settings.topics.down(delivery.user)
        // A line that has too much to carry is not given what the device can ask for.
        // What a user's own ack asks for, and what a timer sends, counts with whoever made the call.
        let cause = delivery.cause == delivery.user ? call.inviter : delivery.cause
        // Whoever is in the call hears everything that its members say.
        // To a user without a device nothing waits anywhere.
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
        serving.publish(OutboundMessage(topic: topic, payload: payload, expirySeconds: expiry, isTrimmed: isTrimmed))
    }

    // MARK: Timelines (docs/protocol.md, section 6)

    /// Notes what a decision says, once it is published.
    private func note(_ decision: borrowing Decision, _ call: Call) { record(steps(of: decision, call), of: call) }

    private func steps(of decision: borrowing Decision, _ call: Call) -> [TraceEntry.Step] {
        guard decision.isVisiblyChanged else { return decision.steps }
        let known = decision.subject.before?.revision ?? 0
        let changes = call.members.filter { $0.changedRevision > known }.map { member in
            // What members tell each other explains nothing here, and is long.
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

    /// Adds to the call's timeline, which counts with who made the call. Coordinators' readings of the store's clock differ by some
    /// milliseconds: what knows a revision is never told of as earlier.
    private func record(_ steps: @autoclosure () -> [TraceEntry.Step], of call: Call) {
        guard context.recorder.isTraced(call.callID) else { return }
        let steps = steps()
        context.recorder.add(steps, of: call.callID, at: max(now, call.updatedAt))
        context.usage.add(entries: steps.count, of: call.callID, to: call.inviter)
    }
}
