import CallCore
import CallStore
import Glibc
import SignalingProtocol
import Support

/// Keeps a connection to Redis: reconnects with backoff after a failure, and loads the scripts.
///
/// While Redis is away, every call fails at once until the next attempt is due, so that no request waits in vain.
final class RedisSession: AnswersLater {
    /// The bounds in milliseconds.
    private enum Bounds {
        /// The bound on connecting and on each reply. The bound is below the age of stale outbound messages, so that
        /// requests that waited for the store can still be answered `unavailable`.
        static let timeout = 400
        /// The wait for replicas, in milliseconds, as long as too few replicas have the writes. A server without a
        /// replica answers nothing else to this connection during the wait.
        static let shortWait = 20
        /// Each check with this number waits as long as before for replicas to have the writes again: a replica may be
        /// slower than the short wait of the other checks.
        static let checksPerLongWait = 8
        static let backoff: ClosedRange<Int64> = 50...1_000
        /// The longest pause between attempts where another server may take over: requests are served again within a
        /// second of a failover.
        static let failoverBackoff: Int64 = 200
        /// The time between two checks of the settings of Redis, which an operator may change at any time.
        static let settingsInterval: Milliseconds = 10_000
        /// The bound on attempts to agree on the clock: of coordinators that check the clock at the same time, only one
        /// succeeds each time.
        static let clockAttempts = 20
        /// The difference between the clocks of a cluster's servers that operators are told of.
        static let clockDifference: Milliseconds = 250
    }

    let address: RedisAddress
    private let clockKey: [UInt8]
    /// The number of replicas that must have each write before the write counts; 0 for none.
    let waitReplicas: Int
    /// A replacement for connecting to `address`.
    private let connect: (() throws(StoreError) -> RedisConnection)?
    /// Nil for an address without sentinels.
    private let sentinel: RedisSentinel?
    private var connection: (any RedisLink)?
    /// The masters of the cluster that were known last.
    private var knownMasters: [RedisAddress.Server] = []
    /// The scripts' names (hashes), the same at every server.
    private var hashes: [RedisScript: [UInt8]] = [:]
    /// The check of the store's deployment; nil to accept any deployment.
    private var deployment: RedisDeployment?
    /// The posted pipelines that Redis did not run for want of a script.
    private var missed: [RedisPipeline] = []
    /// Whether the connection that was dropped last had answered a request and was then closed by Redis.
    private var mayTryAgain = false
    /// Whether the connection has answered a request.
    private var isProven = false
    private var nextAttempt: Int64 = 0
    private var backoff = Bounds.backoff.lowerBound
    private var failure = StoreError(.unreachable, "not connected yet")
    let machine: MachineClock
    private var clock = StoreClock()
    /// The correction of Redis's own clock, as last read.
    private(set) var shared = SharedClock()
    /// Whether enough replicas had the writes; if not, each check of the clock asks again.
    private var hasReplicas = true
    /// The number of checks since too few replicas had the writes.
    private var replicaChecks = 0
    /// The number of times that a request waited for Redis.
    private(set) var roundTrips = 0
    /// The settings of the servers, by the servers' names. The settings stay unknown for a user without the permission
    /// to read them.
    private var settings: [String: RedisSettings] = [:]
    private var nextSettings: Milliseconds = 0

    /// Creates a session. The key `clockKey` holds the number of the store's format, and the correction of Redis's
    /// clock on which the coordinators agree.
    init(
        _ address: RedisAddress, waitReplicas: Int, clockKey: [UInt8], deployment: RedisDeployment? = nil,
        machine: MachineClock = .system, connect: (() throws(StoreError) -> RedisConnection)? = nil
    ) {
        self.address = address
        self.clockKey = clockKey
        self.deployment = deployment
        self.machine = machine
        self.waitReplicas = waitReplicas
        self.connect = connect
        sentinel = RedisSentinel(address)
    }

    private var mayFailOver: Bool { address.sentinels != nil || isCluster }

    /// Whether the servers have clocks of their own, of which one is the store's.
    var isCluster: Bool { address.cluster != nil }

    /// Whether Redis's time in the reply to a commit of the record with this key is the store's.
    func hasClock(for key: RedisKey) -> Bool { connection?.hasClock(for: key) ?? false }

    /// Returns an empty pipeline. Throws when Redis cannot be reached.
    func pipeline() throws(StoreError) -> RedisPipeline {
        _ = try connected()
        return RedisPipeline(hashes: hashes)
    }

