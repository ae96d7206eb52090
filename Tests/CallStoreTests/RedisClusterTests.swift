import CallCore
import CallStore
import Glibc
import SignalingProtocol
import Testing

@testable import RedisStore

/// The rules of Redis Cluster: slots, maps, redirections.
@Suite struct RedisClusterTests {
    /// The values are the results of `CLUSTER KEYSLOT`.
    @Test(arguments: [
        ("123456789", 12739), ("bellwire:{p0}:due", RedisSlot(ofKey: Array("p0".utf8)).number), ("foo{}{bar}", 8363),
        ("foo{{bar}}zap", 4015), ("foo{bar}{zap}", 5061), ("{bar", 4015), ("", 0),
    ])
    func aKeyHasTheSlotOfItsTag(key: String, slot: Int) throws {
        #expect(RedisSlot(ofKey: Array(key.utf8)).number == slot)
        let server = try RedisClusterServers.shared.get().servers[0]
        #expect(try server.cluster("KEYSLOT", key).integer == Int64(slot))
    }

    @Test func aCommandGoesByItsFirstKey() throws {
        var pipeline = RedisPipeline(hashes: [.note: Array("0123456789012345678901234567890123456789".utf8)])
        pipeline.command("ZADD", 3) { for word in ["bellwire:{p17}:due", "1", "x"] { $0.add(word) } }
        pipeline.script(.note, keys: 1, arguments: 1) { for word in ["bellwire:{u:ä}:calls", "{p1}"] { $0.add(word) } }
        let slots = pipeline.commands.map { pipeline.slot(of: $0) }
        #expect(slots == ["p17", "u:ä"].map { RedisSlot(ofKey: Array($0.utf8)) })
    }

    @Test func theServersOfTheMapAreAllMasters() throws {
        let cluster = try RedisClusterServers.shared.get()
        let server = RedisAddress.Server(host: "other", port: 1)
        var map = try RedisClusterMap(cluster.servers[0].cluster("SLOTS"), of: server)
        #expect(map.uncovered == 0)
        #expect(Set(map.masters.map(\.port)) == Set(cluster.servers.map(\.address.port)))
        let slot = RedisSlot(5)!
        #expect(map.master(of: slot)?.port == cluster.servers[0].address.port)
        try map.move(slot, to: server)
        #expect(map.master(of: slot) == server && map.serves(server) && map.masters.count == 4)
        #expect(try map.master(of: #require(RedisSlot(6)))?.port == cluster.servers[0].address.port)
    }

    @Test func aStageWaitsForTheStageBefore() throws {
        let address = try RedisClusterServers.shared.get().address
        let session = RedisSession(address, waitReplicas: 0, clockKey: Array("stages:clock".utf8))
        let link = try RedisCluster(address, known: [], timeout: 1_000) { _ throws(StoreError) in }
        defer { withExtendedLifetime(session) {} }
        // An error in a stage ends the pipeline: the next stage is not sent.
        var pipeline = RedisPipeline()
        pipeline.command("SET", 2) { for word in ["stages:{a}", "1"] { $0.add(word) } }
        pipeline.beginStage()
        pipeline.command("LPUSH", 2) { for word in ["stages:{a}", "1"] { $0.add(word) } }
        pipeline.command("SET", 2) { for word in ["stages:{b}", "1"] { $0.add(word) } }
        pipeline.beginStage()
        pipeline.command("SET", 2) { for word in ["stages:{c}", "1"] { $0.add(word) } }
        #expect(throws: StoreError.self) { _ = try link.run(pipeline) }
        #expect(link.failure == nil)
        var reading = RedisPipeline()
        for name in ["a", "b", "c"] { reading.command("GET", 1) { $0.add("stages:{\(name)}") } }
        let values = try link.run(reading).map { try $0.value()?.text }
        #expect(values == ["1", "1", nil])
        for name in ["a", "b"] {
            var deleting = RedisPipeline()
            deleting.command("DEL", 1) { $0.add("stages:{\(name)}") }
            _ = try link.run(deleting)
        }
    }

    /// Commands are sent again while the cluster is down, for up to 400 ms. Then the link fails.
    @Test func aClusterThatIsDownForAMomentFailsNothing() throws {
        let cluster = try RedisClusterServers()
        let link = try RedisCluster(cluster.address, known: [], timeout: 1_000) { _ throws(StoreError) in }
        let slot = RedisSlot(ofKey: Array("{a}".utf8))
        let master = cluster.servers[cluster.servers.count * slot.number / RedisSlot.count]
        let refusals = { () throws in
            var question = RedisPipeline()
            question.command("INFO", 1) { $0.add("errorstats") }
            let lines = try RedisConnection(master.address, timeout: 1_000).run(question)[0].value()?.text ?? ""
            return lines.firstMatch(of: /errorstat_CLUSTERDOWN:count=(\d+)/).flatMap { Int($0.1) } ?? 0
        }
        var writing = RedisPipeline()
        writing.command("INCR", 1) { $0.add("down:{a}") }

        try master.cluster("DELSLOTS", String(slot.number))
        let exchange = try link.send(writing)
        while exchange.result == nil, try refusals() < 3 { link.receive() }
        try master.cluster("ADDSLOTS", String(slot.number))
        let end = ContinuousClock.now + .seconds(5)
        while exchange.result == nil, ContinuousClock.now < end { link.receive() }
        #expect(try exchange.result?.get().first?.integer == 1)

        try master.cluster("DELSLOTS", String(slot.number))
        let begin = ContinuousClock.now
        let error = #expect(throws: StoreError.self) { _ = try link.run(writing) }
        #expect(error?.code == .unreachable && error?.description.contains("CLUSTERDOWN") ?? false)
        #expect(link.failure != nil && ContinuousClock.now - begin >= .milliseconds(390))
    }

