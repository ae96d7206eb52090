import SignalingProtocol

/// Decides events of calls from facts. `Deciding` sees no store, takes no tokens from limits and keeps no data between
/// calls.
///
/// More than 200 lines: all subjects decide from the same facts, so the type is not split. This file has the parts that
/// all subjects share; each subject has a file of its own.
package struct Deciding {
    package var facts: Facts
    package let settings: ServiceSettings
    let allowances: any Allowances

    package init(_ facts: Facts, _ settings: ServiceSettings, _ allowances: any Allowances) {
        self.facts = facts
        self.settings = settings
        self.allowances = allowances
    }

    var now: Milliseconds { facts.now }

    /// Decides all events of a call, given the stored record.
    package func decide(_ work: CallWork, _ stored: StoredRecord?) throws(Undecided) -> Decision {
        var decision = Decision(version: stored?.version ?? 0)
        switch stored?.record {
        case .call(let call):
            decision.adopt(call, acks: stored?.acks ?? [], version: decision.subject.version, settings: settings.calls)
        case .alias(let target, let origin):
            decision.subject.alias = (work.id, origin, decision.subject.version)
            try adoptMerged(&decision, target)
        case .message, .cancelled, .void, .unreadable, nil: break
        }
        for event in work.events {
            switch event {
            case .request(let received): try decideRequest(received, work.id, stored, &decision)
            case .signal(let received): decideSignal(received, stored, &decision)
            case .ack(let device, let revision): try decideAck(device, revision, stored, &decision)
            case .heartbeat(let device): decideHeartbeat(device, &decision)
            case .cameOnline(let device, let isTold): try decideOnline(device, isTold: isTold, &decision)
            case .wentOffline(let device, let reason, let since):
                // A device that was lost with its broker may have come back elsewhere.
                if since != nil, try isReachable(device) { continue }
                decision.note(presence: reason.rawValue, of: device)
                _ = decision.subject.machine?.wentOffline(device, reason: reason, since: since, now: now)
                decideDeparted(device, &decision)
            case .registered(let user): decideRegistered(user, &decision)
            case .deadline: try decideDeadline(stored, &decision)
            case .released(let device): try decideReleased(device, &decision)
            }
        }
        // An alias that is stored already is not written again.
        if case .alias(let target, _)? = stored?.record, target == decision.call?.callID {
            decision.subject.alias = nil
        }
        return decision
    }

    func isReachable(_ device: DeviceAddress) throws(Undecided) -> Bool {
        let presence = try facts.presence(of: [device.userID])
        return (presence[device.userID] ?? []).contains {
            $0.device == device && $0.isReachable(at: now, lease: settings.presence.lease)
        }
    }

    private func adoptMerged(_ decision: inout Decision, _ target: CallID) throws(Undecided) {
        guard let merged = try facts.target(target), case .call(let call) = merged.record else { return }
        decision.adopt(call, acks: merged.acks, version: merged.version, settings: settings.calls)
    }

    // MARK: Functions that several subjects use

    /// Returns the facts about invitees. `members` are the invitees and the user who becomes a member with them.
    func invitees(
        _ invitees: [UserID], members: [UserID], limited: [UserID], withheld: [UserID]
    ) throws(Undecided) -> CallMachine.Invitees {
        let profiles = try facts.profiles(of: members)
        let unregistered = settings.users == .known ? invitees.filter { profiles[$0] == nil } : []
        return CallMachine.Invitees(
            profiles: profiles, unregistered: unregistered, limited: limited, withheld: withheld,
            pushable: try pushable(invitees))
    }

    /// Returns the users in `users` without an online device: they ring when they come online. A user whose invitation
    /// is withheld counts as offline.
    func offline(_ users: [UserID], withheld: [UserID]) throws(Undecided) -> [UserID] {
        let presence = try facts.presence(of: users)
        return users.filter { user in
            withheld.contains(user)
                || !(presence[user] ?? []).contains { $0.isReachable(at: now, lease: settings.presence.lease) }
        }
    }

    /// Notes a sign of life: any message about the call from the member's device in the call is such a sign. The
    /// caller notes at most two signals in a heartbeat interval (`Signals.swift`).
    func heard(_ device: DeviceAddress, _ decision: inout Decision) {
        guard let call = decision.call, call.mode == .advanced, call.isLive,
            let member = call.member(device.userID), member.state == .accepted, member.device == device.deviceID
        else { return }
        decision.subject.notes.append(.heard(call.callID, UserHeard(userID: device.userID, at: now)))
    }

    func success(
        _ call: Call, _ outcome: RequestOutcome, isRepeated: Bool = false, reports: [DeviceReport] = [],
        timeline: Timeline? = nil
    ) -> Response.Outcome {
        .success(
            Response.Success(
                call: call.snapshot, time: call.updatedAt, offline: outcome.offline, errors: outcome.errors,
                merged: outcome.merged, repeated: isRepeated, reports: reports, timeline: timeline))
    }
}

extension Call {
    /// Whether the call has ended and deliveries of the end may remain.
    package var isOver: Bool { !isLive && deliveryDue != nil }
}

extension Array where Element: Hashable {
    /// The distinct elements, in the order of their first occurrence.
    @inlinable package var unique: [Element] {
        guard count > 1 else { return self }
        var seen = Set<Element>(minimumCapacity: count)
        return filter { seen.insert($0).inserted }
    }
}
