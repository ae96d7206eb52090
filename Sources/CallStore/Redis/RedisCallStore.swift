import CallCore
import SignalingProtocol

/// The shared store: one Redis (6.2 or later) for any number of coordinators.
///
/// Keys are laid out for Redis Cluster: a call and its due entry share the tag of one of a fixed number of partitions, what
/// belongs to a user has the user's tag, a pair of users theirs. A commit is atomic within the call's slot; what lies
/// elsewhere is kept by steps that may be repeated: claims are taken and index entries written before the commit, and
/// given up after it. A claim that a commit which then failed has taken names a call that does not deserve it, and is taken
/// over by whoever needs it (docs/decisions/0003). Peer messages are records like calls, and stand in their recipient's
/// list from before their first commit until after their last.
public final class RedisCallStore: CallStore {
    private enum Bounds {
        /// Calls are spread over this many tags. It can never change for a store in use.
        static let partitions = 64
        /// How long an entry of the due index may point at a call that is gone, in milliseconds.
        static let danglingDue: Milliseconds = 60_000
        /// The life of a claim that goes with an invitation (at most 600 s).
        static let ringingClaimLife = "3600000"
        /// A user's list is trimmed when it holds a tenth more than is kept, and not at each end.
        static let historySlack = 10
        /// How long a user's list of calls is kept after its last change, beyond the history's retention.
        static let indexSlack: Milliseconds = 86_400_000
        /// How long a message may stand in its recipient's list: longer than any waits (at most 600 s).
        static let messageListLife: Milliseconds = 700_000
    }

    let session: RedisSession
    private let prefix: String
    /// What stands in front of the keys of each partition, and of users.
    private let partitions: [[UInt8]]
    private let users: [UInt8]
    let historyPerUser: Int
    /// Users whose lists are to be trimmed with the next end of a call.
    private var overfull: [UserID] = []
    private let historyRetention: Milliseconds
    let lease: Milliseconds

    /// `prefix` stands in front of every key. `waitReplicas`: how many replicas must have each write before it counts.
    public init(
        address: RedisAddress, prefix: String = "bellwire", waitReplicas: Int = 0, historyPerUser: Int = 200,
        historyRetention: Milliseconds = 7 * 86_400_000, lease: Milliseconds = PresencePolicy().lease
    ) {
        session = RedisSession(address, waitReplicas: waitReplicas)
        self.prefix = prefix
        partitions = Self.partitions(prefix)
        users = Array("\(prefix):{u:".utf8)
        self.historyPerUser = historyPerUser
        self.historyRetention = historyRetention
        self.lease = lease
    }

    /// With another way to a server, for tests of what servers may answer.
    package init(waitReplicas: Int, connecting connect: @escaping () throws(StoreError) -> RedisConnection) {
        session = RedisSession(RedisAddress(host: "test"), waitReplicas: waitReplicas, connect: connect)
        prefix = "bellwire"
        partitions = Self.partitions(prefix)
        users = Array("\(prefix):{u:".utf8)
        historyPerUser = 200
        historyRetention = 7 * 86_400_000
        lease = PresencePolicy().lease
    }

    private static func partitions(_ prefix: String) -> [[UInt8]] {
        (0..<Bounds.partitions).map { Array("\(prefix):{p\($0)}:".utf8) }
    }

    public var summary: String { "\(session.address)" }

    public var durability: String? {
        guard let setting = session.durability else { return nil }
        switch setting {
        case "always": return "appendfsync=always: a crash loses nothing that was answered"
        case "everysec": return "appendfsync=everysec: a crash may lose two seconds"
        default: return "\(setting): a crash may lose everything since Redis last wrote to disk"
        }
    }

    public var clockSkew: Milliseconds { session.clockOffset }

    public var roundTrips: Int { session.roundTrips }

    public func now() throws(StoreError) -> Milliseconds { wallMilliseconds() + (try session.knownClockOffset()) }

    // MARK: Keys

    private func key(_ id: RecordID) -> [UInt8] {
        switch id {
        case .call(let callID): partitionKey(id, "call:", callID.string)
        case .message(let messageID, let user): partitionKey(id, "message:", "\(messageID):\(user)")
        }
    }

    private func dueKey(_ id: RecordID) -> [UInt8] { partitionKey(id, "due", "") }

    func traceKey(_ callID: CallID, _ kind: String) -> [UInt8] {
        partitionKey(.call(callID), kind + ":", callID.string)
    }

