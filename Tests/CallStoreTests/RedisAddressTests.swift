@testable import RedisStore
import Testing

/// Addresses of Redis (docs/redis-failover.md).
struct RedisAddressTests {
    @Test func sentinelsNameAMaster() throws {
        let address = try #require(
            RedisAddress(url: "redis-sentinel://app:s%40cret@a.example:26380,b.example,[::1]:7/calls.1/3"))
        let sentinels = try #require(address.sentinels)
        #expect(sentinels.servers.map(\.host) == ["a.example", "b.example", "::1"])
        #expect(sentinels.servers.map(\.port) == [26380, 26379, 7] && sentinels.master == "calls.1")
        #expect(address.username == "app" && address.password == "s@cret" && address.database == 3)
        #expect(address.description == "redis-sentinel://a.example:26380,b.example:26379,[::1]:7/calls.1/3")
        #expect(RedisAddress.mistake(in: "redis-sentinel://a/m") == nil)
    }

    @Test func aServerHasNoSentinels() {
        let address = RedisAddress(url: "redis://:p@host:1/2")
        #expect(address?.sentinels == nil && address?.description == "redis://host:1/2")
        #expect(RedisAddress.mistake(in: "redis://host:1/2") == nil)
    }

    @Test func someServersNameACluster() throws {
        let address = try #require(RedisAddress(url: "rediss-cluster://app:s%40cret@a.example:7,[::1]"))
        #expect(address.cluster?.map(\.port) == [7, 6379] && address.isSecure)
        #expect(address.description == "rediss-cluster://a.example:7,[::1]:6379")
        let server = address.server(.init(host: "b", port: 9))
        #expect(server.description == "rediss://b:9/0" && server.password == "s@cret" && server.username == "app")
    }

    @Test(arguments: [
        ("redis-sentinel://a,b", "expected host:port,host:port/MASTER, perhaps with /db"),
        ("redis-sentinel://a/m/0/1", "expected host:port,host:port/MASTER, perhaps with /db"),
        ("redis-sentinel://a,,b/m", "an empty entry in the list of sentinels"),
        ("redis-sentinel:///m", "an empty entry in the list of sentinels"),
        ("redis-sentinel://u:secret@a,b:0/m", "the entry 2 of the list of sentinels is not host:port"),
        ("redis-sentinel://a:26379,a/m", "a:26379 stands twice"),
        ("redis-sentinel://a/", "expected the master's name, 1 to 64 of A-Z a-z 0-9 . _ -, behind the sentinels"),
        ("redis-sentinel://a/m m", "expected the master's name, 1 to 64 of A-Z a-z 0-9 . _ -, behind the sentinels"),
        ("redis-sentinel://a/m/x", "the database is not a number from 0 to 65535"),
        ("redis-sentinel://a/m/65536", "the database is not a number from 0 to 65535"),
        ("redis-cluster://a,b/0", "a Redis Cluster has no numbered databases: leave out the /db"),
        ("redis-cluster://a/", "a Redis Cluster has no numbered databases: leave out the /db"),
        ("rediss-cluster://u:secret@a,,b", "an empty entry in the list of servers"),
        ("redis-cluster://a,a:6379", "a:6379 stands twice"),
    ])
    func aMistakeIsNamedWithoutThePassword(url: String, mistake: String) {
        #expect(RedisAddress(url: url) == nil)
        #expect(RedisAddress.mistake(in: url) == mistake)
    }

    @Test func soManySentinelsAtMost() {
        let hosts = (1...33).map { "h\($0)" }
        #expect(RedisAddress(url: "redis-sentinel://\(hosts.prefix(32).joined(separator: ","))/m") != nil)
        let more = "redis-sentinel://\(hosts.joined(separator: ","))/m"
        #expect(RedisAddress.mistake(in: more) == "more than 32 sentinels")
    }
}
