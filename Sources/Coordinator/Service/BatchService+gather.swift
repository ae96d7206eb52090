import CallCore
import CallStore
import SignalingProtocol

/// Gathers the facts for decisions, as far as they can be foreseen, in one round trip. `decide` answers further
/// queries.
extension BatchService {
    /// Returns the facts for requests on calls, and the records of the calls. `senders` are the devices that sent the
    /// messages.
    func gatherFacts(
        for works: [CallWork], of senders: [DeviceAddress]
    ) async throws(StoreError) -> (facts: Facts, records: [StoredRecord?]) {
        var lookup = Lookup(records: works.map { .call($0.id) })
        lookup.presence = senders.map(\.userID)
        let isPushing = try await context.pushPolicy()?.isPushing(at: now) ?? false
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
        facts.listeningSince = context.listeningSince
        facts.isPushing = isPushing
        facts.learn(lookup, findings, self)
        if !senders.isEmpty { try await gatherSessions(of: senders, &facts) }
        try await gatherMemberFacts(of: works, findings.records, &facts)
        return (facts, findings.records)
    }

    /// Returns the facts for requests on peer messages, and their records.
    func gatherFacts(for works: [MessageWork]) async throws(StoreError) -> (facts: Facts, records: [StoredRecord?]) {
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
        facts.learn(lookup, findings, self)
        return (facts, findings.records)
    }

    /// Adds the sessions of devices that sent a message, and renews their expiries.
    private func gatherSessions(of devices: [DeviceAddress], _ facts: inout Facts) async throws(StoreError) {
        var renewed: [DeviceAddress] = []
        for device in devices {
            let devices = facts.presence[device.userID] ?? []
            guard let own = devices.first(where: { $0.device == device }) else { continue }
            facts.sessions[device] = own.session
            // An expiry is not renewed at every message, since each renewal costs a write, except while a new device
            // would replace the device that has been silent longest.
            let isLate = own.seen + settings.presence.lease / 10 < now
            let isCrowded = devices.count(where: \.isOnline) >= settings.presence.maxDevices
            if own.isOnline, isLate || isCrowded { renewed.append(device) }
        }
        if !renewed.isEmpty { try await store.renew(renewed) }
    }

    /// Gathers the facts that are known to be needed only once the call is loaded: the presence of its members after a
    /// deadline or an ack of its end, the registrations of its ringing members, and the call that an alias leads to.
    private func gatherMemberFacts(
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
        var lookup = Lookup(
            presence: members.unique.filter { facts.presence[$0] == nil },
            registered: unmarked.unique.filter { facts.registered[$0] == nil })
        let targets = records.compactMap(\.?.target).unique
        lookup.records = targets.map { .call($0) }
        guard !lookup.isEmpty else { return }
        let findings = try await store.read(lookup)
        facts.learn(lookup, findings, self)
        for (callID, stored) in zip(targets, findings.records) { facts.targets[callID] = .some(stored) }
    }
}

extension Lookup {
    /// Adds the queries that serving the event will need, as far as the event shows.
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
        case .cameOnline(let device, _), .released(let device): presence.append(device.userID)
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
    /// The users that the event would invite.
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

extension StoredRecord {
    /// The call that an alias leads to.
    fileprivate var target: CallID? {
        if case .alias(let target, _) = record { target } else { nil }
    }
}