    private func partitionKey(_ id: RecordID, _ kind: String, _ name: String) -> [UInt8] {
        let partition = Int(stableHash(id.string.utf8) % UInt64(Bounds.partitions))
        return joined(partitions[partition], kind, name)
    }

    func key(_ user: UserID, _ kind: String) -> [UInt8] { joined(users, user.string, "}:", kind) }

    private func joined(_ front: [UInt8], _ parts: String...) -> [UInt8] {
        var key: [UInt8] = []
        key.reserveCapacity(front.count + parts.reduce(0) { $0 + $1.utf8.count })
        key += front
        for part in parts { key += part.utf8 }
        return key
    }

    private func key(_ claim: Claim) -> [UInt8] {
        switch claim {
        case .activeCall(let user): return key(user, "active")
        case .ringing(let from, let to): return Array("\(prefix):\(tag(of: claim)):\(from < to ? "up" : "down")".utf8)
        }
    }

    /// Claims of one tag are checked and taken in one step. The length in front keeps two pairs from sharing a tag.
    private func tag(of claim: Claim) -> String {
        switch claim {
        case .activeCall(let user): return "{u:\(user)}"
        case .ringing(let from, let to):
            let (low, high) = from < to ? (from, to) : (to, from)
            return "{pair:\(low.string.utf8.count):\(low):\(high)}"
        }
    }

    // MARK: Records

    public var worksMeanwhile: Bool { true }

    public func read(_ lookup: Lookup) throws(StoreError) -> Findings { try begin(lookup).value() }

    public func begin(_ lookup: Lookup) throws(StoreError) -> Pending<Findings> {
        guard !lookup.isEmpty else { return Pending(Findings()) }
        var pipeline = try session.pipeline()
        add(lookup, to: &pipeline)
        let request = try session.send(pipeline)
        return Pending { [self] () throws(StoreError) in try found(lookup, in: try session.finish(request)[...]) }
    }

    private func add(_ lookup: Lookup, to pipeline: inout RedisPipeline) {
        for id in lookup.records { pipeline.command("HGETALL", 1) { $0.add(key(id)) } }
        for user in lookup.presence { pipeline.command("HGETALL", 1) { $0.add(key(user, "presence")) } }
        for claim in lookup.claims { pipeline.command("GET", 1) { $0.add(key(claim)) } }
        for user in lookup.profiles { pipeline.command("HGETALL", 1) { $0.add(key(user, "profile")) } }
    }

    /// The replies to what `add` added.
    private func found(_ lookup: Lookup, in replies: ArraySlice<RedisReply>) throws(StoreError) -> Findings {
        var findings = Findings()
        var next = replies.startIndex
        func reply() -> RedisReply {
            defer { next += 1 }
            return replies[next]
        }
        for id in lookup.records { findings.records.append(stored(id, try reply().pairs())) }
        for user in lookup.presence { findings.presence.append(try devices(of: user, reply())) }
        for _ in lookup.claims {
            findings.holders.append(try reply().value()?.text.flatMap(CallID.init))
        }
        for _ in lookup.profiles { findings.profiles.append(try profile(reply())) }
        return findings
    }

    private func stored(_ id: RecordID, _ fields: [(name: RedisBytes, value: RedisBytes)]) -> StoredRecord? {
        guard !fields.isEmpty else { return nil }
        var version: Int64?
        var record: Record?
        var acks: [DeviceAck] = []
        var heard: [UserHeard] = []
        var milestones: [DeviceAddress: [String: Int64]] = [:]
        for (name, value) in fields {
            switch name.first {
            case UInt8(ascii: "v"): version = StoredNumber.time(value)
            case UInt8(ascii: "r"): record = value.read { RecordCodec.decode($0, id) }
            case UInt8(ascii: "a"): if let ack = ack(name.rest, value) { acks.append(ack) }
            case UInt8(ascii: "h"):
                guard let user = name.rest.text.flatMap(UserID.init), let at = StoredNumber.time(value) else {
                    continue
                }
                heard.append(UserHeard(userID: user, at: at))
            case UInt8(ascii: "m"):
                guard let (device, milestone) = milestone(name.rest, value) else { continue }
                milestones[device, default: [:]][milestone.name] = milestone.milliseconds
            default: continue
            }
        }
        guard let version, let record else { return StoredRecord(id, version: version ?? 0, record: .unreadable) }
        // Redis gives the fields in no order; what follows from them must not depend on it.
        return StoredRecord(
            id, version: version, record: record, acks: acks.sorted { $0.device < $1.device },
            heard: heard.sorted { $0.userID < $1.userID }, reports: DeviceReport.sorted(milestones))
    }

