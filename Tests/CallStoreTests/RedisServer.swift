import CProcess
import CallCore
import FoundationEssentials
import FuzzEntries
import Glibc
import SignalingProtocol

@testable import CallStore
@testable import RedisStore

/// A Redis of the tests' own on loopback, shared by all tests: each store has keys of its own.
final class RedisServer: Sendable {
    let address: RedisAddress
    let pid: pid_t

    /// The server starts with the first test that needs a Redis.
    static let shared = Result { try RedisServer() }

    init(arguments: [String] = []) throws {
        let port = try Self.freePort()
        address = RedisAddress(host: "127.0.0.1", port: port)
        let words =
            [
                "/usr/bin/redis-server", "--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly",
                "no",
                "--dir", FileManager.default.temporaryDirectory.path(),
            ] + arguments
        pid = Self.spawn(words)
        try waitUntilAnswering()
    }

    /// The kernel ends the child with the thread that made it, so that thread has to last as long as the process.
    private static func spawn(_ words: [String]) -> pid_t {
        final class Request: @unchecked Sendable {
            // The thread writes this field before it signals the semaphore; the caller reads the field afterwards.
            var pid: pid_t = -1
            let words: [String]
            var done = sem_t()
            init(_ words: [String]) {
                self.words = words
                sem_init(&done, 0, 0)
            }
        }
        let request = Request(words)
        var thread = pthread_t()
        pthread_create(
            &thread, nil,
            { context in
                let request = Unmanaged<Request>.fromOpaque(context!).takeUnretainedValue()
                let arguments: [UnsafeMutablePointer<CChar>?] = request.words.map { strdup($0) } + [nil]
                let log = open("/dev/null", O_WRONLY)
                request.pid = bellwire_spawn_bound_child(request.words[0], arguments, log)
                sem_post(&request.done)
                while true { pause() }
            }, Unmanaged.passRetained(request).toOpaque())
        sem_wait(&request.done)
        return request.pid
    }

    private func waitUntilAnswering() throws {
        let deadline = ContinuousClock.now + .seconds(10)
        while true {
            do {
                var pipeline = RedisPipeline()
                pipeline.command("PING")
                _ = try RedisConnection(address, timeout: 1000).run(pipeline)
                return
            } catch {
                guard ContinuousClock.now < deadline else { throw error }
                sched_yield()
            }
        }
    }

    /// Runs a `CLUSTER` command and returns its reply.
    @discardableResult
    func cluster(_ words: String...) throws -> RedisReply {
        var pipeline = RedisPipeline()
        pipeline.command("CLUSTER", words.count) { for word in words { $0.add(word) } }
        let reply = try RedisConnection(address, timeout: 1000).run(pipeline)[0]
        if let message = reply.error { throw StoreError(.failed, message) }
        return reply
    }

    /// Returns a port below the ports that the kernel gives to outgoing connections, which could take the port before
    /// the server does.
    static func freePort() throws -> Int {
        for _ in 0..<1_000 {
            let port = Int.random(in: 10_000..<30_000)
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            defer { close(descriptor) }
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = UInt16(port).bigEndian
            address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
            let isBound = withUnsafePointer(to: &address) { pointer in
                pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size)) == 0
                }
            }
            if isBound { return port }
        }
        throw StoreError(.unreachable, "no free port")
    }

    /// Shifts all times of the store with this prefix back by `duration`, as if this time had passed.
    func shiftTimes(by duration: Int64, prefix: String) throws {
        let script = """
            local by = tonumber(ARGV[2])
            for _, key in ipairs(redis.call('KEYS', ARGV[1] .. ':*')) do
              local life = redis.call('PTTL', key)
              local kind = redis.call('TYPE', key).ok
              if kind == 'hash' and string.sub(key, -9) == ':presence' then
                local entries = redis.call('HGETALL', key)
                for i = 1, #entries, 2 do
                  local online, since, seen, session = string.match(entries[i + 1], '^(%d):(%d+):(%d+):(.*)$')
                  redis.call('HSET', key, entries[i], string.format('%s:%.0f:%.0f:%s', online, since - by, seen - by, session))
                end
              elseif kind == 'hash' and string.sub(key, -14) == ':registrations' then
                local entries = redis.call('HGETALL', key)
                for i = 1, #entries, 2 do
                  local since, rest = string.match(entries[i + 1], '^(%d+)(:.*)$')
                  redis.call('HSET', key, entries[i], string.format('%.0f', since - by) .. rest)
                end
              elseif kind == 'hash' and string.find(key, ':token:{', 1, true) then
                local entries = redis.call('HGETALL', key)
                for i = 1, #entries, 2 do
                  if entries[i] ~= 'owner' then
                    redis.call('HSET', key, entries[i], string.format('%.0f', entries[i + 1] - by))
                  end
                end
              elseif kind == 'zset' and (string.sub(key, -5) == ':over' or string.sub(key, -4) == ':due'
                or string.sub(key, -7) == ':online'
                or string.find(key, ':pushes:', 1, true)) then
                for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do redis.call('ZINCRBY', key, -by, member) end
              end
              if life >= 0 then
                if life <= by then redis.call('DEL', key) else redis.call('PEXPIRE', key, life - by) end
              end
            end
            """
        var pipeline = RedisPipeline()
        pipeline.command("EVAL", 4) {
            for word in [script, "0", prefix, String(duration)] { $0.add(word) }
        }
        if let message = try RedisConnection(address, timeout: 1000).run(pipeline)[0].error {
            throw StoreError(.failed, message)
        }
    }

    /// Sends the command by which a coordinator gives up a claim, however late the command comes.
    func release(_ claim: Claim, prefix: String, callID: String, version: Int64) throws {
        let store = RedisCallStore(address: address, prefix: prefix)
        var pipeline = RedisPipeline()
        pipeline.command("EVAL", 5) {
            $0.add(RedisScript.release.source)
            $0.add("1")
            $0.add(store.key(claim))
            $0.add(callID)
            $0.add(version)
        }
        if let message = try RedisConnection(address, timeout: 1000).run(pipeline)[0].error {
            throw StoreError(.failed, message)
        }
    }
}
