import SignalingProtocol

/// The checks of the state at rest, when the faults have ended and no more messages are under way.
extension HistoryChecker {
    /// Checks the state after the faults, when every device had time to receive its deliveries.
    mutating func settle() {
        for (_, call) in calls.sorted(by: { $0.key < $1.key }) {
            checkEnd(of: call)
            checkKnowledge(of: call)
            checkGlare(of: call)
        }
        for (device, history) in devices.sorted(by: { $0.key < $1.key }) {
            for (callID, ring) in history.rings.sorted(by: { $0.key < $1.key }) {
                ringingEnded(callID, device, ring, at: now)
            }
        }
    }

    private mutating func checkEnd(of call: CallHistory) {
        guard let latest = call.latest?.call, latest.state != .ended else { return }
        for member in latest.members where member.state.isPending {
            guard let expiresAt = member.expiresAt, expiresAt + tolerances.disturbedTimer < now else { continue }
            report(
                .neverEnded, call.callID, nil,
                "\(member.userID) is still \(member.state.rawValue), the invitation expired at \(clock(expiresAt))")
        }
    }

    /// Checks that every online device knows the state of the call, as far as the service must tell the device (section
    /// 5).
    mutating func checkKnowledge(of call: CallHistory) {
        guard let latest = call.latest?.call else { return }
        for (device, history) in devices.sorted(by: { $0.key < $1.key }) where latest.member(device.userID) != nil {
            guard let online = history.onlineSince, isOwed(latest, since: online) else { continue }
            guard let what = ignorance(of: latest, device, history.known[call.callID]) else { continue }
            let isWithoutAnswer = requests.contains { key, request in
                guard key.device == device, let callID = request.request.body.callID,
                    callID == call.callID || wasMerged(callID, of: device.userID, into: latest)
                else { return false }
                return !request.isAnswered || wasServedAfterItsRefusal(request, latest)
            }
            guard !isWithoutAnswer else { continue }
            report(.notTold, call.callID, device, what)
        }
    }

    /// Whether the user's invite with this id was merged into the other call, or may have been merged, when no response
    /// tells.
    private func wasMerged(_ callID: CallID, of user: UserID, into target: CallSnapshot) -> Bool {
        requests.contains { key, request in
            guard key.device.userID == user, case .invite(let invite) = request.request.body, invite.callID == callID
            else { return false }
            guard let success = request.success?.outcome else { return invite.invitees.contains(target.inviter) }
            return success.merged && success.call.callID == target.callID
        }
    }

    /// Whether one copy of the invite was refused and another copy made the call afterwards. The device is then told by
    /// the second response, for which its app no longer waits, and by the next event of the call.
    private func wasServedAfterItsRefusal(_ request: RequestHistory, _ call: CallSnapshot) -> Bool {
        guard case .invite = request.request.body else { return false }
        return request.success == nil && call.revision == 1
    }

    /// Whether a session that began at `online` must be told of the call. The session need not be told of a call that
    /// ended before the session began. If the session began while the call ended, either is correct.
    private func isOwed(_ call: CallSnapshot, since online: Int64) -> Bool {
        guard let endedAt = call.endedAt else { return call.createdAt + tolerances.disturbedTimer < now }
        return endedAt > online + tolerances.clock
    }

    /// Returns a description of the change that the device should know and does not know; nil when the device is up to
    /// date. The checks follow rules 1 to 5 of section 5, from the device's last known revision.
    private func ignorance(
        of latest: CallSnapshot, _ device: DeviceAddress, _ known: DeviceHistory.Known?
    ) -> String? {
        guard let own = latest.member(device.userID), known?.revision ?? 0 < latest.revision else { return nil }
        let had = known?.call.member(device.userID)
        let knows = known.map { "it had revision \($0.revision) of \(latest.revision)" } ?? "it was told nothing"
        let isHere = own.device == device.deviceID
        switch own.state {
        case .inviting, .notYetReceived, .received:
            if latest.state == .ended { return "the call ended, \(knows)" }
            return had?.state.isPending ?? false ? othersChanged(latest, known, device, knows) : "it rings, \(knows)"
        case .accepted where isHere:
            if latest.state == .ended, latest.mode == .advanced { return "the call ended, \(knows)" }
            return othersChanged(latest, known, device, knows)
        case .quit where isHere:
            return had?.state == .quit && had?.updatedAt == own.updatedAt ? nil : "the user quit, \(knows)"
        case .accepted, .quit, .rejected:
            guard own.device != nil, !isHere else { return nil }
            // The device needs no more events after it was told that another device answered the call.
            let isTold = had.map { !$0.state.isPending && $0.device != nil && $0.device != device.deviceID } ?? false
            return isTold ? nil : "answered on \(own.device?.string ?? "?"), \(knows)"
        case .cancelled:
            // An early cancel came before the invite, so the phone never rang.
            if latest.revision == 1 { return nil }
            return had?.state == .cancelled && had?.updatedAt == own.updatedAt ? nil : "it was cancelled, \(knows)"
        case .timeout:
            return had?.state == .timeout && had?.updatedAt == own.updatedAt ? nil : "it timed out, \(knows)"
        }
    }

    private func othersChanged(
        _ latest: CallSnapshot, _ known: DeviceHistory.Known?, _ device: DeviceAddress, _ knows: String
    ) -> String? {
        let changed = latest.members.first { member in
            member.userID != device.userID && known?.call.member(member.userID)?.updatedAt != member.updatedAt
        }
        return changed.map { "\($0.userID) became \($0.state.rawValue), \(knows)" }
    }
}