    /// A milestone's field is "m", its name, "/", the device, "/", the user: only a user may hold a slash.
    private func milestone(
        _ names: RedisBytes, _ value: RedisBytes
    ) -> (DeviceAddress, Milestone)? {
        var rest = names
        guard let name = rest.part(before: UInt8(ascii: "/"))?.text, let device = device(rest),
            let milliseconds = StoredNumber.time(value)
        else { return nil }
        return (device, Milestone(name: name, milliseconds: milliseconds))
    }

    /// The device, "/", the user.
    private func device(_ names: RedisBytes) -> DeviceAddress? {
        var rest = names
        guard let device = rest.part(before: UInt8(ascii: "/"))?.text.flatMap(DeviceID.init),
            let user = rest.text.flatMap(UserID.init)
        else { return nil }
        return DeviceAddress(userID: user, deviceID: device)
    }

    /// An ack's field is "a", the device, "/", the user: a device id holds no slash. Its value is "revision:session".
    private func ack(_ names: RedisBytes, _ value: RedisBytes) -> DeviceAck? {
        var rest = value
        guard let device = device(names), let part = rest.part(before: UInt8(ascii: ":")),
            let revision = StoredNumber.time(part), let session = rest.text
        else { return nil }
        return DeviceAck(device: device, session: session, revision: Int(revision))
    }

    public func write(_ commits: [Commit], _ notes: [Note], thenRead lookup: Lookup) throws(StoreError) -> Written {
        try begin(commits, notes, thenRead: lookup).value()
    }

    public func begin(
        _ commits: [Commit], _ notes: [Note], thenRead lookup: Lookup
    ) throws(StoreError) -> Pending<Written> {
        let held = try takeExpectedClaims(commits)
        let open = commits.indices.filter { !held.contains($0) }
        let before = wallMilliseconds()
        var pipeline = try session.pipeline()
        for index in open { addFirstSteps(of: commits[index], to: &pipeline) }
        let firstCommit = pipeline.commands.count
        for index in open { add(commits[index], to: &pipeline) }
        let firstNote = pipeline.commands.count
        for note in notes {
            pipeline.script(.note, keys: 1, arguments: 3) {
                $0.add(key(.call(note.callID)))
                add(note, to: &$0)
            }
        }
        let firstReading = pipeline.commands.count
        add(lookup, to: &pipeline)
        var outcomes = [CommitOutcome](repeating: .claimHeld, count: commits.count)
        guard !pipeline.commands.isEmpty else { return Pending(Written(outcomes: outcomes, findings: Findings())) }
        let request = try session.send(pipeline, isWrite: firstReading > 0)
        return Pending { [self] () throws(StoreError) in
            let replies = try session.finish(request)
            for reply in replies[..<firstCommit] { _ = try reply.number() }
            for reply in replies[firstNote..<firstReading] { _ = try reply.number() }
            for (index, reply) in zip(open, replies[firstCommit..<firstNote]) {
                outcomes[index] = try outcome(reply, sentAt: before)
            }
            try settle(commits, outcomes)
            return Written(outcomes: outcomes, findings: try found(lookup, in: replies[firstReading...]))
        }
    }

    private func outcome(_ reply: RedisReply, sentAt before: Milliseconds) throws(StoreError) -> CommitOutcome {
        guard let parts = reply.array, parts.count == 3, let version = parts[1].integer, let time = parts[2].integer
        else { throw reply.unexpected }
        try session.learnClock(time, between: before, wallMilliseconds())
        return switch parts[0].integer {
        case 1: .committed(version: version)
        case 2: .stale
        default: .conflict
        }
    }

    /// The claims of commits that expect something of claims. Returns the places of those that found one held by another
    /// call: nothing else is done of them.
    private func takeExpectedClaims(_ commits: [Commit]) throws(StoreError) -> Set<Int> {
        var places: [Int] = []
        guard commits.contains(where: { !$0.expectedHolders.isEmpty }) else { return [] }
        var pipeline = try session.pipeline()
        for (place, commit) in commits.enumerated() where !commit.expectedHolders.isEmpty {
            let count = pipeline.commands.count
            addClaims(of: commit, to: &pipeline)
            places += [Int](repeating: place, count: pipeline.commands.count - count)
        }
        var held: Set<Int> = []
        for (place, reply) in zip(places, try session.run(pipeline)) {
            if try reply.number() == 0 { held.insert(place) }
        }
        return held
    }

