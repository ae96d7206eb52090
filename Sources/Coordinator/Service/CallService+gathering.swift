import CallCore
import CallDeciding
import CallStore
import SignalingProtocol

/// Gathers what decisions may know: in one round trip what can be foreseen, and what they ask for beyond that when they do.
extension CallService {
    /// What a part will need, on its way from the store.
    struct Look {
        fileprivate let lookup: Lookup
        fileprivate let findings: Pending<Findings>
    }

    /// Asks for what a part will need.
    func begin(_ part: Part) throws(StoreError) -> Look {
        var lookup = Lookup(records: part.works.map { .call($0.id) })
        lookup.presence = part.senders.map(\.userID)
        for work in part.works { for event in work.events { expect(event, &lookup) } }
        lookup.presence = lookup.presence.unique
        lookup.profiles = lookup.profiles.unique
        lookup.outstanding = lookup.outstanding.unique
        lookup.stored = lookup.stored.unique
        return Look(lookup: lookup, findings: try store.begin(lookup))
    }

    /// What is known from here on, and the records of the part's calls.
    func finish(_ look: Look, _ part: Part) throws(StoreError) -> (facts: Facts, records: [StoredRecord?]) {
        let findings = try look.findings.value()
        var facts = Facts()
        facts.now = now
        facts.listeningSince = listeningSince
        learn(look.lookup, findings, &facts)
        if !part.senders.isEmpty { try learnSessions(of: part.senders, &facts) }
        try lookAtMembers(of: part.works, findings.records, &facts)
        return (facts, findings.records)
    }

    func learn(_ lookup: Lookup, _ findings: Findings, _ facts: inout Facts) {
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
        for (list, messages) in zip(lookup.messages, findings.messages) { facts.inboxes[list.user] = messages.count }
        learnStoredBytes(lookup, findings, &facts)
    }

    // MARK: What nobody foresaw

    /// Decides, and finds what is asked for until nothing is.
    func decide(_ work: CallWork, _ stored: StoredRecord?, _ deciding: inout Deciding) throws(StoreError) -> Decision {
        let decision = try found(&deciding) { (deciding) throws(Undecided) in try deciding.decide(work, stored) }
        // Those that are decided after it count with it.
        budgets.take(decision, now: now)
        for (user, count) in decision.rings { deciding.facts.liveInvitations[user, default: 0] += count }
        return decision
    }

    func found<Value>(
        _ deciding: inout Deciding, _ decide: (Deciding) throws(Undecided) -> Value
    ) throws(StoreError) -> Value {
        for _ in 0..<ServiceBounds.lookupsPerDecision {
            do throws(Undecided) {
                return try decide(deciding)
            } catch {
                counters.add(.lookups)
                try find(error, &deciding.facts)
            }
        }
        throw StoreError("a decision never had all that it asked for")
    }

    private func find(_ undecided: Undecided, _ facts: inout Facts) throws(StoreError) {
        switch undecided {
        case .needs(var lookup):
            if !lookup.calls.isEmpty {
                let users = lookup.calls.map(\.user)
                let calls = try liveCalls(of: users, limit: ServiceBounds.callsPerBusyCheck)
                for (user, calls) in zip(users, calls) { facts.liveCalls[user] = calls }
            }
            lookup.calls = []
            guard !lookup.isEmpty else { return }
            let findings = try store.read(lookup)
            for (id, record) in zip(lookup.records, findings.records) { facts.records[id] = .some(record) }
            learn(lookup, findings, &facts)
        case .target(let callID): facts.targets[callID] = .some(try store.load([callID])[0])
        case .timeline(let callID): facts.timelines[callID] = try timeline(of: callID)
        case .wait(let claim):
            pauseBriefly()
            try lookAgain(at: claim, &facts)
        case .fence(let claim): try fence(claim, &facts)
        }
    }

    /// Changes the version of a claim's holder, so that whoever is about to make it deserve the claim loses that commit.
    private func fence(_ claim: Claim, _ facts: inout Facts) throws(StoreError) {
        guard case .some(.some(let holder)) = facts.holders[claim] else { return }
        let stored = facts.records[.call(holder.callID)] ?? nil
        guard let fence = Writing(settings: settings, now: now).fence(holder.callID, stored),
            try !commit([fence])[0]
        else {
            facts.fenced.insert(holder)
            return
        }
        try lookAgain(at: claim, &facts)
    }

