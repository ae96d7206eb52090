import CallCore
import CallStore
import Glibc
import SignalingProtocol
import Support

/// Keeps a connection to Redis: connects again after a failure with backoff, and loads the scripts.
///
/// While Redis is away every call fails at once until the next attempt is due, so that nobody waits in vain.
final class RedisSession: AnswersLater {
    /// The bounds in milliseconds.
    private enum Bounds {
        /// For connecting and for each reply. Below the age at which publications are stale, so that requests which
        /// the store kept waiting can still be answered `unavailable`.
        static let timeout = 400
        static let backoff: ClosedRange<Int64> = 50...1_000
        /// Of coordinators that look at the clock at the same moment one wins each time.
        static let clockAttempts = 20
    }

    let address: RedisAddress
    private let clockKey: [UInt8]
    /// How many replicas must have each write before it counts; 0 for none.
    private let waitReplicas: Int
    /// Another way to a server than by the address.
    private let connect: (() throws(StoreError) -> RedisConnection)?
    private var connection: RedisConnection?
    /// The names by which the server knows the scripts: the same for every server.
    private var hashes: [RedisScript: [UInt8]] = [:]
    /// Nil: nobody asks whose the store is.
    private var deployment: RedisDeployment?
    /// What was posted while Redis did not know a script.
    private var missed: [RedisPipeline] = []
    /// The connection that was dropped last had served something, and was closed by Redis.
    private var mayTryAgain = false
    /// The connection has served something.
    private var isProven = false
    private var nextAttempt: Int64 = 0
    private var backoff = Bounds.backoff.lowerBound
    private var failure = StoreError(.unreachable, "not connected yet")
    let machine: MachineClock
    private var clock = StoreClock()
    /// By how much Redis's own clock is corrected, as it was last read.
    private(set) var shared = SharedClock()
    /// As many replicas as are wanted had the last write; else each look at the clock asks again.
    private var hasReplicas = true
    /// How often it was waited for.
    private(set) var roundTrips = 0
    /// `always`, `everysec` or `no` as Redis's `appendfsync` says, or "appendonly=no". Nil while that is not known, as
    /// with a user who may not ask.
    private(set) var durability: String?
    /// Redis's `maxmemory-policy` where Redis may evict keys by it; nil for `noeviction`, and while the policy is not known.
    private(set) var evictionPolicy: String?

