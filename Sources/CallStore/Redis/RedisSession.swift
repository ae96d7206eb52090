import Glibc

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
    }

    let address: RedisAddress
    /// How many replicas must have each write before it counts; 0 for none.
    private let waitReplicas: Int
    /// Another way to a server than by the address.
    private let connect: (() throws(StoreError) -> RedisConnection)?
    private var connection: RedisConnection?
    private var hashes: [RedisScript: String] = [:]
    private var nextAttempt: Int64 = 0
    private var backoff = Bounds.backoff.lowerBound
    private var failure = StoreError("not connected yet")
    /// The difference between Redis's clock and this machine's, in milliseconds.
    private(set) var clockOffset: Int64 = 0
    private var hasClock = false
    /// How often it was waited for.
    private(set) var roundTrips = 0
    /// `always`, `everysec` or `no` as Redis's `appendfsync` says, or "appendonly=no". Nil while that is not known, as
    /// with a user who may not ask.
    private(set) var durability: String?

    init(_ address: RedisAddress, waitReplicas: Int, connect: (() throws(StoreError) -> RedisConnection)? = nil) {
        self.address = address
        self.waitReplicas = waitReplicas
        self.connect = connect
    }

    /// A script's call within a pipeline.
    struct ScriptCall {
        let script: RedisScript
        var keys: [[UInt8]]
        var arguments: [[UInt8]] = []
    }

    enum Step {
        /// May be made twice.
        case command(RedisCommand)
        case script(ScriptCall)

        fileprivate var isCommand: Bool {
            if case .command = self { true } else { false }
        }
    }

    /// One round trip. With `isWrite` it returns only when enough replicas have it.
    func run(_ steps: [Step], isWrite: Bool = false) throws(StoreError) -> [RedisReply] {
        guard !steps.isEmpty else { return [] }
        var replies = try attempt(steps, isWrite: isWrite)
        if let first = replies.firstIndex(where: \.isMissingScript) {
            // Somebody emptied the script cache. Those calls did nothing, so they may be made again; what was read after
            // them is read again.
            try loadScripts()
            let again = steps.indices.filter { replies[$0].isMissingScript || $0 > first && steps[$0].isCommand }
            for (index, reply) in zip(again, try attempt(again.map { steps[$0] }, isWrite: isWrite)) {
                replies[index] = reply
            }
        }
        for case .error(let message) in replies { throw StoreError("\(address): \(message)") }
        return replies
    }

    func run(_ command: RedisCommand) throws(StoreError) -> RedisReply { try run([.command(command)])[0] }

    private func attempt(_ steps: [Step], isWrite: Bool) throws(StoreError) -> [RedisReply] {
        let isFresh = connection == nil
        let connection = try connected()
        do throws(StoreError) {
            return try exchange(steps, isWrite: isWrite, connection)
        } catch {
            drop(error)
            // Redis was restarted since the last command. All steps may be repeated: a commit that went through after
            // all finds its own work, and the machine knows the requests that it has served.
            guard !isFresh, connection.isClosedByPeer else { throw failure }
            nextAttempt = 0
        }
        let fresh = try connected()
        do throws(StoreError) {
            return try exchange(steps, isWrite: isWrite, fresh)
        } catch {
            drop(error)
            throw failure
        }
    }

    private func exchange(
        _ steps: [Step], isWrite: Bool, _ connection: RedisConnection
    ) throws(StoreError) -> [RedisReply] {
        roundTrips += 1
        var commands = steps.map(command)
        guard isWrite, waitReplicas > 0 else { return try connection.pipeline(commands) }
        commands.append(RedisCommand("WAIT", String(waitReplicas), String(Bounds.timeout / 2)))
        var replies = try connection.pipeline(commands)
        let reached = try replies.removeLast().number()
        guard reached >= waitReplicas else {
            throw StoreError("only \(reached) of \(waitReplicas) replicas have the write")
        }
        return replies
    }

    private func command(_ step: Step) -> RedisCommand {
        switch step {
        case .command(let command): return command
        case .script(let call):
            var command = RedisCommand("EVALSHA", hashes[call.script] ?? "", String(call.keys.count))
            call.keys.forEach { command.append($0) }
            call.arguments.forEach { command.append($0) }
            return command
        }
    }

    private func connected() throws(StoreError) -> RedisConnection {
        if let connection { return connection }
        guard monotonicMilliseconds() >= nextAttempt else { throw failure }
        do throws(StoreError) {
            let connection =
                if let connect { try connect() } else { try RedisConnection(address, timeout: Bounds.timeout) }
            self.connection = connection
            try loadScripts()
            try readClock()
            try readDurability()
            backoff = Bounds.backoff.lowerBound
            return connection
        } catch {
            drop(error)
            throw failure
        }
    }

    private func drop(_ error: StoreError) {
        connection = nil
        failure = error
        nextAttempt = monotonicMilliseconds() + Int64.random(in: backoff / 2...backoff)
        backoff = min(backoff * 2, Bounds.backoff.upperBound)
    }

    private func loadScripts() throws(StoreError) {
        guard let connection else { throw failure }
        let scripts = RedisScript.allCases
        let replies = try connection.pipeline(scripts.map { RedisCommand("SCRIPT", "LOAD", $0.source) })
        for (script, reply) in zip(scripts, replies) {
            guard let hash = reply.text else {
                throw StoreError("\(address): script \(script) cannot be loaded: \(reply.unexpected)")
            }
            hashes[script] = hash
        }
    }

    /// The clock's difference, asked for before the first use. Later it is learned with every commit.
    func knownClockOffset() throws(StoreError) -> Int64 {
        if !hasClock { _ = try connected() }
        return clockOffset
    }

    private func readDurability() throws(StoreError) {
        guard let connection else { throw failure }
        let replies = try connection.pipeline([
            RedisCommand("CONFIG", "GET", "appendonly"), RedisCommand("CONFIG", "GET", "appendfsync"),
        ])
        guard let isOn = replies[0].array?.last?.text, let sync = replies[1].array?.last?.text else { return }
        durability = isOn == "yes" ? sync : "appendonly=no"
    }

    private func readClock() throws(StoreError) {
        guard let connection else { throw failure }
        let before = wallMilliseconds()
        let reply = try connection.pipeline([RedisCommand("TIME")])[0]
        guard let parts = reply.array, parts.count == 2,
            let seconds = parts[0].bytes.flatMap(StoredNumber.time),
            let microseconds = parts[1].text.flatMap(Int64.init),
            (0..<1_000_000).contains(microseconds)
        else { throw StoreError("\(address): no time: \(reply.unexpected)") }
        // The middle of the round trip is the best guess of when Redis looked at its clock.
        try learnClock(seconds * 1000 + microseconds / 1000, between: before, wallMilliseconds())
    }

    /// Redis's clock stood at `time` at some moment between the two of this machine's.
    func learnClock(_ time: Int64, between before: Int64, _ after: Int64) throws(StoreError) {
        guard StoredNumber.times.contains(time) else { throw StoreError("\(address): no time: \(time)") }
        hasClock = true
        clockOffset = time - (before + after) / 2
    }
}

extension RedisReply {
    fileprivate var isMissingScript: Bool {
        if case .error(let message) = self { message.hasPrefix("NOSCRIPT") } else { false }
    }
}

func wallMilliseconds() -> Int64 { milliseconds(of: CLOCK_REALTIME) }
private func monotonicMilliseconds() -> Int64 { milliseconds(of: CLOCK_MONOTONIC) }

private func milliseconds(of clock: clockid_t) -> Int64 {
    var time = timespec()
    clock_gettime(clock, &time)
    return Int64(time.tv_sec) * 1000 + Int64(time.tv_nsec) / 1_000_000
}