    /// A pipeline that was sent, and its connection.
    struct Request {
        fileprivate let pipeline: RedisPipeline
        fileprivate let isWrite: Bool
        fileprivate let connection: any RedisLink
        fileprivate let exchange: RedisExchange
        /// Whether the connection had answered another request before.
        fileprivate let isProven: Bool
    }

    /// Makes one round trip. With `isWrite`, returns only when enough replicas have the write.
    func run(_ pipeline: RedisPipeline, isWrite: Bool = false) async throws(StoreError) -> [RedisReply] {
        guard !pipeline.commands.isEmpty else { return [] }
        return try await replies(to: send(pipeline, isWrite: isWrite))
    }

    /// Makes a round trip to one of the servers, by its place in the order of their names; nil when there is no such
    /// server. The method serves commands that name no key, such as `SCAN`.
    func run(_ pipeline: RedisPipeline, atServer place: Int) async throws(StoreError) -> [RedisReply]? {
        let link = try connected()
        let servers = link.servers.sorted { $0.name < $1.name }
        guard servers.indices.contains(place) else { return nil }
        roundTrips += 1
        do throws(StoreError) {
            let replies = try await link.replies(to: servers[place].send(pipeline))
            if let message = replies.lazy.compactMap(\.error).first {
                throw StoreError(.failed, "\(servers[place].name): \(message)")
            }
            return replies
        } catch {
            guard servers[place].failure != nil else { throw error }
            drop(link, error)
            throw failure
        }
    }

    /// The socket to wait for; nil without a connection.
    package var socket: StoreSocket? { connection?.socket }

    /// Reads replies. A connection that Redis has closed is dropped at once, also while no request is under way: its
    /// socket would stay readable, and the thread that polls the socket would never wait again.
    package func receive() {
        guard let connection else { return }
        connection.receive()
        if let failure = connection.failure { drop(connection, failure) }
    }

    /// Makes the first half of a round trip.
    private func send(_ pipeline: RedisPipeline, isWrite: Bool) throws(StoreError) -> Request {
        do throws(StoreError) {
            return try sendOnce(pipeline, isWrite)
        } catch {
            guard mayTryAgain else { throw failure }
        }
        return try sendOnce(pipeline, isWrite)
    }

    private func sendOnce(_ pipeline: RedisPipeline, _ isWrite: Bool) throws(StoreError) -> Request {
        let connection = try connected()
        var sent = pipeline
        if isWrite, waitReplicas > 0 {
            sent.command("WAIT", 2, to: .written) {
                $0.add(Int64(waitReplicas))
                $0.add(Int64(replicaWait))
            }
        }
        do throws(StoreError) {
            let exchange = try connection.send(sent)
            return Request(
                pipeline: pipeline, isWrite: isWrite, connection: connection, exchange: exchange, isProven: isProven)
        } catch {
            drop(connection, error)
            throw failure
        }
    }

    /// Makes the second half of a round trip: waits for the replies.
    private func replies(to request: Request) async throws(StoreError) -> [RedisReply] {
        var replies: [RedisReply]
        do throws(StoreError) {
            roundTrips += 1
            replies = try await request.connection.replies(to: request.exchange)
        } catch {
            // The connections have not failed: the cluster has only refused a command.
            if request.connection.failure == nil { throw error }
            // Redis was restarted since the last command. All steps may be repeated: a commit that succeeded after all
            // finds its own write, a request whose claim is taken by its own call is decided again, and the state
            // machine recognises the requests that it has served.
            let mayTryAgain = request.isProven && request.connection.isClosedByPeer
            drop(request.connection, error)
            guard mayTryAgain else { throw failure }
            if connection == nil { nextAttempt = 0 }
            let again = try sendOnce(request.pipeline, request.isWrite)
            do throws(StoreError) {
                replies = try await again.connection.replies(to: again.exchange)
            } catch {
                if again.connection.failure == nil { throw error }
                drop(again.connection, error)
                throw failure
            }
        }
        isProven = true
        try judgeReplicas(&replies, of: request)
        try await repeatMissing(&replies, of: request)
        for reply in replies {
            guard let message = reply.error else { continue }
            let error = StoreError(.failed, "\(address): \(message)")
            // This server may no longer be the master: the next connection resolves the address again, and begins with
            // a write.
            if reply.refusesWrites { drop(request.connection, error) }
            throw error
        }
        return replies
    }

