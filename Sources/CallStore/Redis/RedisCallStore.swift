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
        /// How long a user's list of calls is kept after its last change, beyond the history's retention.
        static let indexSlack: Milliseconds = 86_400_000
        /// How long a message may stand in its recipient's list: longer than any waits (at most 600 s).
        static let messageListLife: Milliseconds = 700_000
    }

    let session: RedisSession
    private let prefix: String
    private let historyPerUser: Int
    private let historyRetention: Milliseconds
    let lease: Milliseconds

    /// `prefix` stands in front of every key. `waitReplicas`: how many replicas must have each write before it counts.
    public init(
        address: RedisAddress, prefix: String = "bellwire", waitReplicas: Int = 0, historyPerUser: Int = 200,
        historyRetention: Milliseconds = 7 * 86_400_000, lease: Milliseconds = PresencePolicy().lease
    ) {
        session = RedisSession(address, waitReplicas: waitReplicas)
        self.prefix = prefix
        self.historyPerUser = historyPerUser
        self.historyRetention = historyRetention
        self.lease = lease
    }

    /// With another way to a server, for tests of what servers may answer.
    package init(waitReplicas: Int, connecting connect: @escaping () throws(StoreError) -> RedisConnection) {
        session = RedisSession(RedisAddress(host: "test"), waitReplicas: waitReplicas, connect: connect)
        prefix = "bellwire"
        historyPerUser = 200
        historyRetention = 7 * 86_400_000
        lease = PresencePolicy().lease
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

    private func partition(_ id: RecordID) -> String {
        "{p\(stableHash(id.string.utf8) % UInt64(Bounds.partitions))}"
    }

    private func key(_ id: RecordID) -> [UInt8] {
        switch id {
        case .call(let callID): Array("\(prefix):\(partition(id)):call:\(callID)".utf8)
        case .message(let messageID, let user): Array("\(prefix):\(partition(id)):message:\(messageID):\(user)".utf8)
        }
    }
    private func dueKey(_ id: RecordID) -> [UInt8] { Array("\(prefix):\(partition(id)):due".utf8) }
    func traceKey(_ callID: CallID, _ kind: String) -> [UInt8] {
        Array("\(prefix):\(partition(.call(callID))):\(kind):\(callID)".utf8)
    }
    func key(_ user: UserID, _ kind: String) -> [UInt8] { Array("\(prefix):{u:\(user)}:\(kind)".utf8) }

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

    public func read(_ lookup: Lookup) throws(StoreError) -> Findings {
        try found(lookup, in: try session.run(steps(lookup))[...])
    }

    private func steps(_ lookup: Lookup) -> [RedisSession.Step] {
        var steps: [RedisSession.Step] = []
        for id in lookup.records { steps.append(.command(RedisCommand("HGETALL", key(id)))) }
        for user in lookup.presence { steps.append(.command(RedisCommand("HGETALL", key(user, "presence")))) }
        for claim in lookup.claims { steps.append(.command(RedisCommand("GET", key(claim)))) }
        for user in lookup.profiles { steps.append(.command(RedisCommand("HGETALL", key(user, "profile")))) }
        return steps
    }

    /// The replies to `steps(lookup)`.
    private func found(_ lookup: Lookup, in replies: ArraySlice<RedisReply>) throws(StoreError) -> Findings {
        var findings = Findings()
        var rest = replies
        for id in lookup.records { findings.records.append(stored(id, try rest.removeFirst().pairs())) }
        for user in lookup.presence { findings.presence.append(devices(of: user, try rest.removeFirst().pairs())) }
        for _ in lookup.claims {
            let holder = try rest.removeFirst().value()
            findings.holders.append(holder.flatMap { CallID(String(decoding: $0, as: UTF8.self)) })
        }
        for _ in lookup.profiles { findings.profiles.append(try profile(rest.removeFirst())) }
        return findings
    }

    private func stored(_ id: RecordID, _ fields: [(name: [UInt8], value: [UInt8])]) -> StoredRecord? {
        guard !fields.isEmpty else { return nil }
        var version: Int64?
        var record: Record?
        var acks: [DeviceAck] = []
        var heard: [UserHeard] = []
        var milestones: [DeviceAddress: [String: Int64]] = [:]
        for (bytes, value) in fields {
            guard let name = String(validating: bytes, as: UTF8.self) else { continue }
            switch name.utf8.first {
            case UInt8(ascii: "v"): version = Int64(String(decoding: value, as: UTF8.self))
            case UInt8(ascii: "r"): record = RecordCodec.decode(value, id)
            case UInt8(ascii: "a"): if let ack = ack(name, value) { acks.append(ack) }
            case UInt8(ascii: "h"):
                // By bytes: a user may begin with what Swift would join to the letter before.
                guard let user = UserID(String(decoding: name.utf8.dropFirst(), as: UTF8.self)),
                    let at = StoredNumber.time(value)
                else { continue }
                heard.append(UserHeard(userID: user, at: at))
            case UInt8(ascii: "m"):
                guard let (device, milestone) = milestone(name, value) else { continue }
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
    private func milestone(_ field: String, _ value: [UInt8]) -> (DeviceAddress, Milestone)? {
        let parts = field.utf8.dropFirst().split(
            separator: UInt8(ascii: "/"), maxSplits: 2, omittingEmptySubsequences: false
        )
        .map { String(decoding: $0, as: UTF8.self) }
        guard parts.count == 3, let device = DeviceID(parts[1]), let user = UserID(parts[2]),
            let milliseconds = StoredNumber.time(value)
        else { return nil }
        return (
            DeviceAddress(userID: user, deviceID: device),
            Milestone(name: parts[0], milliseconds: milliseconds)
        )
    }

    /// An ack's field is "a", the device, "/", the user: a device id holds no slash. Its value is "revision:session".
    private func ack(_ name: String, _ value: [UInt8]) -> DeviceAck? {
        let names = name.utf8.dropFirst().split(
            separator: UInt8(ascii: "/"), maxSplits: 1, omittingEmptySubsequences: false
        )
        .map { String(decoding: $0, as: UTF8.self) }
        let parts = value.split(separator: UInt8(ascii: ":"), maxSplits: 1, omittingEmptySubsequences: false)
        guard names.count == 2, parts.count == 2, let device = DeviceID(names[0]),
            let user = UserID(names[1]), let revision = StoredNumber.time(parts[0]),
            let session = String(validating: parts[1], as: UTF8.self)
        else { return nil }
        return DeviceAck(
            device: DeviceAddress(userID: user, deviceID: device), session: session, revision: Int(revision))
    }

    public func write(_ commits: [Commit], _ notes: [Note], thenRead lookup: Lookup) throws(StoreError) -> Written {
        let held = try takeExpectedClaims(commits)
        let open = commits.indices.filter { !held.contains($0) }
        let before = wallMilliseconds()
        let first = open.flatMap { firstSteps(commits[$0]) }
        let writes = open.map { RedisSession.Step.script(commitScript(commits[$0])) } + notes.map(noteStep)
        let replies = try session.run(first + writes + steps(lookup), isWrite: !writes.isEmpty)

        var outcomes = [CommitOutcome](repeating: .claimHeld, count: commits.count)
        for (index, reply) in zip(open, replies[first.count...]) {
            guard let parts = reply.array, parts.count == 3, let version = parts[1].integer, let time = parts[2].integer
            else { throw reply.unexpected }
            try session.learnClock(time, between: before, wallMilliseconds())
            outcomes[index] =
                switch parts[0].integer {
                case 1: .committed(version: version)
                case 2: .stale
                default: .conflict
                }
        }
        for reply in replies[..<first.count] + replies[(first.count + open.count)...].prefix(notes.count) {
            _ = try reply.number()
        }
        try settle(commits, outcomes)
        return Written(outcomes: outcomes, findings: try found(lookup, in: replies[(first.count + writes.count)...]))
    }

    /// The claims of commits that expect something of claims. Returns the places of those that found one held by another
    /// call: nothing else is done of them.
    private func takeExpectedClaims(_ commits: [Commit]) throws(StoreError) -> Set<Int> {
        var steps: [RedisSession.Step] = []
        var places: [Int] = []
        for (place, commit) in commits.enumerated() where !commit.expectedHolders.isEmpty {
            for call in claimScripts(commit) {
                places.append(place)
                steps.append(.script(call))
            }
        }
        var held: Set<Int> = []
        for (place, reply) in zip(places, try session.run(steps)) {
            if try reply.number() == 0 { held.insert(place) }
        }
        return held
    }

    /// What is done before a commit: its claims, and the index entries by which a returning device finds its calls.
    private func firstSteps(_ commit: Commit) -> [RedisSession.Step] {
        var steps = commit.expectedHolders.isEmpty ? claimScripts(commit).map(RedisSession.Step.script) : []
        switch commit.record {
        case .call(let call):
            for user in commit.newMembers {
                steps.append(.command(zadd(key(user, "calls"), call.createdAt, commit.id)))
                steps.append(.command(zadd(key(user, "ends"), nil, commit.id)))
            }
        case .message(let message) where message.isWaiting && commit.expected == 0:
            steps += waitingSteps(message, commit.id)
        case .message, .alias, .cancelled, .void, .unreadable: break
        }
        return steps
    }

    /// Enters a message into its recipient's list. What a coordinator left there that died is too old some day.
    private func waitingSteps(_ message: PeerMessage, _ id: RecordID) -> [RedisSession.Step] {
        let list = key(message.to, "messages")
        var forget = RedisCommand("ZREMRANGEBYSCORE")
        forget.append(list)
        forget.append("-inf")
        forget.append(String(message.createdAt - Bounds.messageListLife))
        var expire = RedisCommand("PEXPIRE")
        expire.append(list)
        expire.append(String(Bounds.messageListLife))
        return [.command(zadd(list, message.createdAt, id)), .command(forget), .command(expire)]
    }

    private func claimScripts(_ commit: Commit) -> [RedisSession.ScriptCall] {
        var tags: [String] = []
        var claims: [String: [Claim]] = [:]
        for claim in commit.expectedHolders.map(\.claim) + commit.claims {
            let tag = tag(of: claim)
            if claims[tag] == nil { tags.append(tag) }
            if !(claims[tag] ?? []).contains(claim) { claims[tag, default: []].append(claim) }
        }
        return tags.map { tag in
            let claims = claims[tag] ?? []
            var call = RedisSession.ScriptCall(script: .claim, keys: claims.map(key))
            call.arguments = [Array(commit.id.string.utf8)]
            for claim in claims {
                let expected = commit.expectedHolders.first { $0.claim == claim }
                call.arguments.append(Array((expected.map { $0.holder?.string ?? "" } ?? "*").utf8))
                call.arguments.append(Array(life(of: claim, taken: commit.claims.contains(claim)).utf8))
            }
            return call
        }
    }

    private func life(of claim: Claim, taken: Bool) -> String {
        guard taken else { return "" }
        switch claim {
        case .activeCall: return "0"
        case .ringing: return Bounds.ringingClaimLife
        }
    }

    private func commitScript(_ commit: Commit) -> RedisSession.ScriptCall {
        var call = RedisSession.ScriptCall(script: .commit, keys: [key(commit.id), dueKey(commit.id)])
        call.arguments = [
            Array(String(commit.expected).utf8), RecordCodec.encode(commit.record),
            Array((commit.deadline.map { String($0) } ?? "").utf8),
            Array((commit.expiresAt.map { String($0) } ?? "").utf8), Array(commit.id.string.utf8),
            Array((commit.validUntil == .max ? "" : String(commit.validUntil)).utf8),
        ]
        for note in commit.notes { call.arguments += arguments(of: note) }
        return call
    }

    /// The last steps: claims given up, and the users' lists told that a call has ended.
    private func settle(_ commits: [Commit], _ outcomes: [CommitOutcome]) throws(StoreError) {
        var steps: [RedisSession.Step] = []
        for (commit, outcome) in zip(commits, outcomes) {
            guard case .committed = outcome else { continue }
            for claim in commit.releases {
                steps.append(
                    .script(.init(script: .release, keys: [key(claim)], arguments: [Array(commit.id.string.utf8)])))
            }
            if case .message(let message) = commit.record, !message.isWaiting {
                var command = RedisCommand("ZREM")
                command.append(key(message.to, "messages"))
                command.append(commit.id.string)
                steps.append(.command(command))
            }
            guard commit.hasJustEnded, case .call(let call) = commit.record, let endedAt = call.endedAt else {
                continue
            }
            for member in call.members { steps.append(endedStep(member.userID, call.callID, endedAt)) }
        }
        _ = try session.run(steps)
    }

    private func endedStep(_ user: UserID, _ callID: CallID, _ endedAt: Milliseconds) -> RedisSession.Step {
        let arguments = [
            callID.string, String(endedAt), String(historyPerUser), String(historyRetention),
            String(historyRetention + Bounds.indexSlack),
        ]
        return .script(
            .init(
                script: .ended, keys: [key(user, "calls"), key(user, "ends")],
                arguments: arguments.map { Array($0.utf8) }))
    }

    /// Nil stands for a call that lives: behind every moment.
    private func zadd(_ key: [UInt8], _ score: Milliseconds?, _ id: RecordID) -> RedisCommand {
        var command = RedisCommand("ZADD")
        command.append(key)
        command.append(score.map { String($0) } ?? "+inf")
        command.append(id.string)
        return command
    }

    private func noteStep(_ note: Note) -> RedisSession.Step {
        .script(.init(script: .note, keys: [key(.call(note.callID))], arguments: arguments(of: note)))
    }

    private func arguments(of note: Note) -> [[UInt8]] {
        switch note {
        case .ack(_, let ack):
            return ["a", "a\(ack.device.deviceID)/\(ack.device.userID)", "\(ack.revision):\(ack.session)"].map {
                Array($0.utf8)
            }
        case .heard(_, let heard): return ["h", "h\(heard.userID)", String(heard.at)].map { Array($0.utf8) }
        case .milestone(_, let device, let milestone):
            return [
                "m", "m\(milestone.name)/\(device.deviceID)/\(device.userID)", String(milestone.milliseconds),
            ].map { Array($0.utf8) }
        }
    }

    public func due(before moment: Milliseconds, limit: Int) throws(StoreError) -> [RecordID] {
        let steps = (0..<Bounds.partitions).map { number -> RedisSession.Step in
            var command = RedisCommand("ZRANGEBYSCORE", "\(prefix):{p\(number)}:due", "-inf", String(moment))
            for word in ["WITHSCORES", "LIMIT", "0", String(limit)] { command.append(word) }
            return .command(command)
        }
        var due: [(at: Milliseconds, id: RecordID)] = []
        for reply in try session.run(steps) {
            for (name, score) in try reply.pairs() {
                guard let id = String(validating: name, as: UTF8.self).flatMap({ RecordID($0) }) else { continue }
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
        let gone = zip(ids, try load(ids)).filter { $0.1 == nil }.map(\.0)
        _ = try session.run(
            gone.map { id in
                var command = RedisCommand("ZREM")
                command.append(dueKey(id))
                command.append(id.string)
                return .command(command)
            })
    }

    public func calls(of user: UserID, endedAfter moment: Milliseconds, limit: Int) throws(StoreError) -> [CallID] {
        var command = RedisCommand("ZRANGEBYSCORE")
        command.append(key(user, "ends"))
        command.append("(\(moment)")
        command.append("+inf")
        let callIDs = try session.run(command).values().compactMap { CallID(String(decoding: $0, as: UTF8.self)) }
        // The newest first, by when the call was made, which the other list knows.
        let scores = try session.run(
            callIDs.map { callID in
                var command = RedisCommand("ZSCORE")
                command.append(key(user, "calls"))
                command.append(callID.string)
                return .command(command)
            }
        )
        var created: [Milliseconds] = []
        for score in scores { created.append(StoredNumber.time(ofScore: try score.value() ?? [])) }
        return zip(created, callIDs).sorted { ($1.0, $1.1) < ($0.0, $0.1) }.prefix(limit).map(\.1)
    }

    /// Redis itself removes what has expired.
    public func clean(limit: Int) throws(StoreError) -> Int { 0 }
}