    /// What is done before a commit: its claims, and the index entries by which a returning device finds its calls.
    private func addFirstSteps(of commit: Commit, to pipeline: inout RedisPipeline) {
        if commit.expectedHolders.isEmpty { addClaims(of: commit, to: &pipeline) }
        switch commit.record {
        case .call(let call):
            for user in commit.newMembers { addEntry(call, of: user, to: &pipeline) }
        case .message(let message) where message.isWaiting && commit.expected == 0:
            let list = key(message.to, "messages")
            pipeline.command("ZADD", 3) {
                $0.add(list)
                $0.add(message.createdAt)
                $0.add(commit.id.string)
            }
            // What a coordinator left there that died is too old some day.
            pipeline.command("ZREMRANGEBYSCORE", 3) {
                $0.add(list)
                $0.add("-inf")
                $0.add(message.createdAt - Bounds.messageListLife)
            }
            pipeline.command("PEXPIRE", 2) {
                $0.add(list)
                $0.add(Bounds.messageListLife)
            }
        case .message, .alias, .cancelled, .void, .unreadable: break
        }
    }

    /// A user's calls: each with its creation and id, by its end; one that lives stands behind every moment.
    private func addEntry(_ call: Call, of user: UserID, to pipeline: inout RedisPipeline) {
        pipeline.command("ZADD", 3) {
            $0.add(key(user, "calls"))
            if let endedAt = call.endedAt { $0.add(endedAt) } else { $0.add("+inf") }
            $0.add(HistoryPlace(createdAt: call.createdAt, callID: call.callID).text)
        }
    }

    private func addClaims(of commit: Commit, to pipeline: inout RedisPipeline) {
        var rest = commit.expectedHolders.map(\.claim)
        for claim in commit.claims where !rest.contains(claim) { rest.append(claim) }
        while let first = rest.first {
            let tag = tag(of: first)
            let claims = rest.filter { self.tag(of: $0) == tag }
            rest.removeAll(where: claims.contains)
            pipeline.script(.claim, keys: claims.count, arguments: 1 + 2 * claims.count) {
                for claim in claims { $0.add(key(claim)) }
                $0.add(commit.id.string)
                for claim in claims {
                    let expected = commit.expectedHolders.first { $0.claim == claim }
                    $0.add(expected.map { $0.holder?.string ?? "" } ?? "*")
                    $0.add(life(of: claim, taken: commit.claims.contains(claim)))
                }
            }
        }
    }

    private func life(of claim: Claim, taken: Bool) -> String {
        guard taken else { return "" }
        switch claim {
        case .activeCall: return "0"
        case .ringing: return Bounds.ringingClaimLife
        }
    }

    private func add(_ commit: Commit, to pipeline: inout RedisPipeline) {
        pipeline.script(.commit, keys: 2, arguments: 6 + 3 * commit.notes.count) {
            $0.add(key(commit.id))
            $0.add(dueKey(commit.id))
            $0.add(commit.expected)
            $0.add(RecordCodec.encode(commit.record))
            if let deadline = commit.deadline { $0.add(deadline) } else { $0.add("") }
            if let expiresAt = commit.expiresAt { $0.add(expiresAt) } else { $0.add("") }
            $0.add(commit.id.string)
            if commit.validUntil < .max { $0.add(commit.validUntil) } else { $0.add("") }
            for note in commit.notes { add(note, to: &$0) }
        }
    }

    /// Three words.
    private func add(_ note: Note, to words: inout RedisWords) {
        switch note {
        case .ack(_, let ack):
            words.add("a")
            words.add("a\(ack.device.deviceID)/".utf8, ack.device.userID.string.utf8)
            words.add("\(ack.revision):".utf8, ack.session.utf8)
        case .heard(_, let heard):
            words.add("h")
            words.add("h".utf8, heard.userID.string.utf8)
            words.add(heard.at)
        case .milestone(_, let device, let milestone):
            words.add("m")
            words.add("m\(milestone.name)/\(device.deviceID)/".utf8, device.userID.string.utf8)
            words.add(milestone.milliseconds)
        }
    }

