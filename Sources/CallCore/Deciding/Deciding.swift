import SignalingProtocol

/// Judges what happened to calls, by what is known. It sees no store, takes nothing, and keeps nothing between calls.
///
/// More than 200 lines: one type, since all subjects judge by the same facts; each subject has a file of its own.
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

    /// Judges everything that happened to one call against what is stored of it.
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
            case .ack(let device, let revision): try decideAck(device, revision, &decision)
            case .heartbeat(let device): decideHeartbeat(device, &decision)
            case .cameOnline(let device, let isTold): try decideOnline(device, isTold: isTold, &decision)
            case .wentOffline(let device, let reason):
                decision.note(presence: reason.rawValue, of: device)
                _ = decision.subject.machine?.wentOffline(device, reason: reason, now: now)
                decideDeparted(device, &decision)
            case .registered(let user): decideRegistered(user, &decision)
            case .deadline: try decideDeadline(stored, &decision)
            case .released(let device): try decideReleased(device, &decision)
            }
        }
        // An alias that stands already is not written again.
        if case .alias(let target, _)? = stored?.record, target == decision.call?.callID {
            decision.subject.alias = nil
        }
        return decision
    }

    private func adoptMerged(_ decision: inout Decision, _ target: CallID) throws(Undecided) {
        guard let known = facts.targets[target] else { throw .target(target) }
        guard let merged = known, case .call(let call) = merged.record else { return }
        decision.adopt(call, acks: merged.acks, version: merged.version, settings: settings.calls)
    }

    // MARK: What is known

    /// Of all these users.
    func presence(of users: [UserID]) throws(Undecided) -> Presence {
        let unknown = users.filter { facts.presence[$0] == nil }
        guard unknown.isEmpty else { throw .needs(Lookup(presence: unknown.unique)) }
        return facts.presence
    }

    func records(_ callIDs: [CallID]) throws(Undecided) -> [StoredRecord?] {
        let unknown = callIDs.map(RecordID.call).filter { facts.records[$0] == nil }
        guard unknown.isEmpty else { throw .needs(Lookup(records: unknown.unique)) }
        return callIDs.map { facts.records[.call($0)]! }
    }

    func liveCalls(of users: [UserID]) throws(Undecided) -> [[CallID]] {
        let unknown = users.filter { facts.liveCalls[$0] == nil }
        guard unknown.isEmpty else {
            throw .needs(Lookup(calls: unknown.map { .live(of: $0, limit: ServiceBounds.callsPerBusyCheck) }))
        }
        return users.map { facts.liveCalls[$0]! }
    }

    /// Those of `users` who have blocked `user`.
    func blocking(_ user: UserID, among users: [UserID]) throws(Undecided) -> [UserID] {
        let blocks = users.map { Block(by: $0, of: user) }
        guard blocks.allSatisfy({ facts.blocks[$0] != nil }) else { throw .needs(Lookup(blocks: blocks)) }
        return zip(users, blocks).filter { facts.blocks[$1]! }.map(\.0)
    }

    /// Of users who become members, as far as they have one.
    func profiles(of users: [UserID]) throws(Undecided) -> [UserID: UserProfile] {
        guard users.allSatisfy({ facts.profiles[$0] != nil }) else { throw .needs(Lookup(profiles: users)) }
        return Dictionary(users.compactMap { user in facts.profiles[user]!.map { (user, $0) } }) { $1 }
    }

    /// What is known of those who are to be invited. `members`: they and whoever becomes a member with them.
    func invitees(
        _ invitees: [UserID], members: [UserID], limited: [UserID], withheld: [UserID]
    ) throws(Undecided) -> CallMachine.Invitees {
        let profiles = try profiles(of: members)
        let unregistered = settings.users == .known ? invitees.filter { profiles[$0] == nil } : []
        return CallMachine.Invitees(
            profiles: profiles, unregistered: unregistered, limited: limited, withheld: withheld,
            pushable: try pushable(invitees))
    }

    /// Those of `users` without an online device: they ring when they come online. Who is not to be reached looks the same.
    func offline(_ users: [UserID], withheld: [UserID]) throws(Undecided) -> [UserID] {
        let presence = try presence(of: users)
        return users.filter { user in
            withheld.contains(user)
                || !(presence[user] ?? []).contains { $0.isReachable(at: now, lease: settings.presence.lease) }
        }
    }

    // MARK: What every subject does

    /// Any message about the call from the device that is in it shows that the member is alive.
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
    /// It has ended, and may still be told to somebody.
    package var isOver: Bool { !isLive && deliveryDue != nil }
}

extension Array where Element: Hashable {
    /// Each once, in the order in which they stand first.
    @inlinable package var unique: [Element] {
        guard count > 1 else { return self }
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}
