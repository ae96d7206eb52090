import SignalingProtocol

/// What delivery knows of one device with respect to one call.
package struct DeviceView: Equatable, Sendable {
    package let address: DeviceAddress
    /// The last revision that the device acknowledged in its present session; 0 when none.
    package var acked: Int
    /// When the present session began; nil for a device that publishes no presence.
    package var sessionStart: Milliseconds?
    /// The device was told of this call in its present session. It may have been rung while the call was about to end, so
    /// it is told of the end, whichever came first.
    package var knowsCall: Bool

    package init(
        address: DeviceAddress, acked: Int, sessionStart: Milliseconds? = nil, knowsCall: Bool = false
    ) {
        self.address = address
        self.acked = acked
        self.sessionStart = sessionStart
        self.knowsCall = knowsCall
    }
}

/// What a device is owed: the name of the event and the changes it reports. The call itself always goes with it.
package struct OwedEvent: Equatable, Sendable {
    package let name: EventName
    /// The revision after which the changes count.
    package let since: Int
}

extension Call {
    /// What `device` is owed now (docs/protocol.md, section 5): a pure function of the call and of the last revision
    /// that the device acknowledged. Nil when it is up to date.
    package func owed(to device: DeviceView, now: Milliseconds, settings: CallSettings) -> OwedEvent? {
        // To a user from whom the invitation is withheld it is owed as to everybody, and never sent.
        guard device.acked < revision, let member = entry(device.address.userID) else { return nil }
        if let endedAt {
            guard now < endedAt + settings.endedRetention else { return nil }
            if let start = device.sessionStart, endedAt < start, !device.knowsCall { return nil }
        }
        guard let name = eventName(for: member, device) else { return nil }
        // Nobody has served its expiry yet, but an invitation that is over must not ring.
        if name == .invited, let expiresAt = member.expiresAt, expiresAt <= now { return nil }
        return OwedEvent(name: name, since: device.acked)
    }

    private func eventName(for member: Member, _ device: DeviceView) -> EventName? {
        let isOnHandlingDevice = member.device == device.address.deviceID
        // A user who is there through the backend hears of the call on every device: any of them may take it over.
        let isHeld = member.device == .server
        switch member.state {
        case .inviting, .notYetReceived, .received:
            if !isLive { return .ended }
            if device.acked < member.invitedRevision { return .invited }
            return othersChanged(since: device.acked, but: member) ? .userStateChanged : nil
        case .accepted where isHeld && device.acked < member.handledRevision && (isLive || mode == .common):
            return taken(by: member)
        case .accepted where isOnHandlingDevice || isHeld:
            if !isLive && mode == .advanced { return .ended }
            return othersChanged(since: device.acked, but: member) ? .userStateChanged : nil
        case .quit where isOnHandlingDevice || isHeld:
            return device.acked < member.changedRevision ? .userStateChanged : nil
        case .accepted, .quit, .rejected:
            // A user whom the service rejected as busy has no handling device and was never rung.
            guard member.device != nil, device.acked < member.handledRevision else { return nil }
            return isOnHandlingDevice && !member.isHandledByCheck ? nil : taken(by: member)
        case .cancelled:
            return member.invitedRevision > 0 && device.acked < member.changedRevision ? .cancelled : nil
        case .timeout:
            return device.acked < member.changedRevision ? .timeout : nil
        }
    }

    /// The user has taken the call on another device, or made it there.
    private func taken(by member: Member) -> EventName {
        member.userID == inviter && member.handledRevision == 1 ? .created : .handledElsewhere
    }

    private func othersChanged(since revision: Int, but member: Member) -> Bool {
        members.contains { $0.userID != member.userID && $0.changedRevision > revision }
    }

    /// The event as it goes out now. `expiresIn` is computed at each send.
    package func event(_ owed: OwedEvent, for user: UserID, now: Milliseconds, snapshot: CallSnapshot) -> Event {
        let own = entry(user)
        // "Another member's state changed": one's own entry only tells the one who quit.
        let hidesOwn = owed.name == .userStateChanged && own?.state != .quit
        let changes = members.filter { $0.changedRevision > owed.since && !(hidesOwn && $0.userID == user) }
        return Event(
            name: owed.name, revision: revision, time: updatedAt, actor: actor, changes: changes.map(\.change),
            call: snapshot,
            expiresIn: owed.name == .invited ? own?.expiresAt.map { Int(max(0, $0 - now)) } : nil,
            missed: own.map { isMissed(owed.name, $0) } ?? false)
    }

    /// Whether the event tells its user of a call that the user never responded to on any device.
    private func isMissed(_ name: EventName, _ own: Member) -> Bool {
        switch name {
        case .cancelled, .timeout: !own.hasResponded
        // `call.end` leaves the states: who was pending stays so in the ended call.
        case .ended: own.state.isPending && !own.hasResponded
        default: false
        }
    }

    /// The revision at which the ringing of the member ended, or the member last changed while it rings.
    package func lastRevision(of member: Member) -> Int {
        // `call.end` changed nothing of who was pending.
        member.state.isPending && !isLive ? revision : member.changedRevision
    }

    /// From when the resend schedule of this device counts: the present revision, or its coming online if later.
    package func resendAnchor(for device: DeviceView) -> Milliseconds { max(updatedAt, device.sessionStart ?? 0) }

    /// Until when `owed` is resent to this device.
    package func resendEnd(_ owed: OwedEvent, for device: DeviceView) -> Milliseconds {
        if owed.name == .invited { return entry(device.address.userID)?.expiresAt ?? updatedAt }
        return resendAnchor(for: device) + ResendSchedule.horizon
    }
}