    /// The last steps: claims given up, and the users' lists told that a call has ended. Nobody waits for them. A claim
    /// that is not given up is taken over by whoever needs it; who looks into a list looks at the calls as well.
    private func settle(_ commits: [Commit], _ outcomes: [CommitOutcome]) throws(StoreError) {
        try session.lookAtPosted()
        var pipeline = try session.pipeline()
        for user in overfull {
            pipeline.script(.trim, keys: 1, arguments: 1) {
                $0.add(key(user, "calls"))
                $0.add(Int64(historyPerUser))
            }
        }
        overfull = []
        var lists: [(user: UserID, place: Int)] = []
        for (commit, outcome) in zip(commits, outcomes) {
            guard case .committed = outcome else { continue }
            for claim in commit.releases {
                pipeline.script(.release, keys: 1, arguments: 1) {
                    $0.add(key(claim))
                    $0.add(commit.id.string)
                }
            }
            if case .message(let message) = commit.record, !message.isWaiting {
                pipeline.command("ZREM", 2) {
                    $0.add(key(message.to, "messages"))
                    $0.add(commit.id.string)
                }
            }
            guard commit.hasJustEnded, case .call(let call) = commit.record, let endedAt = call.endedAt else {
                continue
            }
            for member in call.members {
                lists.append((member.userID, pipeline.commands.count))
                addEnd(of: call, endedAt, of: member.userID, to: &pipeline)
            }
        }
        try session.post(pipeline) { [unowned self] replies in
            for (user, place) in lists
            where replies[place].integer ?? 0 > historyPerUser + historyPerUser / Bounds.historySlack {
                overfull.append(user)
            }
        }
    }

    /// The first command tells how many calls the user's list holds.
    private func addEnd(
        of call: Call, _ endedAt: Milliseconds, of user: UserID, to pipeline: inout RedisPipeline
    ) {
        let list = key(user, "calls")
        pipeline.command("ZCARD", 1) { $0.add(list) }
        addEntry(call, of: user, to: &pipeline)
        pipeline.command("ZREMRANGEBYSCORE", 3) {
            $0.add(list)
            $0.add("-inf")
            $0.add(endedAt - historyRetention)
        }
        pipeline.command("PEXPIRE", 2) {
            $0.add(list)
            $0.add(historyRetention + Bounds.indexSlack)
        }
    }

    public func due(before moment: Milliseconds, limit: Int) throws(StoreError) -> [RecordID] {
        var pipeline = try session.pipeline()
        for partition in partitions {
            pipeline.command("ZRANGEBYSCORE", 7) {
                $0.add(partition + "due".utf8)
                $0.add("-inf")
                $0.add(moment)
                $0.add("WITHSCORES")
                $0.add("LIMIT")
                $0.add(0)
                $0.add(Int64(limit))
            }
        }
        var due: [(at: Milliseconds, id: RecordID)] = []
        for reply in try session.run(pipeline) {
            for (name, score) in try reply.pairs() {
                guard let id = name.text.flatMap({ RecordID($0) }) else { continue }
                due.append((StoredNumber.time(ofScore: score), id))
            }
        }
        due.sort { ($0.at, $0.id) < ($1.at, $1.id) }
        try forgetDangling(due.filter { $0.at < moment - Bounds.danglingDue }.prefix(limit).map(\.id))
        return due.prefix(limit).map(\.id)
    }

    /// An entry long due whose call is gone would be looked at for ever.
    private func forgetDangling(_ ids: [RecordID]) throws(StoreError) {
        guard !ids.isEmpty else { return }
        var pipeline = try session.pipeline()
        for (id, stored) in zip(ids, try load(ids)) where stored == nil {
            pipeline.command("ZREM", 2) {
                $0.add(dueKey(id))
                $0.add(id.string)
            }
        }
        _ = try session.run(pipeline)
    }

    public func calls(of user: UserID, endedAfter moment: Milliseconds, limit: Int) throws(StoreError) -> [CallID] {
        var pipeline = try session.pipeline()
        pipeline.command("ZRANGEBYSCORE", 3) {
            $0.add(key(user, "calls"))
            $0.add("(\(moment)")
            $0.add("+inf")
        }
        let places = try session.run(pipeline)[0].values().compactMap { $0.text.flatMap(HistoryPlace.init) }
        return places.sorted(by: >).prefix(limit).map(\.callID)
    }

    /// Redis itself removes what has expired.
    public func clean(limit: Int) throws(StoreError) -> Int { 0 }
}