    /// The longest wait for replicas of the next write, in milliseconds.
    private var replicaWait: Int {
        hasReplicas || replicaChecks % Bounds.checksPerLongWait == 0 && replicaChecks > 0
            ? Bounds.timeout / 2 : Bounds.shortWait
    }

    /// Removes the last reply, which holds the number of replicas that have the write. Throws when there are too few.
    private func judgeReplicas(_ replies: inout [RedisReply], of request: Request) throws(StoreError) {
        guard request.isWrite, waitReplicas > 0 else { return }
        let reached = try replies.removeLast().number()
        guard reached >= waitReplicas else {
            hasReplicas = false
            throw StoreError(.notWritten, "only \(reached) of \(waitReplicas) replicas have the write")
        }
    }

    /// Runs scripts again after Redis's script cache was emptied. The missing scripts did nothing, so that these
    /// scripts may be repeated; the later reads in the pipeline are repeated as well.
    private func repeatMissing(_ replies: inout [RedisReply], of request: Request) async throws(StoreError) {
        guard let first = replies.firstIndex(where: \.isMissingScript) else { return }
        try loadScripts()
        let again = replies.indices.filter {
            // A `SET NX` that has written would find its own value.
            replies[$0].isMissingScript || $0 > first && !request.pipeline.commands[$0].isScript && !replies[$0].isOK
        }
        let second = try sendOnce(RedisPipeline(request.pipeline, again), request.isWrite)
        var repeated: [RedisReply]
        do throws(StoreError) {
            repeated = try await second.connection.replies(to: second.exchange)
        } catch {
            if second.connection.failure == nil { throw error }
            drop(second.connection, error)
            throw failure
        }
        try judgeReplicas(&repeated, of: second)
        for (index, reply) in zip(again, repeated) { replies[index] = reply }
    }

    /// Sends commands that may be lost when the connection breaks; no request waits for their replies. `answered` gets
    /// the replies some time later.
    func post(_ pipeline: RedisPipeline, _ answered: @escaping ([RedisReply]) -> Void) throws(StoreError) {
        if !missed.isEmpty { try postMissed() }
        guard !pipeline.commands.isEmpty else { return }
        let connection = try connected()
        do throws(StoreError) {
            _ = try connection.send(pipeline) { [unowned self] replies in
                let missing = replies.indices.filter { replies[$0].isMissingScript }
                if missing.isEmpty { answered(replies) } else { missed.append(RedisPipeline(pipeline, missing)) }
            }
        } catch {
            drop(connection, error)
            throw failure
        }
    }

    /// Loads the scripts, and posts again the pipelines that Redis did not run.
    private func postMissed() throws(StoreError) {
        let pipelines = missed
        missed = []
        let connection = try connected()
        try loadScripts()
        for pipeline in pipelines { _ = try connection.send(pipeline) }
    }

    private func connected() throws(StoreError) -> any RedisLink {
        leaveFormerMaster()
        if let connection { return connection }
        guard SystemClock.boot.milliseconds >= nextAttempt else { throw failure }
        do throws(StoreError) {
            let connection = try newConnection()
            self.connection = connection
            isProven = false
            mayTryAgain = false
            missed = []
            // The format is checked before the first write: a Redis in another format stays unchanged.
            try checkFormat(connection)
            try deployment?.check(connection, address)
            try loadScripts()
            try agreeOnClock(connection)
            try readSettings()
            backoff = Bounds.backoff.lowerBound
            return connection
        } catch {
            drop(connection, error)
            throw failure
        }
    }

    private func newConnection() throws(StoreError) -> any RedisLink {
        if let connect { return try connect() }
        if isCluster {
            let cluster = try RedisCluster(address, known: knownMasters, timeout: Bounds.timeout) {
                [unowned self] server throws(StoreError) in try loadScripts(at: server)
            }
            knownMasters = cluster.masters
            return cluster
        }
        if let sentinel { return try sentinel.connect(timeout: Bounds.timeout, now: machine.boot()) }
        return try RedisConnection(address, timeout: Bounds.timeout)
    }

    /// Drops the connection when a failover begins: the old master takes writes for some seconds more, and loses these.
    private func leaveFormerMaster() {
        guard let sentinel, let connection, sentinel.hasMoved(now: machine.boot()) else { return }
        drop(connection, StoreError(.unreachable, "\(address): a failover is under way"))
        nextAttempt = 0
    }

