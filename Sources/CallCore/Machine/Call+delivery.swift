import SignalingProtocol

/// The state of delivery to a device with respect to a call.
package struct DeviceView: Equatable, Sendable {
    package let address: DeviceAddress
    /// The last revision that the device acknowledged in its present session; 0 before the first ack.
    package var acked: Int
    /// The start of the present session; nil for a device that publishes no presence.
    package var sessionStart: Milliseconds?
    /// Whether the device has had an event of this call in its present session. The device may have rung just before
    /// the call ended, so such a device gets the end in any case.
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

/// The event of a delivery: its name, and the revision after which its changes count. The event always contains the
/// call.
package struct UnackedEvent: Equatable, Sendable {
    package let name: EventName
    /// The revision after which changes are part of the event.
    package let since: Int
}

extension Call {
    /// Returns the delivery for `device` at present (docs/protocol.md, section 5), computed from only the call and the
    /// last revision that the device acknowledged. Returns nil for a device that is up to date, and for a call that
    /// ended longer ago than `endedRetention` (60 s by default).
    package func delivery(to device: DeviceView, now: Milliseconds, settings: CallSettings) -> UnackedEvent? {
        // For a user whose invitation is withheld, the delivery is computed as for all users. Such a delivery is never
        // sent.
        guard device.acked < revision, let member = entry(device.address.userID) else { return nil }
        if let endedAt {
            guard now < endedAt + settings.endedRetention else { return nil }
            if let start = device.sessionStart, endedAt < start, !device.knowsCall { return nil }
        }
        guard let name = eventName(for: member, device) else { return nil }
        // An expired invitation must not ring, even before a coordinator has served its deadline.
        if name == .invited, let expiresAt = member.expiresAt, expiresAt <= now { return nil }
        return UnackedEvent(name: name, since: device.acked)
    }

    private func eventName(for member: Member, _ device: DeviceView) -> EventName? {
        let isOnHandlingDevice = member.device == device.address.deviceID
        // A user whose place the backend holds gets the call's events on every device, because each device may join.
        let isHeld = member.device == .server
        switch member.state {
        case .inviting, .notYetReceived, .received:
            if !isLive { return .ended }
            if device.acked < member.invitedRevision { return .invited }
            return othersChanged(since: device.acked, but: member) ? .userStateChanged : nil
        case .accepted where isHeld && device.acked < member.handledRevision && (isLive || mode == .common):
            return elsewhereEvent(for: member)
        case .accepted where isOnHandlingDevice || isHeld:
            if !isLive && mode == .advanced { return .ended }
            return othersChanged(since: device.acked, but: member) ? .userStateChanged : nil
        case .quit where isOnHandlingDevice || isHeld:
            return device.acked < member.changedRevision ? .userStateChanged : nil
        case .accepted, .quit, .rejected:
            // A user whom the service rejected as busy has no device in the call and never rang.
            guard member.device != nil, device.acked < member.handledRevision else { return nil }
            return isOnHandlingDevice && !member.isHandledByCheck ? nil : elsewhereEvent(for: member)
        case .cancelled:
            return member.invitedRevision > 0 && device.acked < member.changedRevision ? .cancelled : nil
        case .timeout:
            return device.acked < member.changedRevision ? .timeout : nil
        }
    }

    /// Returns the event for a user who has answered or made the call on another device.
    private func elsewhereEvent(for member: Member) -> EventName {
        member.userID == inviter && member.handledRevision == 1 ? .created : .handledElsewhere
    }

    private func othersChanged(since revision: Int, but member: Member) -> Bool {
        members.contains { $0.userID != member.userID && $0.changedRevision > revision }
    }

    /// Returns the event to send now. `expiresIn` is computed at each send.
    package func event(_ unacked: UnackedEvent, for user: UserID, now: Milliseconds, snapshot: CallSnapshot) -> Event {
        let own = entry(user)
        // The event `call.userStateChanged` is about other members. The user's own change is included only after the
        // user has quit.
        let hidesOwn = unacked.name == .userStateChanged && own?.state != .quit
        let changes = members.filter { $0.changedRevision > unacked.since && !(hidesOwn && $0.userID == user) }
        return Event(
            name: unacked.name, revision: revision, time: updatedAt, actor: actor, changes: changes.map(\.change),
            call: snapshot,
            expiresIn: unacked.name == .invited ? own?.expiresAt.map { Int(max(0, $0 - now)) } : nil,
            missed: own.map { isMissed(unacked.name, $0) } ?? false)
    }

    /// Whether the event is about a call to which its user never responded on any device.
    private func isMissed(_ name: EventName, _ own: Member) -> Bool {
        switch name {
        case .cancelled, .timeout: !own.hasResponded
        // `call.end` does not change the members' states, so pending members stay pending in the ended call.
        case .ended: own.state.isPending && !own.hasResponded
        default: false
        }
    }

    /// Returns the revision at which the member's ringing ended, or, for a ringing member, the revision of its last
    /// change.
    package func lastRevision(of member: Member) -> Int {
        // `call.end` did not change the pending members.
        member.state.isPending && !isLive ? revision : member.changedRevision
    }

    /// Returns the start of this device's resend schedule: the time of the present revision, or the start of the
    /// session when that is later.
    package func resendAnchor(for device: DeviceView) -> Milliseconds { max(updatedAt, device.sessionStart ?? 0) }

    /// Returns the time until which `unacked` is resent to this device.
    package func resendEnd(_ unacked: UnackedEvent, for device: DeviceView) -> Milliseconds {
        if unacked.name == .invited { return entry(device.address.userID)?.expiresAt ?? updatedAt }
        return resendAnchor(for: device) + ResendSchedule.horizon
    }
}
