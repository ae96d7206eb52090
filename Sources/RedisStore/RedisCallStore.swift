import CallCore
import CallStore
import SignalingProtocol
import Support

/// The shared store: one Redis (6.2 or later) for any number of coordinators.
///
/// Keys are laid out for Redis Cluster: a call and its due entry share the tag of one of a fixed number of partitions, what
/// belongs to a user has the user's tag, a pair of users theirs. A commit is atomic within the call's slot; what lies
/// elsewhere is kept by steps that may be repeated: claims are taken and index entries written before the commit, and
/// given up after it. A claim that a commit which then failed has taken names a call that does not deserve it, and is taken
/// over by whoever needs it (docs/decisions/0003). Peer messages are records like calls, and stand in their recipient's
/// list from before their first commit until after their last.
package final class RedisCallStore: CallStore {
    enum Bounds {
        /// Calls are spread over this many tags. It can never change for a store in use.
        static let partitions = 64
        /// How long an entry of the due index may point at a call that is gone, in milliseconds.
        static let danglingDue: Milliseconds = 60_000
        /// The life of a claim that goes with an invitation (at most 600 s).
        static let ringingClaimLife = "3600000"
        /// A user's list is trimmed when it holds a tenth more than is kept, and not at each end.
        static let historySlack = 10
        /// How many entries of a user's list are looked at in one go, to see whether their calls live.
        static let entriesPerTidying = 256
        /// How long a user's list of calls is kept after its last change, beyond the history's retention.
        static let indexSlack: Milliseconds = 86_400_000
        /// How long a message may stand in its recipient's list: longer than any waits (at most 600 s).
        static let messageListLife = Retention.messageList
    }

    let session: RedisSession
    private let prefix: String
    /// What stands in front of the keys of each partition, of users, and of pairs of them.
    private let partitions: [[UInt8]]
    private let users: [UInt8]
    private let pairs: [UInt8]
    let historyPerUser: Int
    var records = RecordCache()
    /// The partitions in which workers hold lines.
    var heldPartitions: [WorkerID: Set<Int>] = [:]
    /// Users whose lists are to be trimmed with the next end of a call.
    var overfull: [UserID] = []
    let historyRetention: Milliseconds
    let lease: Milliseconds
    /// For what is done now and then: the system's numbers cost a call of the kernel each.
    var lots = SplitMix64(seed: .random(in: 0 ... .max))

    /// `prefix` stands in front of every key. `waitReplicas`: how many replicas must have each write before it counts. `stamp`:
    /// whose the store must be; nil: anybody's.
    package init(
        address: RedisAddress, prefix: String = "bellwire", stamp: DeploymentStamp? = nil, waitReplicas: Int = 0,
        historyPerUser: Int = Retention.historyPerUser, historyRetention: Milliseconds = Retention.history,
        lease: Milliseconds = PresencePolicy().lease
    ) {
        session = RedisSession(
            address, waitReplicas: waitReplicas, clockKey: Self.clockKey(prefix),
            deployment: stamp.map { RedisDeployment($0, prefix: prefix) })
        self.prefix = prefix
        partitions = Self.partitions(prefix)
        users = Array("\(prefix):{u:".utf8)
        pairs = Array("\(prefix):".utf8)
        self.historyPerUser = historyPerUser
        self.historyRetention = historyRetention
        self.lease = lease
    }

    /// With another way to a server, for tests of what servers may answer.
    package init(waitReplicas: Int, connecting connect: @escaping () throws(StoreError) -> RedisConnection) {
        prefix = "bellwire"
        session = RedisSession(
            RedisAddress(host: "test"), waitReplicas: waitReplicas, clockKey: Self.clockKey(prefix), connect: connect)
        partitions = Self.partitions(prefix)
        users = Array("\(prefix):{u:".utf8)
        pairs = Array("\(prefix):".utf8)
        historyPerUser = 200
        historyRetention = Retention.history
        lease = PresencePolicy().lease
    }

    private static func clockKey(_ prefix: String) -> [UInt8] { Array("\(prefix):clock".utf8) }

    /// Throws when Redis is there and is another deployment's. When it is away, or becomes another's later, calls fail.
    package func refuseForeign() throws(StoreError) {
        do throws(StoreError) {
            _ = try session.pipeline()
        } catch {
            if error.code == .foreign { throw error }
        }
    }

    private static func partitions(_ prefix: String) -> [[UInt8]] {
        (0..<Bounds.partitions).map { Array("\(prefix):{p\($0)}:".utf8) }
    }

    package var summary: String { "\(session.address)" }

    package var durability: String? {
        guard let setting = session.durability else { return nil }
        switch setting {
        case "always": return "appendfsync=always: a crash loses nothing that was answered"
        case "everysec": return "appendfsync=everysec: a crash may lose two seconds"
        default: return "\(setting): a crash may lose everything since Redis last wrote to disk"
        }
    }

    package var hazard: String? {
        session.evictionPolicy.map { policy in
            "maxmemory-policy is \(policy): Redis evicts keys of live calls when its memory is full. Set it to noeviction"
        }
    }

    package var clockSkew: Milliseconds { (session.time ?? session.machine.wall()) - session.machine.wall() }

    package var clockSteps: (count: Int, last: Milliseconds) { (Int(session.shared.steps), session.shared.lastStep) }

    package var isShared: Bool { true }

    package var roundTrips: Int { session.roundTrips }

    package func now() async throws(StoreError) -> Milliseconds { try await session.now() }

    package var time: Milliseconds? { session.time }

    package func lookAtClock() async throws(StoreError) -> Bool { try await session.lookAtClock() }

    package var answersAtOnce: Bool { false }

    package var socket: StoreSocket? { session.socket }

    package func receive() { session.receive() }

    // MARK: Keys

    var endpointsKey: [UInt8] { Array("\(prefix):endpoints".utf8) }

    var pushKey: [UInt8] { Array("\(prefix):push".utf8) }
    var pushProcessesKey: [UInt8] { Array("\(prefix):push:processes".utf8) }

    /// Under it stands whose a push target is.
    func tokenKey(_ digest: String) -> [UInt8] { Array("\(prefix):token:{\(digest)}".utf8) }

    func key(_ id: RecordID) -> RedisKey {
        switch id {
        case .call(let callID): key(in: partition(of: id), "call:", callID.string)
        case .message(let messageID, let user): key(in: partition(of: id), "message:", "\(messageID):\(user)")
        }
    }

    func dueKey(_ id: RecordID) -> RedisKey { key(in: partition(of: id), "due") }

    func traceKey(_ callID: CallID) -> RedisKey { key(in: partition(of: .call(callID)), "trace:", callID.string) }

    /// How many entries of the timeline were dropped.
    func omittedKey(_ callID: CallID) -> RedisKey { key(in: partition(of: .call(callID)), "omitted:", callID.string) }

    func partition(of id: RecordID) -> Int {
        switch id {
        case .call(let callID): Int(stableHash(callID.string.utf8) % UInt64(Bounds.partitions))
        case .message: Int(stableHash(id.string.utf8) % UInt64(Bounds.partitions))
        }
    }

    /// What stands in front of the keys of a partition.
    func prefix(ofPartition partition: Int) -> [UInt8] { partitions[partition] }

    private func key(in partition: Int, _ kind: String, _ detail: String = "") -> RedisKey {
        RedisKey(prefix: partitions[partition], kind: kind, detail: detail)
    }

    func key(_ user: UserID, _ kind: String, _ number: Int64? = nil) -> RedisKey {
        RedisKey(prefix: users, name: user.string, end: "}:", kind: kind, detail: number.map { String($0) } ?? "")
    }

    func key(_ claim: Claim) -> RedisKey {
        switch claim {
        case .activeCall(let user): key(user, "active")
        case .ringing(let from, let to):
            RedisKey(prefix: pairs, name: tag(of: claim), kind: from < to ? ":up" : ":down")
        }
    }

    /// A claim's value is the call, ":", the version at which it was taken.
    func text(_ holder: ClaimHolder) -> String { "\(holder.callID):\(holder.version)" }

    private func holder(_ value: RedisBytes) -> ClaimHolder? {
        var rest = value
        guard let callID = rest.part(before: UInt8(ascii: ":"))?.text.flatMap(CallID.init),
            let version = StoredNumber.time(rest)
        else { return nil }
        return ClaimHolder(callID, version: version)
    }

    /// Claims of one tag are checked and taken in one step. The length in front keeps two pairs from sharing a tag.
    func tag(of claim: Claim) -> String {
        switch claim {
        case .activeCall(let user): return "{u:\(user)}"
        case .ringing(let from, let to):
            let (low, high) = from < to ? (from, to) : (to, from)
            return "{pair:\(low.string.utf8.count):\(low):\(high)}"
        }
    }

    // MARK: Records

    package func read(_ lookup: Lookup) async throws(StoreError) -> Findings {
        guard !lookup.isEmpty else { return Findings() }
        var pipeline = try session.pipeline()
        add(lookup, to: &pipeline)
        return try found(lookup, in: try await session.run(pipeline)[...])
    }

    func add(_ lookup: Lookup, to pipeline: inout RedisPipeline) {
        for id in lookup.records { pipeline.command("HGETALL", 1) { $0.add(key(id)) } }
        for user in lookup.presence { pipeline.command("HGETALL", 1) { $0.add(key(user, "presence")) } }
        for claim in lookup.claims { pipeline.command("GET", 1) { $0.add(key(claim)) } }
        for user in lookup.profiles { pipeline.command("HGETALL", 1) { $0.add(key(user, "profile")) } }
        for block in lookup.blocks { addMembership(of: block, to: &pipeline) }
        for list in lookup.calls { add(list, to: &pipeline) }
        for list in lookup.messages { add(list, to: &pipeline) }
        for count in lookup.outstanding { add(count, to: &pipeline) }
        for periods in lookup.storedByUser {
            pipeline.command("MGET", periods.count) { for period in periods { $0.add(key(period)) } }
        }
        for user in lookup.registered { addRegistered(user, to: &pipeline) }
    }

    /// The replies to what `add` added.
    func found(_ lookup: Lookup, in replies: ArraySlice<RedisReply>) throws(StoreError) -> Findings {
        var findings = Findings()
        var next = replies.startIndex
        func reply() -> RedisReply {
            defer { next += 1 }
            return replies[next]
        }
        for id in lookup.records { findings.records.append(stored(id, try reply().pairs())) }
        for user in lookup.presence { findings.presence.append(try devices(of: user, reply())) }
        for _ in lookup.claims {
            findings.holders.append(try reply().value().flatMap(holder))
        }
        for _ in lookup.profiles { findings.profiles.append(try profile(reply())) }
        for _ in lookup.blocks { findings.isBlocked.append(try reply().number() == 1) }
        for list in lookup.calls { findings.calls.append(try calls(list, in: reply())) }
        for _ in lookup.messages { findings.messages.append(try messages(in: reply())) }
        for count in lookup.outstanding { findings.outstanding.append(try number(of: count, in: reply())) }
        for _ in lookup.storedByUser { findings.stored += try storedBytes(in: reply()) }
        for _ in lookup.registered { findings.isRegistered.append(try reply().number() == 1) }
        return findings
    }

    private func stored(_ id: RecordID, _ fields: RedisReply.Pairs) -> StoredRecord? {
        guard !fields.isEmpty else { return nil }
        var version: Int64?
        var record: Record?
        var acks: [DeviceAck] = []
        var heard: [UserHeard] = []
        var milestones: [DeviceAddress: [String: Int64]] = [:]
        var pushes: [PushState] = []
        var checks: [RingCheck] = []
        for (name, value) in fields {
            switch name.first {
            case UInt8(ascii: "v"): version = StoredNumber.time(value)
            case UInt8(ascii: "r"): record = value.read { records.record(id, $0) }
            case UInt8(ascii: "a"): if let ack = ack(name.rest, value) { acks.append(ack) }
            case UInt8(ascii: "h"):
                guard let user = name.rest.text.flatMap(UserID.init), let at = StoredNumber.time(value) else {
                    continue
                }
                heard.append(UserHeard(userID: user, at: at))
            case UInt8(ascii: "m"):
                guard let (device, milestone) = milestone(name.rest, value) else { continue }
                milestones[device, default: [:]][milestone.name] = milestone.milliseconds
            case UInt8(ascii: "p"): if let push = push(name.rest, value) { pushes.append(push) }
            case UInt8(ascii: "c"): if let check = check(name.rest, value) { checks.append(check) }
            default: continue
            }
        }
        guard let version, let record else { return StoredRecord(id, version: version ?? 0, record: .unreadable) }
        // Redis gives the fields in no order; what follows from them must not depend on it.
        return StoredRecord(
            id, version: version, record: record, acks: acks.sorted { $0.device < $1.device },
            heard: heard.sorted { $0.userID < $1.userID }, reports: DeviceReport.sorted(milestones),
            pushes: pushes.sorted { $0.key < $1.key }, checks: checks.sorted { $0.device < $1.device })
    }

    /// A milestone's field is "m", its name, "/", the device, "/", the user: only a user may hold a slash.
    func milestone(
        _ names: RedisBytes, _ value: RedisBytes
    ) -> (DeviceAddress, Milestone)? {
        var rest = names
        guard let name = rest.part(before: UInt8(ascii: "/"))?.text, let device = device(rest),
            let milliseconds = StoredNumber.time(value)
        else { return nil }
        return (device, Milestone(name: name, milliseconds: milliseconds))
    }

    /// The device, "/", the user.
    func device(_ names: RedisBytes) -> DeviceAddress? {
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

    package func due(
        before moment: Milliseconds, limit: Int, besides: Set<RecordID>
    ) async throws(StoreError) -> [RecordID] {
        var pipeline = try session.pipeline()
        for partition in partitions {
            pipeline.command("ZRANGEBYSCORE", 7) {
                $0.add(partition + "due".utf8)
                $0.add("-inf")
                $0.add(moment)
                $0.add("WITHSCORES")
                $0.add("LIMIT")
                $0.add(0)
                $0.add(Int64(limit + besides.count))
            }
        }
        var due: [(at: Milliseconds, id: RecordID)] = []
        for reply in try await session.run(pipeline) {
            for (name, score) in try reply.pairs() {
                guard let id = name.text.flatMap({ RecordID($0) }), !besides.contains(id) else { continue }
                due.append((StoredNumber.time(ofScore: score), id))
            }
        }
        due.sort { ($0.at, $0.id) < ($1.at, $1.id) }
        try await forgetDangling(due.filter { $0.at < moment - Bounds.danglingDue }.prefix(limit).map(\.id))
        return due.prefix(limit).map(\.id)
    }

    package func due(_ ids: [RecordID], before moment: Milliseconds) async throws(StoreError) -> [RecordID] {
        var pipeline = try session.pipeline()
        for id in ids {
            pipeline.command("ZSCORE", 2) {
                $0.add(dueKey(id))
                $0.add(id.string)
            }
        }
        var due: [RecordID] = []
        for (id, reply) in zip(ids, try await session.run(pipeline)) {
            if let score = try reply.value(), StoredNumber.time(ofScore: score) <= moment { due.append(id) }
        }
        return due
    }

    /// An entry long due whose call is gone would be looked at for ever.
    private func forgetDangling(_ ids: [RecordID]) async throws(StoreError) {
        guard !ids.isEmpty else { return }
        var pipeline = try session.pipeline()
        for (id, stored) in zip(ids, try await load(ids)) where stored == nil {
            pipeline.command("ZREM", 2) {
                $0.add(dueKey(id))
                $0.add(id.string)
            }
        }
        _ = try await session.run(pipeline)
    }

    /// Redis itself removes what has expired.
    package func clean(limit: Int) throws(StoreError) -> Int { 0 }
}
