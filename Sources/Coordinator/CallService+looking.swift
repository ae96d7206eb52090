import CallCore
import CallStore
import SignalingProtocol

typealias Presence = [UserID: [DevicePresence]]

/// What was read for one round before anything was decided: all of it in one round trip, as of one moment. Whatever a
/// decision needs beyond that is asked of the store when it is needed.
struct Knowledge {
    var presence: Presence = [:]
    var holders: [Claim: ClaimHolder?] = [:]
    var profiles: [UserID: UserProfile?] = [:]
    var blocks: [Block: Bool] = [:]
    /// Of users who invite: with what was decided since in the same round.
    var liveInvitations: [UserID: Int] = [:]
    var storedBytes: [UserID: Int] = [:]
    /// Messages that were decided in the same round.
    var sending: [UserID: Int] = [:]
    /// The sessions of the devices that sent the messages being served.
    var sessions: [DeviceAddress: String] = [:]
}

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

    /// From here on it is `known`. Returns the records of the part's calls.
    func finish(_ look: Look, _ part: Part) throws(StoreError) -> [StoredRecord?] {
        let findings = try look.findings.value()
        known = Knowledge()
        for (user, devices) in zip(look.lookup.presence, findings.presence) { known.presence[user] = devices }
        for (claim, holder) in zip(look.lookup.claims, findings.holders) { known.holders[claim] = .some(holder) }
        for (user, profile) in zip(look.lookup.profiles, findings.profiles) { known.profiles[user] = .some(profile) }
        for (block, isBlocked) in zip(look.lookup.blocks, findings.isBlocked) { known.blocks[block] = isBlocked }
        for (count, number) in zip(look.lookup.outstanding, findings.outstanding) {
            known.liveInvitations[count.user] = number
        }
        learnStoredBytes(look.lookup, findings)
        if !part.senders.isEmpty { try learnSessions(of: part.senders) }
        try lookAtMembers(of: part.works, findings.records)
        return findings.records
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
                expectQuotas(of: user, &lookup)
            case .add(let add):
                lookup.presence += add.invitees
                lookup.profiles += add.invitees
                lookup.blocks += add.invitees.map { Block(by: $0, of: user) }
                expectQuotas(of: user, &lookup)
            case .accept, .join: if settings.calls.oneActiveCall { lookup.claims.append(.activeCall(of: user)) }
            default: break
            }
        case .cameOnline(let device): lookup.presence.append(device.userID)
        case .signal, .ack, .heartbeat, .wentOffline, .deadline: break
        }
    }

    /// Whose devices matter when a deadline has come, or an end is acknowledged, is known when the call is.
    private func lookAtMembers(of works: [CallWork], _ records: [StoredRecord?]) throws(StoreError) {
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
        members = members.unique.filter { known.presence[$0] == nil }
        guard !members.isEmpty else { return }
        for (user, devices) in zip(members, try store.devices(of: members)) { known.presence[user] = devices }
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

    /// From what was read for this round, or else from the store.
    func presence(of users: [UserID]) throws(StoreError) -> Presence {
        var presence: Presence = [:]
        for user in users { presence[user] = known.presence[user] }
        let unknown = users.filter { presence[$0] == nil }.unique
        guard !unknown.isEmpty else { return presence }
        for (user, devices) in zip(unknown, try store.devices(of: unknown)) { presence[user] = devices }
        return presence
    }

    /// Those of `users` who have blocked `user`.
    func blocking(_ user: UserID, among users: [UserID]) throws(StoreError) -> [UserID] {
        let blocks = users.map { Block(by: $0, of: user) }
        let read = blocks.compactMap { known.blocks[$0] }
        let isBlocked = read.count == blocks.count ? read : try store.isBlocked(blocks)
        return zip(users, isBlocked).filter(\.1).map(\.0)
    }

    func profiles(of users: [UserID]) throws(StoreError) -> [UserProfile?] {
        let profiles = users.compactMap { known.profiles[$0] }
        return profiles.count == users.count ? profiles : try store.profiles(of: users)
    }

    /// As it was read for this round, when it was: a commit that finds another holder is judged again.
    func holder(of claim: Claim) throws(StoreError) -> ClaimHolder? {
        // Once: who looks again wants to know what has changed.
        if let holder = known.holders.removeValue(forKey: claim) { return holder }
        return try store.holders(of: [claim])[0]
    }

    /// Learns the sessions of devices that sent something, and renews their leases. For `session(of:)`.
    private func learnSessions(of devices: [DeviceAddress]) throws(StoreError) {
        var renewed: [DeviceAddress] = []
        for device in devices {
            let devices = known.presence[device.userID] ?? []
            guard let own = devices.first(where: { $0.device == device }) else { continue }
            known.sessions[device] = own.session
            // Not at every message, which would cost a write each, unless one more device would replace the one
            // silent longest.
            let isLate = own.seen + settings.presence.lease / 10 < now
            let isCrowded = devices.count(where: \.isOnline) >= settings.presence.maxDevices
            if own.isOnline, isLate || isCrowded { renewed.append(device) }
        }
        if !renewed.isEmpty { try store.renew(renewed) }
    }

    /// The current session of a device that sent something; empty for one that publishes no presence.
    func session(of device: DeviceAddress) -> String { known.sessions[device] ?? "" }
}

extension Call {
    /// It has ended, and may still be told to somebody.
    var isOver: Bool { !isLive && deliveryDue != nil }
}

extension Array where Element: Hashable {
    /// Each once, in the order in which they stand first.
    var unique: [Element] {
        guard count > 1 else { return self }
        var seen: Set<Element> = []
        return filter { seen.insert($0).inserted }
    }
}
