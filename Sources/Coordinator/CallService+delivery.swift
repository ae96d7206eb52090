import CallCore
import CallStore
import SignalingProtocol

/// Who is sent what (docs/protocol.md, section 5). First sends, resends, answers to old acks and returning devices all
/// derive what is owed from the same function.
extension CallService {
    /// The devices of a user that can be told something now: those online, and those that publish no presence but
    /// have acknowledged something of this call.
    func views(of user: UserID, _ acks: [DeviceAck], _ presence: Presence) -> [DeviceView] {
        let known = presence[user] ?? []
        var views: [DeviceView] = []
        for device in known where device.isReachable(at: now, lease: settings.presence.lease) {
            let ack = acks.first { $0.device == device.device && $0.isSession(device.session) }
            views.append(
                DeviceView(
                    address: device.device, acked: ack?.revision ?? 0, sessionStart: device.since,
                    knowsCall: ack != nil))
        }
        for ack in acks where ack.device.userID == user && ack.session.isEmpty {
            guard !known.contains(where: { $0.device == ack.device }) else { continue }
            views.append(DeviceView(address: ack.device, acked: ack.revision, knowsCall: true))
        }
        return views
    }

    /// Publishes what a decision says. First what others are owed: the phone rings before its caller is answered. A user who
    /// is answered has events after the response, which is of the revision at which the request was served. `presence`: of
    /// `decision.told`, as it was after the commit; nil when it could not be read: then the events are left to the resends.
    func publish(_ decision: Decision, _ presence: Presence?) {
        counters.add(decision.counts)
        for (user, bytes) in decision.caused { charge(bytes, to: user) }
        guard let call = decision.call else { return publishReplies(decision) }
        note(decision, call)
        for (milestone, role) in decision.observed { counters.observe(milestone, role: role) }
        let owed = presence.map { self.owed(decision, call, $0) } ?? []
        let snapshot = call.snapshot
        for device in decision.stale { staleAcks.answered(device, call.callID, now: now) }
        for delivery in owed where !decision.answered.contains(delivery.user) { send(delivery, of: call, snapshot) }
        publishReplies(decision)
        for delivery in owed where decision.answered.contains(delivery.user) { send(delivery, of: call, snapshot) }
    }

    private func publishReplies(_ decision: Decision) {
        outbox.append(contentsOf: decision.replies)
        outbox.append(contentsOf: decision.signals)
    }

    /// What is sent to whom, now.
    private func owed(_ decision: Decision, _ call: Call, _ presence: Presence) -> [Delivery] {
        var firstSends: [Delivery] = []
        if decision.isVisiblyChanged {
            for member in call.members {
                firstSends += self.firstSends(
                    to: member, of: call, after: decision.before?.revision ?? 0, decision.acks,
                    seen(presence, of: member))
            }
        }
        let resends = decision.isVisiblyChanged ? [] : decision.resends
        let told = firstSends + resends
        let refreshes = refreshes(decision, call, presence).filter { refresh in
            !told.contains { $0.user == refresh.user && ($0.device == nil || $0.device == refresh.device) }
        }
        if !firstSends.isEmpty {
            let cause = cause(of: decision, call)
            for index in firstSends.indices { firstSends[index].count(with: cause) }
        }
        return firstSends + (resends + refreshes).map(\.again)
    }

    /// Who asked for what has changed: that a member has received the invitation is of the inviter's doing, and of none of its own.
    private func cause(of decision: Decision, _ call: Call) -> UserID? {
        guard let actor = call.actor, !decision.answered.contains(actor) else { return call.actor }
        return call.entry(actor)?.invitedBy
    }

    /// What is owed to the devices that are to be told at once: they came online, or acked an old revision.
    private func refreshes(_ decision: Decision, _ call: Call, _ presence: Presence) -> [Delivery] {
        decision.refresh.compactMap { device in
            guard call.member(device.userID) != nil else { return nil }
            return views(of: device.userID, decision.acks, presence).first { $0.address == device }
                .flatMap { call.owed(to: $0, now: now, settings: settings.calls) }
                .map { delivery($0, to: device.userID, device.deviceID, presence) }
                .map { delivery in
                    guard decision.stale.contains(device) else { return delivery.asWelcome }
                    var delivery = delivery
                    delivery.count(with: device.userID)
                    return delivery
                }
        }
    }