    /// Drops a connection that failed. Another connection may be in use already.
    private func drop(_ broken: (any RedisLink)?, _ error: StoreError) {
        broken?.fail(error)
        guard broken === connection else { return }
        if let cluster = broken as? RedisCluster { knownMasters = cluster.masters }
        mayTryAgain = isProven && broken?.isClosedByPeer ?? false
        connection = nil
        failure = error
        // Redis was restarted, or closes idle connections: the next request may connect at once.
        guard !mayTryAgain else { return nextAttempt = 0 }
        nextAttempt = SystemClock.boot.milliseconds + Int64.random(in: backoff / 2...backoff)
        backoff = min(backoff * 2, mayFailOver ? Bounds.failoverBackoff : Bounds.backoff.upperBound)
    }

    private func checkFormat(_ connection: any RedisLink) throws(StoreError) {
        var pipeline = RedisPipeline()
        pipeline.command("GET", 1) { $0.add(clockKey) }
        guard let entry = try connection.run(pipeline)[0].value() else { return }
        _ = try RedisFormat.clock(in: entry, address)
    }

    private func loadScripts() throws(StoreError) {
        guard let connection else { throw failure }
        for server in connection.servers { try loadScripts(at: server) }
    }

    private func loadScripts(at server: RedisConnection) throws(StoreError) {
        let scripts = RedisScript.allCases
        var pipeline = RedisPipeline()
        for script in scripts {
            pipeline.command("SCRIPT", 2) {
                $0.add("LOAD")
                $0.add(script.source)
            }
        }
        for (script, reply) in zip(scripts, try server.run(pipeline)) {
            guard let hash = reply.bytes else {
                throw StoreError(.failed, "\(server.name): script \(script) cannot be loaded: \(reply.unexpected)")
            }
            hashes[script] = Array(hash)
        }
    }

    // MARK: The clock (docs/decisions/0014)

    /// Returns the store's time in milliseconds; calls are served by this time.
    func now() async throws(StoreError) -> Milliseconds {
        if clock.isDoubtful { _ = try await lookAtClock() }
        if let now = clock.now(boot: machine.boot()) { return now }
        _ = try connected()
        guard let now = clock.now(boot: machine.boot()) else { throw failure }
        return now
    }

    /// The store's time, or nil while the time is unknown.
    var time: Milliseconds? { clock.isDoubtful ? nil : clock.now(boot: machine.boot()) }

    /// The time that the servers of a cluster compare with their own clocks, by the clock of the server of {p0}; "" for
    /// a single server, whose clock is the store's.
    var comparedTime: String { isCluster ? time.map { String(raw($0)) } ?? "" : "" }

    /// Returns the time of Redis's own clock at this store time.
    func raw(_ time: Milliseconds) -> Milliseconds { time - shared.correction }

    /// Learns that Redis's clock showed `raw` at some moment between two times of the boot clock. Returns false when
    /// drift cannot explain the difference: the clock was set, and is checked before its next use.
    func learnClock(_ raw: Milliseconds, between before: Milliseconds, _ after: Milliseconds) throws(StoreError) -> Bool
    {
        guard StoredNumber.times.contains(raw) else { throw StoreError(.failed, "\(address): the clock shows \(raw)") }
        clock.learn(raw + shared.correction, between: before, after)
        return !clock.isDoubtful
    }

    /// Asks Redis for its time, and agrees with the other coordinators on the correction. Now and then a coordinator
    /// writes the agreement, which also shows whether Redis takes writes. Returns whether this call has written.
    func lookAtClock() async throws(StoreError) -> Bool {
        let connection = try connected()
        do throws(StoreError) {
            let hasWritten = try await agreeOnClock(connection, writes: !hasReplicas)
            isProven = true
            if machine.boot() >= nextSettings { try askForSettings() }
            guard hasWritten, waitReplicas > 0 else { return hasWritten }
            try await judgeReplicas()
            hasReplicas = true
            replicaChecks = 0
            return true
        } catch {
            // Too few replicas have the write, but the connection works.
            if error.code == .notWritten { throw error }
            drop(connection, error)
            // Redis was restarted since the last command: a new connection begins with a check of its own.
            guard mayTryAgain else { throw failure }
            _ = try connected()
            return true
        }
    }

    /// Throws unless enough replicas have the last write.
    private func judgeReplicas() async throws(StoreError) {
        replicaChecks += 1
        var nothing = RedisPipeline()
        nothing.command("PING", to: .every)
        _ = try await run(nothing, isWrite: true)
    }

