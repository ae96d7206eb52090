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
        for device in decision.stale { staleAcks.answered(device, call.callID, now: now) }
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
        let message = message(reply)
        charge(message.payload.count, to: reply.device.userID)
        outbox.append(message)
    }

    private func message(_ reply: Reply) -> OutboundMessage {
        switch reply.content {
        case .response(let id, let outcome): response(id, outcome, to: reply.device, reply.correlationData)
        case .error(let error): errorMessage(error, topic: settings.topics.down(reply.device))
        }
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
        let (payload, isTrimmed) = bounded(.event(event))
        if let budget = delivery.budget { limiter.take(payload.count, of: budget, now: now) }
        outbox.append(OutboundMessage(topic: topic, payload: payload, expirySeconds: expiry, isTrimmed: isTrimmed))
    }

    /// The bytes of a message within the limit of what the service sends. A call whose members' `extendedData` would
    /// break it goes out without that, which `call.get` cannot give either: control characters take six bytes each. A
    /// timeline that would break it loses its oldest entries, and then reports are left out.
    func bounded(_ message: DownMessage) -> (payload: [UInt8], isTrimmed: Bool) {
        var bytes = message.encoded()
        guard bytes.count > Limits.downBytes else { return (bytes, false) }
        var trimmed = message.withoutExtendedData
        bytes = trimmed.encoded()
        while bytes.count > Limits.downBytes, trimmed.dropOldestEntries() || trimmed.dropReports() {
            bytes = trimmed.encoded()
        }
        return (bytes, true)
    }
}

extension DownMessage {
    /// Drops the older half of a timeline; false when there is none left.
    fileprivate mutating func dropOldestEntries() -> Bool {
        guard case .response(var response) = self, case .success(var success) = response.outcome,
            let count = success.timeline?.entries.count, count > 0
        else { return false }
        success.timeline?.entries.removeFirst((count + 1) / 2)
        success.timeline?.omitted += (count + 1) / 2
        response.outcome = .success(success)
        self = .response(response)
        return true
    }

    /// Drops the last half of what devices reported; false when there is nothing left.
    fileprivate mutating func dropReports() -> Bool {
        guard case .response(var response) = self, case .success(var success) = response.outcome,
            !success.reports.isEmpty
        else { return false }
        success.reports.removeLast((success.reports.count + 1) / 2)
        response.outcome = .success(success)
        self = .response(response)
        return true
    }

    fileprivate var withoutExtendedData: DownMessage {
        switch self {
        case .event(var event):
            for index in event.changes.indices { event.changes[index].extendedData = nil }
            event.call.removeExtendedData()
            return .event(event)
        case .response(var response):
            switch response.outcome {
            case .success(var success):
                success.call.removeExtendedData()
                response.outcome = .success(success)
            case .answer(.calls(var calls, let cursor)):
                for index in calls.indices { calls[index].removeExtendedData() }
                response.outcome = .answer(.calls(calls, cursor: cursor))
            case .answer(.users(var users, let errors)):
                for index in users.indices { users[index].extendedData = nil }
                response.outcome = .answer(.users(users, errors: errors))
            case .answer, .failure: break
            }
            return .response(response)
        case .welcome, .error, .signal, .message, .receipt, .tokenWillExpire: return self
        }
    }
}

extension CallSnapshot {
    fileprivate mutating func removeExtendedData() {
        for index in members.indices { members[index].extendedData = nil }
    }
}
