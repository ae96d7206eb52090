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
        var queries = senders.map { Query.devices($0.userID) }
        let isPushing = try await context.pushPolicy()?.isPushing(at: now) ?? false
        for work in works {
            for event in work.events {
                queries += event.expectedQueries(settings, now: now)
                if isPushing { queries += event.invitees.map(Query.registration) }
            }
        }
        var facts = Facts()
        facts.now = now
        facts.listeningSince = context.listeningSince
        facts.isPushing = isPushing
        let records = try await load(works.map { .call($0.id) }, besides: queries.unique, &facts)
        if !senders.isEmpty { try await gatherSessions(of: senders, &facts) }
        try await gatherMemberFacts(of: works, records, &facts)
        return (facts, records)
    }

    /// Returns the facts for requests on peer messages, and their records.
    func gatherFacts(for works: [MessageWork]) async throws(StoreError) -> (facts: Facts, records: [StoredRecord?]) {
        var queries: [Query] = []
        for work in works {
            for case .send(let received, let request) in work.events {
                queries += .sending(request, from: received.device.userID, settings, now: now)
                if settings.isRouting { queries.append(.devices(request.to)) }
            }
        }
        var facts = Facts()
        facts.now = now
        let records = try await load(works.map(\.id), besides: queries.unique, &facts)
        return (facts, records)
    }

    /// Returns these records, and adds the answers to the queries to the facts. The facts do not get the records, since
    /// a decision must read the record of a claim's holder after the holder.
    private func load(
        _ ids: [RecordID], besides queries: [Query], _ facts: inout Facts
    ) async throws(StoreError) -> [StoredRecord?] {
        let answers = try await store.read(ids.map(Query.record) + queries)
        learn(queries, answers[ids.count...], &facts)
        return answers[..<ids.count].map(\.record)
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
            // The broker is back, and so is the device.
            let heard = context.lastHeard.broker(of: device).map { settings.brokers[$0] }
            let isBack = own.isAway && heard == own.broker
            if isBack { returned.insert(device) }
            // A device that moved publishes its presence; its message is no sign of life at its former broker.
            if let heard, let broker = own.broker, heard != broker { continue }
            if own.isOnline, isLate || isCrowded || isBack { renewed.append(device) }
        }
        if !renewed.isEmpty { try await store.renew(renewed) }
    }

    /// Gathers the facts whose need shows when the call has been loaded: the presence of its members after a
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
        let targets = records.compactMap(\.?.target).unique
        var queries = members.unique.filter { facts.presence[$0] == nil }.map(Query.devices)
        queries += unmarked.unique.filter { !facts.knowsRegistration(of: $0) }.map(Query.registration)
        guard !targets.isEmpty || !queries.isEmpty else { return }
        let found = try await load(targets.map(RecordID.call), besides: queries, &facts)
        for (callID, stored) in zip(targets, found) { facts.learn(target: callID, stored) }
    }
}

extension CallEvent {
    /// The queries that serving the event will need, as far as the event shows.
    fileprivate func expectedQueries(_ settings: ServiceSettings, now: Milliseconds) -> [Query] {
        switch self {
        case .request(let received):
            let user = received.device.userID
            switch received.request.body {
            case .invite(let invite):
                var queries = invite.invitees.map(Query.devices)
                queries += ([user] + invite.invitees).map(Query.profile)
                queries += invite.invitees.map { .block(Block(by: $0, of: user)) }
                if settings.calls.oneActiveCall { queries.append(.holder(.activeCall(of: user))) }
                if invite.isMergeable { queries.append(.holder(.ringing(from: invite.invitees[0], to: user))) }
                return queries + .quotas(of: user, settings, now: now)
            case .add(let add):
                var queries = add.invitees.map(Query.devices)
                queries += add.invitees.map(Query.profile)
                queries += add.invitees.map { .block(Block(by: $0, of: user)) }
                return queries + .quotas(of: user, settings, now: now)
            case .accept, .join: return settings.calls.oneActiveCall ? [.holder(.activeCall(of: user))] : []
            default: return []
            }
        case .cameOnline(let device, _), .released(let device): return [.devices(device.userID)]
        case .signal, .ack, .heartbeat, .wentOffline, .registered, .deadline: return []
        }
    }

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
