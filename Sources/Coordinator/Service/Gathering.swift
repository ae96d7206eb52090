import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Gathers what decisions may know: in one round trip what can be foreseen, and what they ask for beyond that when they do.
struct Gathering {
    let serving: Serving

    private var store: any RecordStore & PresenceStore { serving.store }
    private var settings: ServiceSettings { serving.settings }
    private var now: Milliseconds { serving.now }

    // MARK: What can be foreseen

    /// For works on calls: what is known, and the records of the calls. `senders`: the devices whose messages these are.
    func facts(
        for works: [CallWork], of senders: [DeviceAddress]
    ) async throws(StoreError) -> (facts: Facts, records: [StoredRecord?]) {
        var lookup = Lookup(records: works.map { .call($0.id) })
        lookup.presence = senders.map(\.userID)
        let isPushing = try await serving.context.pushPolicy()?.isOwed(at: now) ?? false
        for work in works {
            for event in work.events {
                lookup.expect(event, settings, now: now)
                if isPushing { lookup.registered += event.invitees }
            }
        }
        lookup.removeRepeated()
        let findings = try await store.read(lookup)
        var facts = Facts()
        facts.now = now
        facts.listeningSince = serving.context.listeningSince
        facts.isPushing = isPushing
        learn(lookup, findings, &facts)
        if !senders.isEmpty { try await learnSessions(of: senders, &facts) }
        try await lookAtMembers(of: works, findings.records, &facts)
        return (facts, findings.records)
    }

    /// The same for works on peer messages.
    func facts(for works: [MessageWork]) async throws(StoreError) -> (facts: Facts, records: [StoredRecord?]) {
        var lookup = Lookup(records: works.map(\.id))
        for work in works {
            for case .send(let received, let request) in work.events {
                lookup.expect(request, from: received.device.userID, settings, now: now)
            }
        }
        lookup.removeRepeated()
        let findings = try await store.read(lookup)
        var facts = Facts()
        facts.now = now
        learn(lookup, findings, &facts)
        return (facts, findings.records)
    }

    private func learn(_ lookup: Lookup, _ findings: Findings, _ facts: inout Facts) {
        for (user, devices) in zip(lookup.presence, findings.presence) { facts.presence[user] = devices }
        for (claim, holder) in zip(lookup.claims, findings.holders) { facts.holders[claim] = .some(holder) }
        for (user, profile) in zip(lookup.profiles, findings.profiles) { facts.profiles[user] = .some(profile) }
        for (block, isBlocked) in zip(lookup.blocks, findings.isBlocked) { facts.blocks[block] = isBlocked }
        for (count, number) in zip(lookup.outstanding, findings.outstanding) {
            switch count.kind {
            case .invitations: facts.liveInvitations[count.user] = number
            case .messages: facts.waitingMessages[count.user] = number
            }
        }
        for (user, isRegistered) in zip(lookup.registered, findings.isRegistered) {
            facts.registered[user] = isRegistered
        }
        for (list, messages) in zip(lookup.messages, findings.messages) { facts.inboxes[list.user] = messages.count }
        for (user, bytes) in KeptBytes(settings, now: now).sums(lookup, findings) {
            // What this coordinator has not written yet is counted by it already.
            facts.storedBytes[user] = bytes + serving.context.usage.waiting(of: user)
        }
    }

    /// Learns the sessions of devices that sent something, and renews their leases.
    private func learnSessions(of devices: [DeviceAddress], _ facts: inout Facts) async throws(StoreError) {
        var renewed: [DeviceAddress] = []
        for device in devices {
            let devices = facts.presence[device.userID] ?? []
            guard let own = devices.first(where: { $0.device == device }) else { continue }
            facts.sessions[device] = own.session
            // Not at every message, which would cost a write each, unless one more device would replace the one
            // silent longest.
            let isLate = own.seen + settings.presence.lease / 10 < now
            let isCrowded = devices.count(where: \.isOnline) >= settings.presence.maxDevices
            if own.isOnline, isLate || isCrowded { renewed.append(device) }
        }
        if !renewed.isEmpty { try await store.renew(renewed) }
    }

    /// Whose devices matter when a deadline has come, or an end is acknowledged, is known when the call is.
    private func lookAtMembers(
        of works: [CallWork], _ records: [StoredRecord?], _ facts: inout Facts
    ) async throws(StoreError) {
        var members: [UserID] = []
        var unmarked: [UserID] = []
        for (work, stored) in zip(works, records) {
            guard case .call(let call)? = stored?.record else { continue }
            let isAsked = work.events.contains { event in
                switch event {
                case .deadline: true
                case .ack: call.isOver
                default: false
                }
            }
            if isAsked { members += call.members.map(\.userID) }
            if facts.isPushing, work.events.contains(where: \.isDeadline) {
                unmarked += CallMachine(call: call, settings: settings.calls).unmarked
            }
        }
        let lookup = Lookup(
            presence: members.unique.filter { facts.presence[$0] == nil },
            registered: unmarked.unique.filter { facts.registered[$0] == nil })
        guard !lookup.isEmpty else { return }
        learn(lookup, try await store.read(lookup), &facts)
    }

