import CallCore
import CallStore
import SignalingProtocol
import Support

/// The shared store: Redis (6.2 or later), a single server or a cluster, for any number of coordinators.
///
/// Keys are laid out for Redis Cluster: a call and its due entry share the tag of one of a fixed number of partitions;
/// the keys of a user have the user's tag, and the keys of a pair of users have the pair's tag. A commit is atomic
/// within the call's slot. Keys in other slots are kept right by steps that may be repeated: claims are taken and list
/// entries written before the commit, and claims are given up after the commit. When a commit takes a claim and then
/// fails, the claim names a call that does not deserve the claim, and any other call that needs the claim takes over
/// (docs/decisions/0003). Peer messages are records like calls, and are in their recipient's list from before their
/// first commit until after their last.
package final class RedisCallStore: CallStore {
    enum Bounds {
        /// The number of tags that calls are spread over. This number can never change for a store in use.
        static let partitions = 64
        /// The number of claims that a script gives up: other requests wait for the script.
        static let releasesPerScript = 128
        /// The number of entries of each partition's live calls that are checked at a time.
        static let liveSample: Int64 = 8
        /// The numbers of pending invitations for which calls are counted in a round trip.
        static let countsPerTrip = 4
        /// The age from which on an entry of the due index is checked for a missing call, in milliseconds.
        static let danglingDue: Milliseconds = 60_000
        /// The life of a claim of an invitation, in milliseconds; an invitation lasts at most 600 s.
        static let ringingClaimLife = "3600000"
        /// A user's list is trimmed when the list is longer than the bound by a tenth, and not at each call end. At the
        /// bound, a list is counted once in a tenth of the bound's calls.
        static let historySlack = 10
        /// The number of entries of a user's list that are checked for live calls at a time.
        static let entriesPerTidying = 256
        /// The life of a user's list of calls after its last change, beyond the history's retention, in milliseconds.
        static let indexSlack: Milliseconds = 86_400_000
        /// The longest time for a peer message in its recipient's list: longer than any message waits (at most 600 s).
        static let messageListLife = Retention.messageList
        /// The number of keys in a step of a scan, and of steps for a page: other requests wait for one step.
        static let keysPerScan: Int64 = 250
        static let scansPerPage = 40
        /// The number of attempts to add a report to the sightings of brokers while other coordinators add theirs.
        static let reportAttempts = 8
    }

    let session: RedisSession
    let prefix: String
    /// The prefixes of the keys of each partition, of users, and of pairs of users.
    private let partitions: [[UInt8]]
    let users: [UInt8]
    private let pairs: [UInt8]
    let historyPerUser: Int
    var records = RecordCache()
    /// The partitions with lines that workers hold.
    var heldPartitions: [WorkerID: Set<Int>] = [:]
    /// The users with lists that are trimmed at the next call end.
    var overfull: [UserID] = []
    /// Whether a server has refused keys of several slots although its address names no cluster.
    var isSharded = false
    let historyRetention: Milliseconds
    let lease: Milliseconds
    /// The sightings that this process has read last.
    var sightings = BrokerSightings()
    /// Random numbers for occasional work; the system's generator would cost a system call for each number.
    var lots = SplitMix64(seed: .random(in: 0 ... .max))

    /// Creates a store. Every key begins with `prefix`. A write counts only when `waitReplicas` replicas have it. The
    /// store must belong to the deployment in `stamp`; nil accepts any deployment.
    package init(
        address: RedisAddress, prefix: String = "bellwire", stamp: DeploymentStamp? = nil, waitReplicas: Int = 0,
        historyPerUser: Int = Retention.historyPerUser, historyRetention: Milliseconds = Retention.history,
        lease: Milliseconds = PresencePolicy().lease, machine: MachineClock = .system
    ) {
        session = RedisSession(
            address, waitReplicas: waitReplicas, clockKey: Self.clockKey(prefix),
            deployment: stamp.map { RedisDeployment($0, prefix: prefix) }, machine: machine)
        self.prefix = prefix
        partitions = Self.partitions(prefix)
        users = Array("\(prefix):{u:".utf8)
        pairs = Array("\(prefix):".utf8)
        self.historyPerUser = historyPerUser
        self.historyRetention = historyRetention
        self.lease = lease
    }

    /// Creates a store over another connection, for tests of unusual answers.
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

    /// Throws when Redis answers and belongs to another deployment. When Redis is away now, or changes its deployment
    /// later, calls fail.
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

    package var version: String? { session.version.map { "Redis \($0)" } }

    package var durability: String? {
        guard let setting = session.durability else { return nil }
        switch setting {
        case "always": return "appendfsync=always: a crash loses nothing that was answered"
        case "everysec": return "appendfsync=everysec: a crash may lose two seconds"
        default: return "\(setting): a crash may lose everything since Redis last wrote to disk"
        }
    }

    package var hazards: [StoreHazard] { session.hazards }

    package var fill: StoreFill? { session.fill }

    package var clockSkew: Milliseconds { (session.time ?? session.machine.wall()) - session.machine.wall() }

    package var clockSteps: (count: Int, last: Milliseconds) { (Int(session.shared.steps), session.shared.lastStep) }

    package var isShared: Bool { true }

    package var waitsForReplicas: Bool { session.waitReplicas > 0 }

    package var roundTrips: Int { session.roundTrips }

    package func now() async throws(StoreError) -> Milliseconds { try await session.now() }

    package var time: Milliseconds? { session.time }

    package func lookAtClock() async throws(StoreError) -> Bool { try await session.lookAtClock() }

    package var answersAtOnce: Bool { false }

    package var socket: StoreSocket? { session.socket }

    package func receive() { session.receive() }

    // MARK: Keys

    var brokersKey: [UInt8] { Array("\(prefix):brokers".utf8) }

    /// The key of the devices that came online at a broker, by the time of their last sign of life.
    func devicesKey(_ broker: BrokerName) -> [UInt8] { Array("\(prefix):devices:\(broker)".utf8) }

    var disabledKey: [UInt8] { Array("\(prefix):disabled".utf8) }

    var logLevelKey: [UInt8] { Array("\(prefix):log-level".utf8) }

    var auditKey: [UInt8] { Array("\(prefix):audit".utf8) }

    var endpointsKey: [UInt8] { Array("\(prefix):endpoints".utf8) }

    var pushKey: [UInt8] { Array("\(prefix):push".utf8) }
    var pushProcessesKey: [UInt8] { Array("\(prefix):push:processes".utf8) }

    /// The key of the owner of a push target.
    func tokenKey(_ digest: String) -> [UInt8] { Array("\(prefix):token:{\(digest)}".utf8) }

    func key(_ id: RecordID) -> RedisKey {
        switch id {
        case .call(let callID): key(in: partition(of: id), "call:", callID.string)
        case .message(let messageID, let user): key(in: partition(of: id), "message:", "\(messageID):\(user)")
        }
    }

    func dueKey(_ id: RecordID) -> RedisKey { key(in: partition(of: id), "due") }

    /// The key of the live calls of the record's partition, each with the number of its pending invitations.
    func liveKey(_ id: RecordID) -> RedisKey { liveKey(inPartition: partition(of: id)) }

    func liveKey(inPartition partition: Int) -> RedisKey { key(in: partition, "live") }

    /// The key of some devices that are online, by the time of their last sign of life.
    func onlineKey(inPartition partition: Int) -> RedisKey { key(in: partition, "online") }

    func onlineKey(_ user: UserID) -> RedisKey {
        onlineKey(inPartition: Int(stableHash(user.string.utf8) % UInt64(Bounds.partitions)))
    }

    func traceKey(_ callID: CallID) -> RedisKey { key(in: partition(of: .call(callID)), "trace:", callID.string) }

    /// The key of the number of entries that were dropped from the timeline.
    func omittedKey(_ callID: CallID) -> RedisKey { key(in: partition(of: .call(callID)), "omitted:", callID.string) }

    func partition(of id: RecordID) -> Int {
        switch id {
        case .call(let callID): Int(stableHash(callID.string.utf8) % UInt64(Bounds.partitions))
        case .message: Int(stableHash(id.string.utf8) % UInt64(Bounds.partitions))
        }
    }

    /// The prefix of the keys of a partition.
    func prefix(ofPartition partition: Int) -> [UInt8] { partitions[partition] }

    func key(in partition: Int, _ kind: String, _ detail: String = "") -> RedisKey {
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

    /// Returns a claim's value: the call, ":", and the version at which the call took the claim.
    func text(_ holder: ClaimHolder) -> String { "\(holder.callID):\(holder.version)" }

    func holder(_ value: RedisBytes) -> ClaimHolder? {
        var rest = value
        guard let callID = rest.part(before: UInt8(ascii: ":"))?.text.flatMap(CallID.init),
            let version = StoredNumber.time(rest)
        else { return nil }
        return ClaimHolder(callID, version: version)
    }

    /// Returns the hash tag of a claim. The claims of a tag are checked and taken in a single step. The length at the
    /// front keeps two pairs from sharing a tag.
    func tag(of claim: Claim) -> String {
        switch claim {
        case .activeCall(let user): return "{u:\(user)}"
        case .ringing(let from, let to):
            let (low, high) = from < to ? (from, to) : (to, from)
            return "{pair:\(low.string.utf8.count):\(low):\(high)}"
        }
    }

    // MARK: Records

    func stored(_ id: RecordID, _ fields: RedisReply.Pairs) -> StoredRecord? {
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
        // Redis returns the fields in no order, but decisions must not depend on their order.
        return StoredRecord(
            id, version: version, record: record, acks: acks.sorted { $0.device < $1.device },
            heard: heard.sorted { $0.userID < $1.userID }, reports: DeviceReport.sorted(milestones),
            pushes: pushes.sorted { $0.key < $1.key }, checks: checks.sorted { $0.device < $1.device })
    }

    /// Reads a milestone. Its field is "m", the name, "/", the device, "/", the user: only a user id may contain a
    /// slash.
    func milestone(
        _ names: RedisBytes, _ value: RedisBytes
    ) -> (DeviceAddress, Milestone)? {
        var rest = names
        guard let name = rest.part(before: UInt8(ascii: "/"))?.text, let device = device(rest),
            let milliseconds = StoredNumber.time(value)
        else { return nil }
        return (device, Milestone(name: name, milliseconds: milliseconds))
    }

    /// Reads a device, "/", and its user.
    func device(_ names: RedisBytes) -> DeviceAddress? {
        var rest = names
        guard let device = rest.part(before: UInt8(ascii: "/"))?.text.flatMap(DeviceID.init),
            let user = rest.text.flatMap(UserID.init)
        else { return nil }
        return DeviceAddress(userID: user, deviceID: device)
    }

    /// Reads an ack. Its field is "a", the device, "/", the user: a device id contains no slash. Its value is
    /// "revision:session".
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

    /// Removes entries from the due index that have been due for long and have no call, since sweeps would check them
    /// for ever.
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

    /// Does nothing: Redis removes expired keys by itself.
    package func clean(limit: Int) throws(StoreError) -> Int { 0 }
}