    /// Agrees on the clock over a new connection without other requests. This check ends with a write.
    private func agreeOnClock(_ connection: any RedisLink) throws(StoreError) {
        for _ in 0..<Bounds.clockAttempts {
            let before = machine.boot()
            roundTrips += 1
            guard let look = try look(connection.run(clockQuestion), since: before) else { continue }
            roundTrips += 1
            if try adopt(look, connection.run(clockAnswer(look))[0]) { return }
        }
        throw StoreError(.failed, "\(address): no agreement on the clock")
    }

    /// Agrees on the clock. Writes when the agreement has changed, when no coordinator has written for a while, or with
    /// `writes`. Returns whether a write was made.
    private func agreeOnClock(_ connection: any RedisLink, writes: Bool) async throws(StoreError) -> Bool {
        for _ in 0..<Bounds.clockAttempts {
            let before = machine.boot()
            roundTrips += 1
            let replies = try await connection.replies(to: connection.send(clockQuestion))
            guard let look = try look(replies, since: before) else { continue }
            guard writes || look.isNews else {
                adopt(look)
                return false
            }
            roundTrips += 1
            let answer = try connection.send(clockAnswer(look))
            if try await adopt(look, connection.replies(to: answer)[0]) { return true }
        }
        throw StoreError(.failed, "\(address): no agreement on the clock")
    }

    /// The result of a check of the clock, for the coordinators to agree on.
    private struct ClockLook {
        let known: [UInt8]
        let agreed: SharedClock
        let isNews: Bool
        let now: Milliseconds
        let before: Milliseconds
        let after: Milliseconds
    }

    private var clockQuestion: RedisPipeline {
        var look = RedisPipeline()
        look.command("TIME", to: .clock)
        look.command("GET", 1) { $0.add(clockKey) }
        // A sentinel's message about another master may be lost; the server's own role tells of the change too.
        if sentinel != nil { look.command("ROLE") }
        return look
    }

    /// Returns the result of a check, or nil when the check must be repeated.
    private func look(_ replies: [RedisReply], since before: Milliseconds) throws(StoreError) -> ClockLook? {
        if replies.count > 2, !replies[2].isOfMaster {
            throw StoreError(.unreachable, "\(address): the server is no longer the master")
        }
        let (after, wall) = machine.atOnce()
        // The process was stopped in between, so that Redis's answer is too old.
        guard after - before <= ClockBounds.step else { return nil }
        let raw = try replies[0].redisTime()
        let entry = try replies[1].value()
        let known = entry.map { Array($0) } ?? []
        var agreed = SharedClock()
        if let entry, let clock = try RedisFormat.clock(in: entry, address) { agreed = clock }
        let found = agreed
        let expected = clock.now(nearest: raw + agreed.correction, between: before, after)
        let now = agreed.look(raw: raw, expected: expected, wall: wall)
        return ClockLook(
            known: known, agreed: agreed, isNews: agreed.isNews(since: found), now: now, before: before, after: after)
    }

    private func clockAnswer(_ look: ClockLook) -> RedisPipeline {
        var write = RedisPipeline(hashes: hashes)
        write.script(.agree, keys: 1, arguments: 2) {
            $0.add(clockKey)
            $0.add(look.known)
            $0.add(RedisFormat.entry(look.agreed))
        }
        return write
    }

    /// Adopts the clock if the write succeeded. Returns false when another coordinator checked at the same time: the
    /// other result counts.
    private func adopt(_ look: ClockLook, _ reply: RedisReply) throws(StoreError) -> Bool {
        if reply.isMissingScript { try loadScripts() }
        guard try reply.isMissingScript ? false : reply.number() == 1 else { return false }
        adopt(look)
        return true
    }

    private func adopt(_ look: ClockLook) {
        shared = look.agreed
        clock.adopt(look.now, between: look.before, look.after)
    }

    /// The version and the settings of a server.
    private struct RedisSettings {
        var version: String?
        /// `appendfsync` (`always`, `everysec` or `no`), or "appendonly=no".
        var durability: String?
        /// `maxmemory-policy` when the policy lets Redis evict keys; nil for `noeviction`.
        var evictionPolicy: String?
        var fill: StoreFill?
        /// The difference between the server's clock and the store's, in a cluster.
        var clockDifference: Milliseconds = 0
    }

    /// The oldest version of the servers; nil while unknown.
    var version: String? {
        settings.values.compactMap(\.version).min { lhs, rhs in
            let parts = [lhs, rhs].map { $0.split(separator: ".").map { Int($0) ?? 0 } }
            return parts[0].lexicographicallyPrecedes(parts[1])
        }
    }