    private func lookAgain(at claim: Claim, _ facts: inout Facts) throws(StoreError) {
        facts.looks[claim, default: 0] += 1
        guard facts.looks[claim, default: 0] < ServiceBounds.commitAttempts else {
            throw StoreError("the holder of a claim keeps changing")
        }
        if case .some(.some(let holder)) = facts.holders[claim] { facts.records[.call(holder.callID)] = nil }
        facts.holders[claim] = nil
    }

    /// What serving an event will ask for, as far as the event tells.
    private func expect(_ event: CallEvent, _ lookup: inout Lookup) {
        switch event {
        case .request(let received):
            let user = received.device.userID
            switch received.request.body {
            case .invite(let invite):
                lookup.presence += invite.invitees
                lookup.profiles += [user] + invite.invitees
                lookup.blocks += invite.invitees.map { Block(by: $0, of: user) }
                if settings.calls.oneActiveCall { lookup.claims.append(.activeCall(of: user)) }
                if invite.isMergeable { lookup.claims.append(.ringing(from: invite.invitees[0], to: user)) }
                lookup.expectQuotas(of: user, settings, now: now)
            case .add(let add):
                lookup.presence += add.invitees
                lookup.profiles += add.invitees
                lookup.blocks += add.invitees.map { Block(by: $0, of: user) }
                lookup.expectQuotas(of: user, settings, now: now)
            case .accept, .join: if settings.calls.oneActiveCall { lookup.claims.append(.activeCall(of: user)) }
            default: break
            }
        case .cameOnline(let device): lookup.presence.append(device.userID)
        case .signal, .ack, .heartbeat, .wentOffline, .deadline: break
        }
    }

    /// Whose devices matter when a deadline has come, or an end is acknowledged, is known when the call is.
    private func lookAtMembers(
        of works: [CallWork], _ records: [StoredRecord?], _ facts: inout Facts
    ) throws(StoreError) {
        var members: [UserID] = []
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
        }
        members = members.unique.filter { facts.presence[$0] == nil }
        guard !members.isEmpty else { return }
        for (user, devices) in zip(members, try store.devices(of: members)) { facts.presence[user] = devices }
    }

    /// The users' live calls, the newest first. A list that is full is put right first: what stands in it without a call must not keep
    /// a call out.
    func liveCalls(of users: [UserID], limit: Int) throws(StoreError) -> [[CallID]] {
        let lists = users.map { CallList.live(of: $0, limit: limit) }
        var calls = try store.read(Lookup(calls: lists)).calls
        for place in users.indices where calls[place].count == limit {
            if try tidyCalls(of: users[place]) { calls[place] = try store.calls(lists[place]) }
        }
        return calls
    }

    /// Removes from the user's list what stands in it without a call. Whether there was something. Not where there was nothing just
    /// before: all that is listed is loaded for it, and lists of calls that live are full as well.
    func tidyCalls(of user: UserID) throws(StoreError) -> Bool {
        guard !tidied.contains(user, now: now) else { return false }
        var removed = 0
        for _ in 0..<ServiceBounds.tidyings {
            let count = try store.tidyCalls(of: user)
            removed += count
            guard count > 0 else {
                tidied.insert(user, now: now)
                break
            }
        }
        counters.add(.listEntriesMended, removed)
        return removed > 0
    }

    /// Those of `users` who have blocked `user`.
    func blocking(_ user: UserID, among users: [UserID]) throws(StoreError) -> [UserID] {
        zip(users, try store.isBlocked(users.map { Block(by: $0, of: user) })).filter(\.1).map(\.0)
    }

    /// Learns the sessions of devices that sent something, and renews their leases.
    private func learnSessions(of devices: [DeviceAddress], _ facts: inout Facts) throws(StoreError) {
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
        if !renewed.isEmpty { try store.renew(renewed) }
    }
}