    static let checkedScripts: [RedisScript] = [
        .commit, .online, .offline, .renew, .register, .unregister, .endRegistration,
    ]

    /// The time comes from the server of {p0}; another server compares the time with its own clock.
    @Test(arguments: checkedScripts)
    func aScriptRefusesTheTimeOfAnotherClock(script: RedisScript) throws {
        let server = try RedisServer.shared.get()
        let connection = try RedisConnection(server.address, timeout: 1_000)
        func reply(at difference: Milliseconds?) throws -> RedisReply {
            var time = RedisPipeline()
            time.command("TIME")
            let now = try connection.run(time)[0].redisTime()
            var evaluation = RedisPipeline()
            evaluation.command("EVAL", 4) {
                $0.add(script.source)
                $0.add("1")
                $0.add("clocks:{a}")
                $0.add(difference.map { String(now + $0) } ?? "")
            }
            return try connection.run(evaluation)[0]
        }
        for difference: Milliseconds in [-740, 640] {
            let error = try reply(at: difference).clockError
            let told = difference < 0 ? "differs by 7" : "differs by -"
            #expect(error?.contains(told) ?? false, "\(error ?? "no error")")
        }
        for difference: Milliseconds? in [-300, 300, nil] {
            #expect(try reply(at: difference).clockError == nil)
        }
    }

    /// Returns the reply that a server sends as `text`.
    private func reply(_ text: String) throws -> RedisReply {
        var ends: [Int32] = [-1, -1]
        precondition(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0, "no socket pair: \(errno)")
        defer { close(ends[1]) }
        let bytes = Array("\(text)\r\n".utf8)
        _ = bytes.withUnsafeBytes { send(ends[1], $0.baseAddress, $0.count, 0) }
        var pipeline = RedisPipeline()
        pipeline.command("PING")
        return try RedisConnection(descriptor: ends[0]).run(pipeline)[0]
    }

    private static let other = RedisAddress.Server(host: "10.0.0.2", port: 6380)

    @Test(arguments: [
        ("-MOVED 3999 10.0.0.2:6380", RedisRedirection.moved(RedisSlot(3999)!, other)),
        ("-MOVED 0 :6380", .moved(RedisSlot(0)!, .init(host: "asked", port: 6380))),
        ("-MOVED 5 fd00::2:6380", .moved(RedisSlot(5)!, .init(host: "fd00::2", port: 6380))),
        ("-ASK 3999 10.0.0.2:6380", .ask(other)),
        ("-TRYAGAIN Multiple keys request during rehashing of slot", .tryAgain),
        ("-NOSCRIPT No matching script. Please use EVAL.", .loadScripts),
        ("-MOVED 16384 10.0.0.2:6380", nil), ("-MOVED -1 10.0.0.2:6380", nil), ("-MOVED 5 10.0.0.2", nil),
        ("-MOVED 5 10.0.0.2:0", nil), ("-MOVED 5 10.0.0.2:65536", nil), ("-MOVED", nil), ("-ASK 5", nil),
        ("-CLUSTERDOWN Hash slot not served", .clusterDown), ("-CLUSTERDOWN The cluster is down", .clusterDown),
        ("+MOVED 5 10.0.0.2:6380", nil), ("$-1", nil),
    ])
    func aRedirectionNamesItsServer(text: String, redirection: RedisRedirection?) throws {
        #expect(try RedisRedirection(reply(text), of: .init(host: "asked", port: 6379)) == redirection)
    }

    @Test(arguments: [
        ("-READONLY You can't write against a read only replica.", true),
        ("-ERR READONLY You can't write against a read only replica. script: 0123, on @user_script:7.", true),
        ("-LOADING Redis is loading the dataset in memory", true), ("-MASTERDOWN Link with MASTER is down", true),
        ("-NOREPLICAS Not enough good replicas to write.", true), ("-MISCONF Errors writing to the AOF file", true),
        ("-OOM command not allowed when used memory > 'maxmemory'.", true),
        ("-CLUSTERDOWN The cluster is down", false), ("-ERR unknown command", false), ("+READONLY", false),
    ])
    func aServerThatTakesNoWritesSaysSo(text: String, refuses: Bool) throws {
        #expect(try reply(text).refusesWrites == refuses)
    }
}