    /// What is new to the member's devices since revision `known`: one message to all of them when the user has taken
    /// the call on none, else one to each.
    private func firstSends(
        to member: Member, of call: Call, after known: Int, _ acks: [DeviceAck], _ presence: Presence
    ) -> [Delivery] {
        var views = views(of: member.userID, acks, presence)
        let isUnknown = views.isEmpty && member.handledRevision == 0
        if isUnknown { views = [unknownDevice(of: member.userID)] }
        let owed = views.map { view -> OwedEvent? in
            var upToDate = view
            upToDate.acked = max(view.acked, known)
            // Nothing new for this device: what it has not acknowledged comes with its next resend.
            guard call.owed(to: upToDate, now: now, settings: settings.calls) != nil else { return nil }
            return call.owed(to: view, now: now, settings: settings.calls)
        }
        if member.handledRevision == 0, let first = owed[0], owed.allSatisfy({ $0?.name == first.name }) {
            let since = owed.compactMap(\.?.since).min() ?? 0
            return [delivery(OwedEvent(name: first.name, since: since), to: member.userID, nil, presence)]
        }
        return zip(views, owed).compactMap { view, owed in
            owed.map { delivery($0, to: member.userID, view.address.deviceID, presence) }
        }
    }

    /// To whom an invitation is withheld, that is treated like a user who is never online: who looks into the timeline sees no
    /// difference.
    private func seen(_ presence: Presence, of member: Member) -> Presence { member.isWithheld ? [:] : presence }

    private func delivery(
        _ owed: OwedEvent, to user: UserID, _ device: DeviceID?, _ presence: Presence
    ) -> Delivery {
        let online = (presence[user] ?? []).count { $0.isReachable(at: now, lease: settings.presence.lease) }
        return Delivery(user: user, device: device, owed: owed, online: online)
    }

    /// A device of which nothing is known: it may be listening without presence. What is owed to a user who took the
    /// call nowhere is the same for every device, so any valid name will do.
    private func unknownDevice(of user: UserID) -> DeviceView {
        DeviceView(address: DeviceAddress(userID: user, deviceID: DeviceID("unknown")!), acked: 0)
    }

    /// Resends whose time has come, and when the next one is due.
    func decideResends(_ presence: Presence, _ decision: Decision) {
        guard let call = decision.call, let due = call.deliveryDue, due <= now else { return }
        let (resends, next) = resends(of: call, decision.acks, presence)
        decision.resends += resends
        decision.machine?.delivered(at: now, next: next)
    }

    /// Once every device has acknowledged a call's end, no deadline is left to be served for it.
    func decideRest(_ presence: Presence, _ decision: Decision) {
        guard let call = decision.call, !call.isLive, call.deliveryDue != nil else { return }
        let (resends, next) = resends(of: call, decision.acks, presence)
        if resends.isEmpty, next == nil { decision.machine?.delivered(at: now, next: nil) }
    }

    /// What is due now, and when the next resend is.
    private func resends(
        of call: Call, _ acks: [DeviceAck], _ presence: Presence
    ) -> (due: [Delivery], next: Milliseconds?) {
        var due: [Delivery] = []
        var next: Milliseconds?
        for member in call.members {
            let presence = seen(presence, of: member)
            var views = views(of: member.userID, acks, presence)
            let isUnknown = views.isEmpty && presence[member.userID]?.isEmpty ?? true && member.handledRevision == 0
            if isUnknown { views = [unknownDevice(of: member.userID)] }
            for view in views {
                guard let owed = call.owed(to: view, now: now, settings: settings.calls) else { continue }
                let anchor = call.resendAnchor(for: view)
                let end = call.resendEnd(owed, for: view)
                let slot = ResendSchedule.next(after: call.deliveryServedAt, from: anchor)
                if slot <= now, slot < end {
                    due.append(delivery(owed, to: member.userID, isUnknown ? nil : view.address.deviceID, presence))
                }
                let following = ResendSchedule.next(after: now, from: anchor)
                if following < end { next = min(next ?? .max, following) }
            }
        }
        return (due, next)
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
