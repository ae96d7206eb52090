import SignalingProtocol

/// Selects the recipients and the events (docs/protocol.md, section 5). First sends, resends, answers to stale acks and
/// welcomes of returning devices all use the same function for the deliveries.
package struct Delivering {
    let settings: ServiceSettings
    let now: Milliseconds

    package init(settings: ServiceSettings, now: Milliseconds) {
        self.settings = settings
        self.now = now
    }

    /// Returns the deliveries to send now.
    package func deliveries(
        of decision: borrowing Decision, _ call: Call, _ presence: Presence
    ) -> [Delivery] {
        var firstSends: [Delivery] = []
        if decision.isVisiblyChanged {
            for member in call.members {
                firstSends += self.firstSends(
                    to: member, of: call, after: decision.subject.before?.revision ?? 0, decision.subject.acks,
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

    /// Returns the user whose `sentBytes` pay for the decision's outbox entries; nil when a timer caused the change.
    package func payer(of decision: borrowing Decision) -> UserID? {
        decision.call.flatMap { cause(of: decision, $0) }
    }

    /// Returns the user who asked for the change. For the ack of an invitation, this is the inviter and not the
    /// invitee.
    private func cause(of decision: borrowing Decision, _ call: Call) -> UserID? {
        guard let actor = call.actor, !decision.answered.contains(actor) else { return call.actor }
        return call.entry(actor)?.invitedBy
    }

    /// Returns the deliveries for devices that get theirs at once, because they came online or sent a stale ack.
    private func refreshes(_ decision: borrowing Decision, _ call: Call, _ presence: Presence) -> [Delivery] {
        decision.refresh.compactMap { device in
            guard call.hasMember(device.userID) else { return nil }
            return views(of: device.userID, decision.subject.acks, presence).first { $0.address == device }
                .map { view in
                    var view = view
                    if decision.astray.contains(device) { (view.acked, view.knowsCall) = (0, true) }
                    return view
                }
                .flatMap { call.delivery(to: $0, now: now, settings: settings.calls) }
                .map { delivery($0, to: device.userID, device.deviceID, presence) }
                .map { delivery in
                    guard decision.stale.contains(device) else { return delivery.asWelcome }
                    var delivery = delivery
                    delivery.count(with: device.userID)
                    return delivery
                }
        }
    }

    /// Returns the deliveries that are new for the member's devices since revision `known`: a single message to all
    /// devices while the user has not answered or joined on any device, otherwise a message for each device.
    private func firstSends(
        to member: Member, of call: Call, after known: Int, _ acks: [DeviceAck], _ presence: Presence
    ) -> [Delivery] {
        var views = views(of: member.userID, acks, presence)
        let isUnknown = views.isEmpty && member.handledRevision == 0
        if isUnknown { views = [unknownDevice(of: member.userID)] }
        let unacked = views.map { view -> UnackedEvent? in
            var upToDate = view
            upToDate.acked = max(view.acked, known)
            // A device without a change since `known` gets its unacknowledged event by the resend schedule, not now.
            guard call.delivery(to: upToDate, now: now, settings: settings.calls) != nil else { return nil }
            return call.delivery(to: view, now: now, settings: settings.calls)
        }
        if member.handledRevision == 0, let first = unacked[0], unacked.allSatisfy({ $0?.name == first.name }) {
            let since = unacked.compactMap(\.?.since).min() ?? 0
            return [delivery(UnackedEvent(name: first.name, since: since), to: member.userID, nil, presence)]
        }
        return zip(views, unacked).compactMap { view, event in
            event.map { delivery($0, to: member.userID, view.address.deviceID, presence) }
        }
    }

    /// Returns the presence for deliveries to a member. A user whose invitation is withheld is treated as never online,
    /// so that the timeline shows no difference.
    private func seen(_ presence: Presence, of member: Member) -> Presence { member.isWithheld ? [:] : presence }

    private func delivery(
        _ event: UnackedEvent, to user: UserID, _ device: DeviceID?, _ presence: Presence
    ) -> Delivery {
        let online = (presence[user] ?? []).count { $0.isReachable(at: now, lease: settings.presence.lease) }
        return Delivery(user: user, device: device, event: event, online: online)
    }

    /// Returns a placeholder for an unknown device of the user, which may listen although the device has no presence
    /// and no acks. Every device of a user who has not answered or joined gets the same events, so any valid device id
    /// will do.
    private func unknownDevice(of user: UserID) -> DeviceView {
        DeviceView(address: DeviceAddress(userID: user, deviceID: DeviceID("unknown")!), acked: 0)
    }

    /// Returns the devices of a user that can get events now: online devices, and devices that publish no presence but
    /// have acknowledged an event of this call. The backend gets webhooks instead.
    func views(of user: UserID, _ acks: [DeviceAck], _ presence: Presence) -> [DeviceView] {
        let known = presence[user] ?? []
        var views: [DeviceView] = []
        for device in known where device.isReachable(at: now, lease: settings.presence.lease) {
            guard device.device.deviceID != .server else { continue }
            let ack = acks.first { $0.device == device.device && $0.isSession(device.session) }
            views.append(
                DeviceView(
                    address: device.device, acked: ack?.revision ?? 0, sessionStart: device.since,
                    knowsCall: ack != nil))
        }
        for ack in acks where ack.device.userID == user && ack.session.isEmpty && ack.device.deviceID != .server {
            guard !known.contains(where: { $0.device == ack.device }) else { continue }
            views.append(DeviceView(address: ack.device, acked: ack.revision, knowsCall: true))
        }
        return views
    }

    /// Returns the delivery that `device` has not acknowledged, regardless of its resend schedule.
    func resend(
        to device: DeviceAddress, of call: Call, _ acks: [DeviceAck], _ presence: Presence
    ) -> [Delivery] {
        guard let member = call.entry(device.userID) else { return [] }
        let presence = seen(presence, of: member)
        guard let view = views(of: device.userID, acks, presence).first(where: { $0.address == device }),
            let event = call.delivery(to: view, now: now, settings: settings.calls),
            now < call.resendEnd(event, for: view)
        else { return [] }
        return [delivery(event, to: device.userID, device.deviceID, presence)]
    }

    /// Returns the due resends and the time of the next resend.
    func resends(
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
                guard let event = call.delivery(to: view, now: now, settings: settings.calls) else { continue }
                let anchor = call.resendAnchor(for: view)
                let end = call.resendEnd(event, for: view)
                let slot = ResendSchedule.next(after: call.deliveryServedAt, from: anchor)
                if slot <= now, slot < end {
                    var delivery = delivery(
                        event, to: member.userID, isUnknown ? nil : view.address.deviceID, presence)
                    delivery.isFirstResend = slot == anchor + ResendSchedule.firstDelay
                    due.append(delivery)
                }
                let following = ResendSchedule.next(after: now, from: anchor)
                if following < end { next = min(next ?? .max, following) }
            }
        }
        return (due, next)
    }
}