    /// `clockKey`: under which the coordinators keep the format and what they agree on about Redis's clock.
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
    }

    /// An empty pipeline, for a server that is there.
    func pipeline() throws(StoreError) -> RedisPipeline {
        _ = try connected()
        return RedisPipeline(hashes: hashes)
    }

    /// What was sent, and over which connection.
    struct Request {
        fileprivate let pipeline: RedisPipeline
        fileprivate let isWrite: Bool
        fileprivate let connection: RedisConnection
        fileprivate let exchange: RedisConnection.Exchange
        /// Something else had been served over the connection before.
        fileprivate let isProven: Bool
    }

    /// One round trip. With `isWrite` it returns only when enough replicas have it.
    func run(_ pipeline: RedisPipeline, isWrite: Bool = false) async throws(StoreError) -> [RedisReply] {
        guard !pipeline.commands.isEmpty else { return [] }
        return try await replies(to: send(pipeline, isWrite: isWrite))
    }

    /// What it waits for; nil without a connection.
    package var socket: StoreSocket? { connection?.socket }

    /// A connection that Redis has closed is given up at once, also while nothing is on its way: its socket would be readable for ever,
    /// and the thread that polls the socket would never wait again.
    package func receive() {
        guard let connection else { return }
        connection.receive()
        if let failure = connection.failure { drop(connection, failure) }
    }

    /// The first half of a round trip.
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
            sent.command("WAIT", 2) {
                $0.add(Int64(waitReplicas))
                $0.add(Int64(Bounds.timeout / 2))
            }
        }
        do throws(StoreError) {
            return Request(
                pipeline: pipeline, isWrite: isWrite, connection: connection, exchange: try connection.send(sent),
                isProven: isProven)
        } catch {
            drop(connection, error)
            throw failure
        }
    }

    /// The second half of a round trip: waits for the replies.
    private func replies(to request: Request) async throws(StoreError) -> [RedisReply] {
        var replies: [RedisReply]
        do throws(StoreError) {
            roundTrips += 1
            replies = try await request.connection.replies(to: request.exchange)
        } catch {
            // Redis was restarted since the last command. All steps may be repeated: a commit that went through after
            // all finds its own work, and the machine knows the requests that it has served.
            let mayTryAgain = request.isProven && request.connection.isClosedByPeer
            drop(request.connection, error)
            guard mayTryAgain else { throw failure }
            if connection == nil { nextAttempt = 0 }
            let again = try sendOnce(request.pipeline, request.isWrite)
            do throws(StoreError) {
                replies = try await again.connection.replies(to: again.exchange)
            } catch {
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
            // This server may be a master no more: the next connection asks anew where it is, and begins with a write.
            if reply.refusesWrites { drop(request.connection, error) }
            throw error
        }
        return replies
    }

    /// Takes out the last reply, which says how many replicas have the write.
    private func judgeReplicas(_ replies: inout [RedisReply], of request: Request) throws(StoreError) {
        guard request.isWrite, waitReplicas > 0 else { return }
        let reached = try replies.removeLast().number()
        guard reached >= waitReplicas else {
            throw StoreError(.notWritten, "only \(reached) of \(waitReplicas) replicas have the write")
        }
    }

    /// Somebody emptied the script cache. Those calls did nothing, so they may be made again; what was read after them is
    /// read again.
    private func repeatMissing(_ replies: inout [RedisReply], of request: Request) async throws(StoreError) {
        guard let first = replies.firstIndex(where: \.isMissingScript) else { return }
        try loadScripts()
        let again = replies.indices.filter {
            replies[$0].isMissingScript || $0 > first && !request.pipeline.commands[$0].isScript
        }
        let second = try sendOnce(RedisPipeline(request.pipeline, again), request.isWrite)
        var repeated: [RedisReply]
        do throws(StoreError) {
            repeated = try await second.connection.replies(to: second.exchange)
        } catch {
            drop(second.connection, error)
            throw failure
        }
        try judgeReplicas(&repeated, of: second)
        for (index, reply) in zip(again, repeated) { replies[index] = reply }
    }

    /// Sends what nobody waits for, and what need not be done: when the connection breaks, it may be lost. `answered` is
    /// shown the replies some time later.
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

    /// What was posted in vain is posted again, with the scripts loaded.
    private func postMissed() throws(StoreError) {
        let pipelines = missed
        missed = []
        let connection = try connected()
        try loadScripts()
        for pipeline in pipelines { _ = try connection.send(pipeline) }
    }

    private func connected() throws(StoreError) -> RedisConnection {
        if let connection { return connection }
        guard SystemClock.boot.milliseconds >= nextAttempt else { throw failure }
        do throws(StoreError) {
            let connection =
                if let connect { try connect() } else { try RedisConnection(address, timeout: Bounds.timeout) }
            self.connection = connection
            isProven = false
            mayTryAgain = false
            missed = []
            // Before anything is written: a Redis in another format stays as it is.
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

    /// The connection is of no more use. A newer one may have taken its place already.
    private func drop(_ broken: RedisConnection?, _ error: StoreError) {
        broken?.fail(error)
        guard broken === connection else { return }
        mayTryAgain = isProven && broken?.isClosedByPeer ?? false
        connection = nil
        failure = error
        // Redis was restarted, or closes idle connections: the next question may connect at once.
        guard !mayTryAgain else { return nextAttempt = 0 }
        nextAttempt = SystemClock.boot.milliseconds + Int64.random(in: backoff / 2...backoff)
        backoff = min(backoff * 2, Bounds.backoff.upperBound)
    }

    private func checkFormat(_ connection: RedisConnection) throws(StoreError) {
        var pipeline = RedisPipeline()
        pipeline.command("GET", 1) { $0.add(clockKey) }
        guard let entry = try connection.run(pipeline)[0].value() else { return }
        _ = try RedisFormat.clock(in: entry, address)
    }

    private func loadScripts() throws(StoreError) {
        guard let connection else { throw failure }
        let scripts = RedisScript.allCases
        var pipeline = RedisPipeline()
        for script in scripts {
            pipeline.command("SCRIPT", 2) {
                $0.add("LOAD")
                $0.add(script.source)
            }
        }
        for (script, reply) in zip(scripts, try connection.run(pipeline)) {
            guard let hash = reply.bytes else {
                throw StoreError(.failed, "\(address): script \(script) cannot be loaded: \(reply.unexpected)")
            }
            hashes[script] = Array(hash)
        }
    }

    // MARK: The clock (docs/decisions/0014)

    /// The time by which calls are served.
    func now() async throws(StoreError) -> Milliseconds {
        if clock.isDoubtful { _ = try await lookAtClock() }
        if let now = clock.now(boot: machine.boot()) { return now }
        _ = try connected()
        guard let now = clock.now(boot: machine.boot()) else { throw failure }
        return now
    }

    /// The same as far as it is known.
    var time: Milliseconds? { clock.isDoubtful ? nil : clock.now(boot: machine.boot()) }

    /// What Redis's own clock says, or will say, at this time.
    func raw(_ time: Milliseconds) -> Milliseconds { time - shared.correction }

    /// Redis's clock stood at `raw` at some moment between the two of the boot clock. False when that cannot be explained by drift:
    /// somebody has set it, and it is looked at before it is used again.
    func learnClock(_ raw: Milliseconds, between before: Milliseconds, _ after: Milliseconds) throws(StoreError) -> Bool
    {
        guard StoredNumber.times.contains(raw) else { throw StoreError(.failed, "\(address): no time: \(raw)") }
        clock.learn(raw + shared.correction, between: before, after)
        return !clock.isDoubtful
    }

    /// Asks Redis for its time, and agrees with the other coordinators on what it is worth. One of them writes that down now and then,
    /// which also shows whether Redis takes writes.
    func lookAtClock() async throws(StoreError) -> Bool {
        let connection = try connected()
        do throws(StoreError) {
            let hasWritten = try await agreeOnClock(connection, writes: !hasReplicas)
            isProven = true
            guard hasWritten, waitReplicas > 0 else { return hasWritten }
            hasReplicas = false
            try await judgeReplicas()
            hasReplicas = true
            return true
        } catch {
            // Too few replicas: the connection is as good as any.
            if error.code == .notWritten { throw error }
            drop(connection, error)
            // Redis was restarted since the last command: a new connection begins with a look of its own.
            guard mayTryAgain else { throw failure }
            _ = try connected()
            return true
        }
    }

    /// Whether enough replicas have what was written last.
    private func judgeReplicas() async throws(StoreError) {
        var nothing = RedisPipeline()
        nothing.command("PING")
        _ = try await run(nothing, isWrite: true)
    }

    /// With a new connection, over which nothing else is on its way: a look that ends with a write.
    private func agreeOnClock(_ connection: RedisConnection) throws(StoreError) {
        for _ in 0..<Bounds.clockAttempts {
            let before = machine.boot()
            roundTrips += 1
            guard let look = try look(connection.run(clockQuestion), since: before) else { continue }
            roundTrips += 1
            if try adopt(look, connection.run(clockAnswer(look))[0]) { return }
        }
        throw StoreError(.failed, "\(address): no agreement on the clock")
    }

    /// Writes at least when something has changed, or when nobody has for a while. Returns whether it has written something.
    private func agreeOnClock(_ connection: RedisConnection, writes: Bool) async throws(StoreError) -> Bool {
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

    /// What was found when the clock was looked at, and is to be agreed on.
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
        look.command("TIME")
        look.command("GET", 1) { $0.add(clockKey) }
        return look
    }

    /// Nil when it is to be looked at again.
    private func look(_ replies: [RedisReply], since before: Milliseconds) throws(StoreError) -> ClockLook? {
        let (after, wall) = machine.atOnce()
        // Stopped meanwhile: what Redis said then says little.
        guard after - before <= ClockBounds.step else { return nil }
        let raw = try time(replies[0])
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
        write.script(.clock, keys: 1, arguments: 2) {
            $0.add(clockKey)
            $0.add(look.known)
            $0.add(RedisFormat.entry(look.agreed))
        }
        return write
    }

    /// False when somebody else looked at the same moment: what that one made of it counts.
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

    private func time(_ reply: RedisReply) throws(StoreError) -> Milliseconds {
        guard let parts = reply.array, parts.count == 2,
            let seconds = parts[0].bytes.flatMap(StoredNumber.time),
            let microseconds = parts[1].bytes?.text.flatMap(Int64.init),
            (0..<1_000_000).contains(microseconds), seconds <= StoredNumber.times.upperBound / 1000
        else { throw StoreError(.failed, "\(address): no time: \(reply.unexpected)") }
        return seconds * 1000 + microseconds / 1000
    }

    private func readSettings() throws(StoreError) {
        guard let connection else { throw failure }
        var pipeline = RedisPipeline()
        for name in ["appendonly", "appendfsync", "maxmemory-policy"] {
            pipeline.command("CONFIG", 2) {
                $0.add("GET")
                $0.add(name)
            }
        }
        let replies = try connection.run(pipeline)
        let policy = replies[2].array?.last?.bytes?.text
        evictionPolicy = policy == "noeviction" ? nil : policy
        guard let isOn = replies[0].array?.last?.bytes?.text, let sync = replies[1].array?.last?.bytes?.text else {
            return
        }
        durability = isOn == "yes" ? sync : "appendonly=no"
    }
}
