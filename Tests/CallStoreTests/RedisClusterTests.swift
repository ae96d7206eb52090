import CallCore
import CallStore
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
}
