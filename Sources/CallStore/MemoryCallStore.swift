import CallCore
import SignalingProtocol

/// A store in memory, for tests and simulation. All data is lost when the process ends.
package final class MemoryCallStore: CallStore {
    struct Entry {
        var version: Int64
        var record: Record
        var deadline: Milliseconds?
        var expiresAt: Milliseconds?
        var acks: [DeviceAddress: DeviceAck] = [:]
        var heard: [UserID: Milliseconds] = [:]
        var milestones: [DeviceAddress: [String: Int64]] = [:]
        var pushes: [PushRegistration.Key: PushState] = [:]
        var checks: [DeviceAddress: RingCheck] = [:]
    }

    /// The calls of a user.
    struct UserCalls {
        private(set) var live: [CallID] = []
        /// The ended calls, the oldest first.
        private(set) var ended: [HistoryPlace] = []

        var all: [CallID] { live + ended.map(\.callID) }

        mutating func add(_ callID: CallID) {
            if !live.contains(callID), !ended.contains(where: { $0.callID == callID }) { live.append(callID) }
        }

        /// Notes that a call has ended. Only the newest ended calls are kept.
        mutating func end(_ place: HistoryPlace, keeping most: Int) {
            guard let index = live.firstIndex(of: place.callID) else { return }
            live.remove(at: index)
            // Nearly always the new place is the last.
            ended.insert(place, at: (ended.lastIndex { $0 < place } ?? -1) + 1)
            ended.removeFirst(max(0, ended.count - most))
        }

        mutating func remove(_ callID: CallID) {
            live.removeAll { $0 == callID }
            ended.removeAll { $0.callID == callID }
        }
    }

    /// The store's data, as a value.
    package struct Contents {
        var entries: [RecordID: Entry] = [:]
        var index: [UserID: UserCalls] = [:]
        var claims: [Claim: ClaimHolder] = [:]
        /// The live calls, each with the number of its pending invitations.
        var live: [CallID: Int] = [:]
        var profiles: [UserID: UserProfile] = [:]
        var blocks: Set<Block> = []
        var timelines: [CallID: Timeline] = [:]
        var presence: [UserID: UserPresence] = [:]
        var brokers = BrokerSightings()
        var outbox = Outbox()
        var registrations = Registrations()
        var pushes = PushQueue()
        var reservations = PushReservations()
        var pushPolicy: PushPolicy?
        var pushProcesses = PushProcesses()
        var pushSecret: [UInt8]?
        /// The audit log, with the numbers of its entries.
        var audit: [(number: Int, entry: AuditEntry)] = []
        var nextAudit = 0
        var adminSettings = AdminSettings()
        var outstanding: [UserID: [Outstanding: Milliseconds]] = [:]
        var stored: [StoredPeriod: (bytes: Int, until: Milliseconds)] = [:]

        package init() {}
    }

    private let clock: () -> Milliseconds
    private let historyPerUser: Int
    let lease: Milliseconds
    /// All data of the store, for tests that save and restore the data.
    package var contents = Contents()

    package init(
        historyPerUser: Int = Retention.historyPerUser, lease: Milliseconds = PresencePolicy().lease,
        clock: @escaping () -> Milliseconds
    ) {
        self.historyPerUser = historyPerUser
        self.lease = lease
        self.clock = clock
    }

    /// Adds `count` records that cannot be decoded, like damaged records or records of a later version. All have the
    /// given deadline.
    package func addUnreadable(_ count: Int, dueAt deadline: Milliseconds) {
        for number in 0..<count {
            contents.entries[.call(CallID("unreadable-\(number)")!)] = Entry(
                version: 1, record: .unreadable, deadline: deadline)
        }
    }

    package var summary: String { "memory" }

    package var durability: String? { "everything is lost with the process" }

    package func now() -> Milliseconds { clock() }

    package var time: Milliseconds? { clock() }

    package func read(_ queries: [Query]) -> [QueryAnswer] { queries.map(answer) }

    private func answer(_ query: Query) -> QueryAnswer {
        switch query {
        case .record(let id): return .record(load(id))
        case .devices(let user): return .devices(devices(of: [user])[0])
        case .holder(let claim): return .holder(contents.claims[claim])
        case .profile(let user): return .profile(contents.profiles[user])
        case .block(let block): return .block(contents.blocks.contains(block))
        case .calls(let list): return .calls(calls(list))
        case .messages(let list): return .messages(messages(list))
        case .outstanding(let count):
            let found = (contents.outstanding[count.user] ?? [:])
                .filter { $0.key.kind == count.kind && $0.value > count.after }.prefix(count.limit)
            return .outstanding(
                count.isByInvitee
                    ? OutstandingNumber(invitations: found.map(\.key.name)) : OutstandingNumber(count: found.count))
        case .storedBytes(let stored): return .storedBytes(stored.periods.map { contents.stored[$0]?.bytes ?? 0 })
        case .registration(let user): return .registration(!registrations(of: [user])[0].isEmpty)
        }
    }

    package func write(_ commits: [Commit], _ notes: [Note], thenRead queries: [Query]) -> Written {
        let outcomes = commit(commits)
        note(notes)
        return Written(outcomes: outcomes, answers: read(queries))
    }

    package func liveCounts() -> LiveCounts {
        let now = clock()
        let devices = contents.presence.keys.lazy.flatMap { self.devices(of: [$0])[0] }
        return LiveCounts(
            calls: contents.live.count, ringing: contents.live.values.reduce(0, +),
            devices: devices.count { $0.isOnline && $0.isReachable(at: now, lease: lease) })
    }

    /// Has nothing to do, because no other process changes the contents.
    package func tidyLiveCounts() {}

    package func load(_ ids: [RecordID]) -> [StoredRecord?] { ids.map(load) }

    private func load(_ id: RecordID) -> StoredRecord? {
        contents.entries[id].map { entry in
            StoredRecord(
                id, version: entry.version, record: entry.record,
                acks: entry.acks.values.sorted { $0.device < $1.device },
                heard: entry.heard.map { UserHeard(userID: $0.key, at: $0.value) }.sorted { $0.userID < $1.userID },
                reports: DeviceReport.sorted(entry.milestones),
                pushes: entry.pushes.values.sorted { $0.key < $1.key },
                checks: entry.checks.values.sorted { $0.device < $1.device })
        }
    }

    package func commit(_ commits: [Commit]) -> [CommitOutcome] { commits.map(commit) }

    private func commit(_ commit: Commit) -> CommitOutcome {
        if let refusal = refusal(of: commit) { return refusal }
        guard takeClaims(of: commit) else { return .claimHeld }
        let outcome = write(commit)
        giveUpClaims(of: commit)
        return outcome
    }

    private func refusal(of commit: Commit) -> CommitOutcome? {
        guard commit.validity?.contains(clock()) ?? true else { return .stale }
        return contents.entries[commit.id]?.version ?? 0 == commit.expected ? nil : .conflict
    }

    // MARK: The steps of a commit

    // The simulator calls the steps separately: a store on several machines takes the steps one after the other, and a
    // crash may come in between (docs/decisions/0006).

    /// Takes the first step: sets the claims, and adds the call to the lists by which a returning device finds its
    /// calls. Returns false when another call than expected holds a claim.
    package func takeClaims(of commit: Commit) -> Bool {
        guard takeClaims(of: commit, where: { _ in true }) else { return false }
        for user in commit.newMembers { enter(commit, of: user) }
        return true
    }

    /// Sets some of the claims. Returns false when another call than expected holds one of these claims.
    package func takeClaims(of commit: Commit, where isTaken: (Claim) -> Bool) -> Bool {
        for (claim, holder) in commit.expectedHolders where isTaken(claim) {
            guard contents.claims[claim] == holder || contents.claims[claim] == commit.holder else { return false }
        }
        for claim in commit.claims where isTaken(claim) { contents.claims[claim] = commit.holder }
        return true
    }

    /// Adds the call to a user's list.
    package func enter(_ commit: Commit, of user: UserID) {
        if let callID = commit.id.callID { contents.index[user, default: UserCalls()].add(callID) }
    }

    /// Takes the second step: writes the record unless another writer has changed the record meanwhile.
    package func write(_ commit: Commit) -> CommitOutcome {
        if let refusal = refusal(of: commit) { return refusal }
        var entry = contents.entries[commit.id] ?? Entry(version: 0, record: commit.record)
        entry.version += 1
        if let entries = commit.outboxEntries {
            contents.outbox.append(entries, commit.id, now: clock(), encode: RecordCodec.encode)
        }
        switch commit.liveChange {
        case .live(let ringing)?: if let callID = commit.id.callID { contents.live[callID] = ringing }
        case .over?: if let callID = commit.id.callID { contents.live[callID] = nil }
        case nil: break
        }
        if commit.pushes, let callID = commit.id.callID { contents.pushes.enter(callID, now: clock()) }
        entry.record = commit.record
        entry.deadline = commit.deadline
        entry.expiresAt = commit.expiresAt
        contents.entries[commit.id] = entry
        if let callID = commit.id.callID {
            for user in commit.formerMembers { contents.index[user]?.remove(callID) }
        }
        if case .call(let call) = commit.record, !call.isLive {
            let place = HistoryPlace(createdAt: call.createdAt, callID: call.callID)
            for user in commit.members { contents.index[user]?.end(place, keeping: historyPerUser) }
        }
        note(commit.notes)
        for (asked, until) in commit.asked { contents.outstanding[asked.user, default: [:]][asked] = until }
        for settled in commit.settled {
            contents.outstanding[settled.user]?[settled] = nil
            if contents.outstanding[settled.user]?.isEmpty ?? false { contents.outstanding[settled.user] = nil }
        }
        return .committed(version: entry.version)
    }

    /// Takes the last step of a successful commit: removes the claims that the commit releases.
    package func giveUpClaims(of commit: Commit) {
        for claim in commit.releases {
            // A delayed release must not remove a claim that the call has taken again since.
            guard let holder = contents.claims[claim], holder.callID == commit.id.callID,
                holder.version <= commit.expected
            else { continue }
            contents.claims[claim] = nil
        }
    }

    package func note(_ notes: [Note]) {
        for note in notes {
            let id = RecordID.call(note.callID)
            switch note {
            case .ack(_, let ack):
                if let known = contents.entries[id]?.acks[ack.device], known.isSession(ack.session),
                    known.revision >= ack.revision
                {
                    continue
                }
                contents.entries[id]?.acks[ack.device] = ack
            case .heard(_, let heard):
                guard heard.at > contents.entries[id]?.heard[heard.userID] ?? 0 else { continue }
                contents.entries[id]?.heard[heard.userID] = heard.at
            case .milestone(_, let device, let milestone):
                contents.entries[id]?.milestones[device, default: [:]][milestone.name] = milestone.milliseconds
            case .push(_, let push, let worker):
                if let worker, contents.pushes.holder(of: note.callID, now: now()) != worker { continue }
                guard contents.entries[id]?.pushes[push.key]?.invitation ?? 0 <= push.invitation else { continue }
                contents.entries[id]?.pushes[push.key] = push
            case .ringCheck(_, let check):
                guard contents.entries[id]?.checks[check.device]?.invitation ?? 0 <= check.invitation else { continue }
                contents.entries[id]?.checks[check.device] = check
            }
        }
    }

    package func due(before moment: Milliseconds, limit: Int, besides: Set<RecordID>) -> [RecordID] {
        var due: [(at: Milliseconds, id: RecordID)] = []
        for place in contents.entries.indices {
            guard let at = contents.entries.values[place].deadline, at <= moment else { continue }
            let id = contents.entries.keys[place]
            if !besides.contains(id) { due.append((at, id)) }
        }
        return due.sorted { $0 < $1 }.prefix(limit).map(\.id)
    }

    package func due(before moment: Milliseconds, limit: Int) -> [RecordID] {
        due(before: moment, limit: limit, besides: [])
    }

    package func due(_ ids: [RecordID], before moment: Milliseconds) -> [RecordID] {
        ids.filter { contents.entries[$0]?.deadline.map { $0 <= moment } ?? false }
    }

    package func calls(_ list: CallList) -> [CallID] {
        let own = (contents.index[list.user]?.all ?? []).compactMap { callID -> Call? in
            guard case .call(let call)? = contents.entries[.call(callID)]?.record else { return nil }
            return call.endedAt.map { $0 > list.endedAfter } ?? true ? call : nil
        }
        return own.sorted { ($1.createdAt, $1.callID) < ($0.createdAt, $0.callID) }.prefix(list.limit).map(\.callID)
    }

    package func history(of user: UserID, after place: HistoryPlace?, limit: Int) -> [HistoryPlace] {
        let places = (contents.index[user]?.all ?? []).compactMap { callID -> HistoryPlace? in
            guard case .call(let call)? = contents.entries[.call(callID)]?.record else { return nil }
            return HistoryPlace(createdAt: call.createdAt, callID: callID)
        }
        return Array(places.filter { known in place.map { known < $0 } ?? true }.sorted(by: >).prefix(limit))
    }

    package func messages(_ list: MessageList) -> [RecordID] {
        let waiting = contents.entries.values.compactMap { entry -> PeerMessage? in
            guard case .message(let message) = entry.record, message.to == list.user, message.isListed else {
                return nil
            }
            return message
        }
        return waiting.sorted { ($0.createdAt, $0.messageID) < ($1.createdAt, $1.messageID) }.prefix(list.limit)
            .map { .message($0.messageID, to: list.user) }
    }

    package func update(_ user: UserID, _ update: Request.UserUpdate) -> UserProfile {
        contents.profiles[user, default: UserProfile()].apply(update)
        return contents.profiles[user, default: UserProfile()]
    }

    package func set(_ block: Block, _ isBlocked: Bool) -> Bool {
        guard isBlocked else {
            contents.blocks.remove(block)
            return true
        }
        guard contents.blocks.contains(block) || blockList(of: block.user).count < Limits.blockedUsers else {
            return false
        }
        contents.blocks.insert(block)
        return true
    }

    package func blockList(of user: UserID) -> [UserID] {
        contents.blocks.filter { $0.user == user }.map(\.blocked).sorted()
    }

    package func erase(_ user: UserID) {
        for callID in contents.index[user]?.all ?? [] {
            contents.timelines[callID] = nil
            guard var entry = contents.entries[.call(callID)] else { continue }
            entry.acks = entry.acks.filter { $0.key.userID != user }
            entry.heard[user] = nil
            entry.milestones = entry.milestones.filter { $0.key.userID != user }
            entry.pushes = entry.pushes.filter { $0.key.device.userID != user }
            entry.checks = entry.checks.filter { $0.key.userID != user }
            contents.entries[.call(callID)] = entry
        }
        for id in messages(MessageList(for: user, limit: .max)) { contents.entries[id] = nil }
        contents.index[user] = nil
        contents.profiles[user] = nil
        contents.blocks = contents.blocks.filter { $0.user != user && $0.blocked != user }
        contents.presence[user]?.forgetDevices()
        if contents.presence[user]?.isEmpty ?? false { contents.presence[user] = nil }
        contents.outstanding[user] = nil
        contents.stored = contents.stored.filter { $0.key.user != user }
        contents.claims[.activeCall(of: user)] = nil
        contents.registrations.erase(user)
        contents.reservations.erase(user)
    }

    package func charge(_ charges: [StoredCharge]) {
        for charge in charges {
            contents.stored[charge.period, default: (0, 0)].bytes += charge.bytes
            contents.stored[charge.period]?.until = charge.until
        }
    }

    package func trace(_ traces: [CallTrace], life: Milliseconds) {
        for trace in traces { contents.timelines[trace.callID, default: Timeline(entries: [])].add(trace.entries) }
    }

    package func timeline(of callID: CallID) -> Timeline {
        var timeline = contents.timelines[callID] ?? Timeline(entries: [])
        timeline.entries = timeline.entries.inOrderOfTime()
        return timeline
    }

    package func devices(of users: [UserID]) -> [[DevicePresence]] {
        users.map { contents.brokers.marked(contents.presence[$0]?.devices ?? []) }
    }

    package func cameOnline(_ sessions: [DeviceSession], policy: PresencePolicy) -> [OnlineOutcome] {
        let now = clock()
        return sessions.map { session in
            let user = session.device.userID
            let outcome = contents.presence[user, default: UserPresence()].cameOnline(session, policy, now: now)
            if outcome != .over, outcome != .late, contents.profiles[user] == nil {
                contents.profiles[user] = UserProfile()
            }
            return outcome
        }
    }

    package func wentOffline(_ sessions: [DeviceSession], policy: PresencePolicy) -> [Bool] {
        let now = clock()
        return sessions.map { session in
            contents.presence[session.device.userID, default: UserPresence()].wentOffline(session, policy, now: now)
        }
    }

    package func renew(_ devices: [DeviceAddress]) {
        let now = clock()
        for device in devices { contents.presence[device.userID]?.renew(device, lease: lease, now: now) }
    }

    package func clean(limit: Int) -> Int {
        let now = clock()
        let over = contents.entries.filter { $0.value.expiresAt.map { $0 <= now } ?? false }.keys.sorted().prefix(limit)
        for id in over {
            if case .call(let call)? = contents.entries[id]?.record {
                for member in call.members { contents.index[member.userID]?.remove(call.callID) }
            }
            contents.entries[id] = nil
            if let callID = id.callID { contents.timelines[callID] = nil }
        }
        contents.claims = contents.claims.filter { !over.contains(.call($0.value.callID)) }
        contents.presence = contents.presence.compactMapValues { presence in
            var presence = presence
            presence.clean(lease: lease, now: now)
            return presence.isEmpty ? nil : presence
        }
        contents.stored = contents.stored.filter { $0.value.until > now }
        contents.registrations.clean(now: now)
        contents.reservations.clean(now: now)
        contents.outstanding = contents.outstanding.compactMapValues { asked in
            let kept = asked.filter { $0.value > now }
            return kept.isEmpty ? nil : kept
        }
        return over.count
    }
}
