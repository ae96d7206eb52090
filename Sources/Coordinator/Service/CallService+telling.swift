import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Tells what was decided, once it is written: encodes it, and notes it in the timeline and the counters.
extension CallService {
    /// Publishes what a decision says. First what others are owed: the phone rings before its caller is answered. A user who
    /// is answered has events after the response, which is of the revision at which the request was served. `presence`: of
    /// `decision.told`, as it was after the commit; nil when it could not be read: then the events are left to the resends.
    func publish(_ decision: Decision, of callID: CallID, _ presence: Presence?) {
        counters.add(decision.counts)
        if decision.isUnreadable { setAside.insert(.call(callID), now: now) }
        guard let call = decision.call else { return publishReplies(decision) }
        note(decision, call)
        for (milestone, role) in decision.observed { counters.observe(milestone, role: role) }
        let owed = presence.map { Delivering(settings: settings, now: now).owed(decision, call, $0) } ?? []
        let snapshot = call.snapshot
        for device in decision.stale { budgets.answered(device, staleOn: call.callID, now: now) }
        for delivery in owed where !decision.answered.contains(delivery.user) { send(delivery, of: call, snapshot) }
        publishReplies(decision)
        for delivery in owed where decision.answered.contains(delivery.user) { send(delivery, of: call, snapshot) }
    }

    private func publishReplies(_ decision: Decision) {
        decision.replies.forEach(publish)
        for passed in decision.signals {
            let payload = DownMessage.signal(passed.signal).encoded()
            charge(payload.count * passed.devices.count, to: passed.signal.from.userID)
            for device in passed.devices {
                outbox.append(
                    OutboundMessage(
                        topic: settings.topics.down(device), payload: payload,
                        expirySeconds: ServiceBounds.messageExpirySeconds))
            }
        }
    }

    /// Counts with who asked.
    func publish(_ reply: Reply) {
        let message = encoder.message(reply)
        charge(message.payload.count, to: reply.device.userID)
        outbox.append(message)
    }

    private func send(_ delivery: Delivery, of call: Call, _ snapshot: CallSnapshot) {
        counters.add(delivery.isResend ? .eventsResent : .eventsSent, delivery.owed.name.rawValue)
        if delivery.isTraced || !delivery.isResend {
            record(
                [
                    .send(
                        delivery.owed.name, to: delivery.user, device: delivery.device, revision: call.revision,
                        online: delivery.online, isResend: delivery.isResend)
                ], of: call)
        }
        // Written down as if it had gone out.
        guard call.member(delivery.user) != nil else { return }
        let event = call.event(delivery.owed, for: delivery.user, now: now, snapshot: snapshot)
        let expiry = event.expiresIn.map { UInt32(clamping: max(1, $0 / 1000)) } ?? ServiceBounds.messageExpirySeconds
        let topic =
            delivery.device.map { settings.topics.down(DeviceAddress(userID: delivery.user, deviceID: $0)) }
            ?? settings.topics.down(delivery.user)
        let (payload, isTrimmed) = encoder.bounded(.event(event))
        if let budget = delivery.budget { budgets.charge(payload.count, to: budget, now: now) }
        outbox.append(OutboundMessage(topic: topic, payload: payload, expirySeconds: expiry, isTrimmed: isTrimmed))
    }
}
