import CallCore
import Glibc
import SignalingProtocol

/// Keeps a connection to Redis: connects again after a failure with backoff, and loads the scripts.
///
/// While Redis is away every call fails at once until the next attempt is due, so that nobody waits in vain.
final class RedisSession {
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
    /// What was posted and not looked at yet.
    private var posted: [(request: Request, answered: ([RedisReply]) -> Void)] = []
    /// The connection that was dropped last had served something, and was closed by Redis.
    private var mayTryAgain = false
    /// The connection has served something.
    private var isProven = false
    private var nextAttempt: Int64 = 0
    private var backoff = Bounds.backoff.lowerBound
    private var failure = StoreError("not connected yet")
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

    /// `clockKey`: under which the coordinators keep what they agree on about Redis's clock.
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
    func run(_ pipeline: RedisPipeline, isWrite: Bool = false) throws(StoreError) -> [RedisReply] {
        guard !pipeline.commands.isEmpty else { return [] }
        return try finish(send(pipeline, isWrite: isWrite))
    }

    /// The first half of a round trip.
    func send(_ pipeline: RedisPipeline, isWrite: Bool = false) throws(StoreError) -> Request {
        do throws(StoreError) {
            return try sendOnce(pipeline, isWrite)
        } catch {
            guard mayTryAgain else { throw failure }
            nextAttempt = 0
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
    func finish(_ request: Request) throws(StoreError) -> [RedisReply] {
        var replies: [RedisReply]
        do throws(StoreError) {
            roundTrips += 1
            replies = try request.connection.finish(request.exchange)
        } catch {
            // Redis was restarted since the last command. All steps may be repeated: a commit that went through after
            // all finds its own work, and the machine knows the requests that it has served.
            let mayTryAgain = request.isProven && request.connection.isClosedByPeer
            drop(request.connection, error)
            guard mayTryAgain else { throw failure }
            nextAttempt = 0
            let again = try sendOnce(request.pipeline, request.isWrite)
            do throws(StoreError) {
                replies = try again.connection.finish(again.exchange)
            } catch {
                drop(again.connection, error)
                throw failure
            }
        }
        isProven = true
        try judgeReplicas(&replies, of: request)
        try repeatMissing(&replies, of: request)
        for reply in replies {
            guard let message = reply.error else { continue }
            let error = StoreError("\(address): \(message)")
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
            throw StoreError("only \(reached) of \(waitReplicas) replicas have the write", isOfWriting: true)
        }
    }

    /// Somebody emptied the script cache. Those calls did nothing, so they may be made again; what was read after them is
    /// read again.
    private func repeatMissing(_ replies: inout [RedisReply], of request: Request) throws(StoreError) {
        guard let first = replies.firstIndex(where: \.isMissingScript) else { return }
        try loadScripts()
        let again = replies.indices.filter {
            replies[$0].isMissingScript || $0 > first && !request.pipeline.commands[$0].isScript
        }
        let second = try sendOnce(RedisPipeline(request.pipeline, again), request.isWrite)
        var repeated: [RedisReply]
        do throws(StoreError) {
            repeated = try second.connection.finish(second.exchange)
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
        guard !pipeline.commands.isEmpty else { return }
        posted.append((try send(pipeline), answered))
    }

    /// Looks at the replies to what was posted, as far as they are there.
    func lookAtPosted() throws(StoreError) {
        while let (request, answered) = posted.first, let replies = request.exchange.replies {
            posted.removeFirst()
            let missing = replies.indices.filter { replies[$0].isMissingScript }
            if missing.isEmpty {
                answered(replies)
            } else {
                try loadScripts()
                try post(RedisPipeline(request.pipeline, missing)) { _ in }
            }
        }
    }

    private func connected() throws(StoreError) -> RedisConnection {
        if let connection { return connection }
        guard monotonicMilliseconds() >= nextAttempt else { throw failure }
        do throws(StoreError) {
            let connection =
                if let connect { try connect() } else { try RedisConnection(address, timeout: Bounds.timeout) }
            self.connection = connection
            isProven = false
            mayTryAgain = false
            posted = []
            try deployment?.check(connection, address)
            try loadScripts()
            _ = try lookAtClock(connection, writes: true)
            try readDurability()
            backoff = Bounds.backoff.lowerBound
            return connection
        } catch {
            drop(connection, error)
            throw failure
        }
    }

    /// The connection is of no more use. A newer one may have taken its place already.
    private func drop(_ broken: RedisConnection?, _ error: StoreError) {
        guard broken === connection else { return }
        mayTryAgain = isProven && broken?.isClosedByPeer ?? false
        connection = nil
        failure = error
        nextAttempt = monotonicMilliseconds() + Int64.random(in: backoff / 2...backoff)
        backoff = min(backoff * 2, Bounds.backoff.upperBound)
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
                throw StoreError("\(address): script \(script) cannot be loaded: \(reply.unexpected)")
            }
            hashes[script] = Array(hash)
        }
    }

    // MARK: The clock (docs/decisions/0014)

    /// The time by which calls are served.
    func now() throws(StoreError) -> Milliseconds {
        if clock.isDoubtful { _ = try lookAtClock() }
        if let now = clock.now(boot: machine.boot()) { return now }
        _ = try connected()
        guard let now = clock.now(boot: machine.boot()) else { throw failure }
        return now
    }

    /// What Redis's own clock says, or will say, at this time.
    func raw(_ time: Milliseconds) -> Milliseconds { time - shared.correction }

    /// Redis's clock stood at `raw` at some moment between the two of the boot clock. False when that cannot be explained by drift:
    /// somebody has set it, and it is looked at before it is used again.
    func learnClock(_ raw: Milliseconds, between before: Milliseconds, _ after: Milliseconds) throws(StoreError) -> Bool
    {
        guard StoredNumber.times.contains(raw) else { throw StoreError("\(address): no time: \(raw)") }
        clock.learn(raw + shared.correction, between: before, after)
        return !clock.isDoubtful
    }

    /// Asks Redis for its time, and agrees with the other coordinators on what it is worth. One of them writes that down now and then,
    /// which also shows whether Redis takes writes.
    func lookAtClock() throws(StoreError) -> Bool {
        let connection = try connected()
        do throws(StoreError) {
            let hasWritten = try lookAtClock(connection, writes: !hasReplicas)
            isProven = true
            guard hasWritten, waitReplicas > 0 else { return hasWritten }
            hasReplicas = false
            try judgeReplicas()
            hasReplicas = true
            return true
        } catch {
            // Too few replicas: the connection is as good as any.
            if error.isOfWriting { throw error }
            drop(connection, error)
            // Redis was restarted since the last command: a new connection begins with a look of its own.
            guard mayTryAgain else { throw failure }
            nextAttempt = 0
            _ = try connected()
            return true
        }
    }

    /// Whether enough replicas have what was written last.
    private func judgeReplicas() throws(StoreError) {
        var nothing = RedisPipeline()
        nothing.command("PING")
        _ = try run(nothing, isWrite: true)
    }

    /// Returns whether it has written something.
    private func lookAtClock(_ connection: RedisConnection, writes: Bool) throws(StoreError) -> Bool {
        for _ in 0..<Bounds.clockAttempts {
            if let hasWritten = try agreeOnClock(connection, writes) { return hasWritten }
        }
        throw StoreError("\(address): no agreement on the clock")
    }

    /// Writes at least when something has changed, or when nobody has for a while. Nil when it is to be looked at again, else
    /// whether it has written.
    private func agreeOnClock(_ connection: RedisConnection, _ writes: Bool) throws(StoreError) -> Bool? {
        var look = RedisPipeline()
        look.command("TIME")
        look.command("GET", 1) { $0.add(clockKey) }
        let before = machine.boot()
        let replies = try connection.run(look)
        roundTrips += 1
        let (after, wall) = machine.atOnce()
        // Stopped meanwhile: what Redis said then says little.
        guard after - before <= ClockBounds.step else { return nil }
        let raw = try time(replies[0])
        let known = try replies[1].value().map { Array($0) } ?? []
        var agreed =
            known.withUnsafeBufferPointer { String(validUTF8: $0) }.flatMap { SharedClock($0) } ?? SharedClock()
        let found = agreed
        let expected = clock.now(nearest: raw + agreed.correction, between: before, after)
        let now = agreed.look(raw: raw, expected: expected, wall: wall)
        guard writes || agreed.isNews(since: found) else {
            shared = agreed
            clock.adopt(now, between: before, after)
            return false
        }
        var write = RedisPipeline(hashes: hashes)
        write.script(.clock, keys: 1, arguments: 2) {
            $0.add(clockKey)
            $0.add(known)
            $0.add(agreed.text)
        }
        roundTrips += 1
        let reply = try connection.run(write)[0]
        if reply.isMissingScript { try loadScripts() }
        // When somebody else looked at the same moment, what that one made of it counts.
        guard try reply.isMissingScript ? false : reply.number() == 1 else { return nil }
        shared = agreed
        clock.adopt(now, between: before, after)
        return true
    }

    private func time(_ reply: RedisReply) throws(StoreError) -> Milliseconds {
        guard let parts = reply.array, parts.count == 2,
            let seconds = parts[0].bytes.flatMap(StoredNumber.time),
            let microseconds = parts[1].bytes?.text.flatMap(Int64.init),
            (0..<1_000_000).contains(microseconds), seconds <= StoredNumber.times.upperBound / 1000
        else { throw StoreError("\(address): no time: \(reply.unexpected)") }
        return seconds * 1000 + microseconds / 1000
    }

    private func readDurability() throws(StoreError) {
        guard let connection else { throw failure }
        var pipeline = RedisPipeline()
        for name in ["appendonly", "appendfsync"] {
            pipeline.command("CONFIG", 2) {
                $0.add("GET")
                $0.add(name)
            }
        }
        let replies = try connection.run(pipeline)
        guard let isOn = replies[0].array?.last?.bytes?.text, let sync = replies[1].array?.last?.bytes?.text else {
            return
        }
        durability = isOn == "yes" ? sync : "appendonly=no"
    }
}

private func monotonicMilliseconds() -> Int64 { milliseconds(of: CLOCK_MONOTONIC) }