    // MARK: What nobody foresaw

    /// Decides, and finds what is asked for until nothing is.
    func decided<Value>(
        _ deciding: inout Deciding, _ decide: (Deciding) throws(Undecided) -> Value
    ) async throws(StoreError) -> Value {
        for _ in 0..<ServiceBounds.lookupsPerDecision {
            let undecided: Undecided
            do throws(Undecided) {
                return try decide(deciding)
            } catch {
                undecided = error
            }
            serving.context.counters.add(.lookups)
            try await find(undecided, &deciding.facts)
        }
        throw StoreError(.unsettled, "a decision never had all that it asked for")
    }

    private func find(_ undecided: Undecided, _ facts: inout Facts) async throws(StoreError) {
        switch undecided {
        case .needs(var lookup):
            if !lookup.calls.isEmpty {
                let users = lookup.calls.map(\.user)
                let calls = try await UserCalls(serving: serving).live(
                    of: users, limit: ServiceBounds.callsPerBusyCheck)
                for (user, calls) in zip(users, calls) { facts.liveCalls[user] = calls }
            }
            lookup.calls = []
            guard !lookup.isEmpty else { return }
            let findings = try await store.read(lookup)
            for (id, record) in zip(lookup.records, findings.records) { facts.records[id] = .some(record) }
            learn(lookup, findings, &facts)
        case .target(let callID): facts.targets[callID] = .some(try await store.load([callID])[0])
        case .timeline(let callID):
            facts.timelines[callID] = try await Timelines(context: serving.context).timeline(of: callID)
        case .wait(let claim):
            await serving.context.pause()
            try lookAgain(at: claim, &facts)
        case .fence(let claim): try await fence(claim, &facts)
        }
    }

    /// Changes the version of a claim's holder, so that whoever is about to make it deserve the claim loses that commit.
    private func fence(_ claim: Claim, _ facts: inout Facts) async throws(StoreError) {
        guard case .some(.some(let holder)) = facts.holders[claim] else { return }
        let stored = facts.records[.call(holder.callID)] ?? nil
        let writing = Writing(settings: settings, now: now, endpoints: [])
        guard let fence = writing.fence(holder.callID, stored),
            try await !Committing(serving: serving).commit([fence])[0]
        else {
            facts.fenced.insert(holder)
            return
        }
        try lookAgain(at: claim, &facts)
    }

    private func lookAgain(at claim: Claim, _ facts: inout Facts) throws(StoreError) {
        facts.looks[claim, default: 0] += 1
        guard facts.looks[claim, default: 0] < ServiceBounds.commitAttempts else {
            throw StoreError(.unsettled, "the holder of a claim keeps changing")
        }
        if case .some(.some(let holder)) = facts.holders[claim] { facts.records[.call(holder.callID)] = nil }
        facts.holders[claim] = nil
    }
}

extension Lookup {
    /// What serving an event will ask for, as far as the event tells.
    fileprivate mutating func expect(_ event: CallEvent, _ settings: ServiceSettings, now: Milliseconds) {
        switch event {
        case .request(let received):
            let user = received.device.userID
            switch received.request.body {
            case .invite(let invite):
                presence += invite.invitees
                profiles += [user] + invite.invitees
                blocks += invite.invitees.map { Block(by: $0, of: user) }
                if settings.calls.oneActiveCall { claims.append(.activeCall(of: user)) }
                if invite.isMergeable { claims.append(.ringing(from: invite.invitees[0], to: user)) }
                expectQuotas(of: user, settings, now: now)
            case .add(let add):
                presence += add.invitees
                profiles += add.invitees
                blocks += add.invitees.map { Block(by: $0, of: user) }
                expectQuotas(of: user, settings, now: now)
            case .accept, .join: if settings.calls.oneActiveCall { claims.append(.activeCall(of: user)) }
            default: break
            }
        case .cameOnline(let device, _): presence.append(device.userID)
        case .signal, .ack, .heartbeat, .wentOffline, .registered, .deadline: break
        }
    }

    fileprivate mutating func removeRepeated() {
        presence = presence.unique
        messages = messages.unique
        profiles = profiles.unique
        blocks = blocks.unique
        outstanding = outstanding.unique
        stored = stored.unique
        registered = registered.unique
    }
}

extension CallEvent {
    /// Who would be rung because of it.
    fileprivate var invitees: [UserID] {
        guard case .request(let received) = self else { return [] }
        switch received.request.body {
        case .invite(let invite): return invite.invitees
        case .add(let add): return add.invitees
        default: return []
        }
    }

    fileprivate var isDeadline: Bool {
        if case .deadline = self { true } else { false }
    }
}
