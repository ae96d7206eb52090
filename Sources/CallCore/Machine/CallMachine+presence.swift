import SignalingProtocol

extension CallMachine {
    /// Handles a device that went offline. While no invitee has accepted, the loss of the inviting device cancels the
    /// call: at once after a logout, `callerGrace` after `since` otherwise (section 3, Caller lost); `since` is nil for
    /// a device that is lost at `now`. Returns whether the call changed.
    package mutating func wentOffline(
        _ device: DeviceAddress, reason: PresenceMessage.OfflineReason, since: Milliseconds? = nil, now: Milliseconds
    ) -> Bool {
        defer { check() }
        guard isRingingFor(device) else { return false }
        switch reason {
        case .logout:
            cancelForLostCaller(now: now)
        case .lost:
            // A broker counts as away after the grace at the earliest: its devices were lost at `since`, and for most
            // of them the grace is already over.
            if let since, since + settings.callerGrace <= now {
                cancelForLostCaller(now: now)
                return true
            }
            guard call.callerLostAt == nil else { return false }
            call.callerLostAt = max(now, (since ?? now) + settings.callerGrace)
        }
        return true
    }

    /// Handles a device that came online: a lost inviter is back. Returns whether the call changed.
    package mutating func cameOnline(_ device: DeviceAddress) -> Bool {
        defer { check() }
        guard isRingingFor(device), call.callerLostAt != nil else { return false }
        call.callerLostAt = nil
        return true
    }

    private func isRingingFor(_ device: DeviceAddress) -> Bool {
        // A backend is never lost.
        device.deviceID != .server && call.state == .ringing && call.inviter == device.userID
            && call.members[0].state == .accepted
            && call.members[0].device == device.deviceID && call.members.contains { $0.state.isPending }
    }

    mutating func cancelForLostCaller(now: Milliseconds) {
        revise(at: now, by: nil)
        call.callerLostAt = nil
        for index in call.members.indices where call.members[index].state.isPending {
            move(index, to: .cancelled, reason: EndReason.callerLost.rawValue)
        }
        endIfOver(cause: .callerLost)
    }
}