    /// The least durable setting of the servers; nil while unknown.
    var durability: String? {
        let known = settings.values.compactMap(\.durability)
        return ["appendonly=no", "no", "everysec", "always"].first(where: known.contains) ?? known.first
    }

    /// The settings and clocks by which calls are lost.
    var hazards: [StoreHazard] {
        var hazards: [StoreHazard] = []
        let servers = settings.sorted { $0.key < $1.key }
        let policy = servers.lazy.compactMap(\.value.evictionPolicy).first
        if let policy { hazards.append(.evicts(policy: policy)) }
        if durability == "appendonly=no" { hazards.append(.keepsNothing) }
        // Rounded, so that the warning is told again only when the clocks change.
        let clocks = servers.lazy.map { (server: $0.key, difference: $0.value.clockDifference) }
        if let least = clocks.map(\.difference).min(), let greatest = clocks.map(\.difference).max(),
            greatest - least > Bounds.clockDifference,
            let behind = clocks.first(where: { $0.difference < least + 100 }),
            let ahead = clocks.first(where: { $0.difference > greatest - 100 })
        {
            let rounded = (greatest - least) / 100 * 100
            hazards.append(.clocksDiffer(behind: behind.server, ahead: ahead.server, by: rounded))
        }
        return hazards
    }

    /// The fill of the fullest server.
    var fill: StoreFill? {
        settings.values.compactMap(\.fill).max { share(of: $0) < share(of: $1) }
    }

    private func share(of fill: StoreFill) -> Double {
        // Without a limit, the servers with more data count as fuller.
        Double(fill.bytes) / Double(fill.limit ?? .max)
    }

    /// Returns a field of a reply to `INFO`.
    private func field(_ name: String, of text: String) -> String? {
        text.split(whereSeparator: \.isNewline).first { $0.hasPrefix(name + ":") }
            .map { String($0.dropFirst(name.count + 1)) }
    }

    /// Reads the reply to `INFO memory`.
    private func fill(_ text: String) -> StoreFill? {
        func number(_ name: String) -> Int64? { field(name, of: text).flatMap { Int64($0) } }
        return number("used_memory").map { bytes in
            StoreFill(bytes: bytes, limit: number("maxmemory").flatMap { $0 == 0 ? nil : $0 })
        }
    }

    private func readSettings() throws(StoreError) {
        guard let connection else { throw failure }
        settings = [:]
        for server in connection.servers {
            let sent = machine.boot()
            takeSettings(try server.run(settingsQuestion), of: server.name, sent)
        }
    }

    /// Reads the settings again, without a wait for the replies.
    private func askForSettings() throws(StoreError) {
        nextSettings = machine.boot() + Bounds.settingsInterval
        guard let connection else { return }
        let servers = connection.servers
        settings = settings.filter { setting in servers.contains { $0.name == setting.key } }
        for server in servers {
            let sent = machine.boot()
            let name = server.name
            _ = try server.send(settingsQuestion) { [unowned self] replies in takeSettings(replies, of: name, sent) }
        }
    }

    private var settingsQuestion: RedisPipeline {
        var pipeline = RedisPipeline()
        for name in ["appendonly", "appendfsync", "maxmemory-policy"] {
            pipeline.command("CONFIG", 2) {
                $0.add("GET")
                $0.add(name)
            }
        }
        pipeline.command("INFO", 1) { $0.add("memory") }
        pipeline.command("INFO", 1) { $0.add("server") }
        if isCluster { pipeline.command("TIME") }
        return pipeline
    }

    /// A user without the permission to read the settings gets errors, and the settings stay unknown.
    private func takeSettings(_ replies: [RedisReply], of server: String, _ sent: Milliseconds) {
        nextSettings = machine.boot() + Bounds.settingsInterval
        let values = replies.map { $0.array?.last?.bytes?.text }
        var found = RedisSettings()
        found.evictionPolicy = values[2] == "noeviction" ? nil : values[2]
        if let isOn = values[0], let sync = values[1] { found.durability = isOn == "yes" ? sync : "appendonly=no" }
        found.fill = replies[3].bytes?.text.flatMap(fill)
        found.version = replies[4].bytes?.text.flatMap { field("redis_version", of: $0) }
        if isCluster, let raw = try? replies[5].redisTime(), let first = clock.now(boot: sent),
            let last = clock.now(boot: machine.boot())
        {
            // The reply may have waited in this process.
            let time = raw + shared.correction
            found.clockDifference = time < first ? time - first : max(0, time - last)
        }
        settings[server] = found
    }
}
