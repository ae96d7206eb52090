import FoundationEssentials
import FuzzEntries
import Glibc
import SignalingProtocol
import Testing

@testable import CallStore
@testable import RedisStore
@testable import SQLiteStore

/// A store belongs to a single deployment.
@Suite struct DeploymentTests {
    private let file = TemporaryFile()
    private let prefix = "test-\(UUID().uuidString)"

    /// Opens the only store of this test in the name of `root`.
    private func open(_ kind: StoreKind, _ root: String?, takesOver: Bool = false) throws -> BlockingStore {
        let stamp = root.map { DeploymentStamp(topicRoot: $0, takesOver: takesOver) }
        switch kind {
        case .memory: throw StoreError(.unreachable, "nobody shares it")
        case .sqlite: return BlockingStore(try SQLiteCallStore(path: file.path, stamp: stamp))
        case .redis, .redisCluster:
            let address = try kind.redisAddress()
            let store = RedisCallStore(address: address, prefix: prefix, stamp: stamp)
            try store.refuseForeign()
            return BlockingStore(store)
        }
    }

    @Test(arguments: [StoreKind.sqlite, .redis, .redisCluster])
    func aStoreBelongsToWhoOpensItFirst(_ kind: StoreKind) throws {
        // A process that opens the store without a name stamps nothing.
        try StoreUnderTest(open(kind, nil).store) { _ in }.write(call("a"))
        for _ in 0..<2 { #expect(try open(kind, "first").load([CallID("a")!])[0] != nil) }
        let refusal = #expect(throws: StoreError.self) { try open(kind, "second") }
        #expect(refusal?.code == .foreign)
        for part in ["\"first\"", "\"second\"", "--take-over-store"] {
            #expect(refusal?.description.contains(part) == true)
        }
        // The refused process has changed nothing.
        #expect(try open(kind, "first").load([CallID("a")!])[0] != nil)
    }

    /// The two spellings are two topics.
    @Test(arguments: [StoreKind.sqlite, .redis, .redisCluster])
    func twoSpellingsOfOneLetterAreTwoDeployments(_ kind: StoreKind) throws {
        _ = try open(kind, "caf\u{E9}")
        #expect(throws: StoreError.self) { try open(kind, "cafe\u{301}") }
    }

    @Test(arguments: [StoreKind.sqlite, .redis, .redisCluster])
    func aStoreIsTakenOverByWhoSaysSo(_ kind: StoreKind) throws {
        _ = try open(kind, "first")
        #expect(throws: Never.self) { try open(kind, "second", takesOver: true) }
        #expect(throws: StoreError.self) { try open(kind, "first") }
        #expect(throws: Never.self) { try open(kind, "second") }
    }

    /// Two deployments that both demand the takeover must not take the store from each other with each connection.
    @Test func aStoreIsTakenOverOnlyOnce() throws {
        let address = try RedisServer.shared.get().address
        let connection = try RedisConnection(address, timeout: 1000)
        var (one, other) = (deployment("first"), deployment("second"))
        try one.check(connection, address)
        try other.check(connection, address)
        #expect(throws: StoreError.self) { try one.check(connection, address) }
        #expect(throws: Never.self) { try other.check(connection, address) }
    }

    /// When a connection breaks in the middle of the takeover, the next connection takes the store over.
    @Test func aTakeoverThatWasNotWrittenIsTriedAgain() throws {
        let address = try RedisServer.shared.get().address
        let connection = try RedisConnection(address, timeout: 1000)
        var first = deployment("first")
        try first.check(connection, address)
        var ends: [Int32] = [-1, -1]
        #expect(socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0)
        let found = "$5\r\nfirst\r\n"
        #expect(send(ends[1], found, found.utf8.count, 0) == found.utf8.count)
        shutdown(ends[1], Int32(SHUT_WR))
        var second = deployment("second")
        let broken = try RedisConnection(descriptor: ends[0])
        #expect(throws: StoreError.self) { try second.check(broken, address) }
        close(ends[1])
        #expect(throws: Never.self) { try second.check(connection, address) }
    }

    private func deployment(_ root: String) -> RedisDeployment {
        RedisDeployment(DeploymentStamp(topicRoot: root, takesOver: true), prefix: prefix)
    }

    /// A restart with an old file, or another server at the address, changes the stamp.
    @Test func theStampIsLookedAtWithEachConnection() throws {
        let server = try RedisServer()
        let store = BlockingStore(
            RedisCallStore(address: server.address, prefix: prefix, stamp: DeploymentStamp(topicRoot: "first")))
        _ = try store.load([CallID("a")!])
        try run(server, "SET", "\(prefix):deployment", "second")
        try run(server, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        let refusal = #expect(throws: StoreError.self) { _ = try store.load([CallID("a")!]) }
        #expect(refusal?.code == .foreign)
    }

    // MARK: The format

    /// The entries are from builds before 0.2.0, and from a later version.
    @Test(arguments: ["0:1790000000000:0:0:0", "", "2 0:1790000000000:0:0:0", "99 whatever comes"])
    func aRedisInAnotherFormatIsRefusedByNameAndLeftAlone(entry: String) throws {
        let server = try RedisServer()
        try run(server, "SET", "\(prefix):clock", entry)
        try run(server, "HSET", "\(prefix):{p3}:call:a", "v", "1", "r", "{}")
        let before = try contents(of: server)
        let store = RedisCallStore(
            address: server.address, prefix: prefix, stamp: DeploymentStamp(topicRoot: "root", takesOver: true))
        let refusal = #expect(throws: StoreError.self) { try store.refuseForeign() }
        #expect(refusal?.code == .foreign)
        let found = entry.split(separator: " ").first.flatMap { Int($0) }
        let reason = found.map { "it is in format \($0), of a later version" } ?? "it names no format"
        for part in ["\(server.address) cannot be used", reason, "format 1.", "redis://HOST/NUMBER", "--redis-prefix"] {
            #expect(refusal?.description.contains(part) == true, "\(part)")
        }
        #expect(try contents(of: server) == before)
    }

    /// The store would write records that the later version does not expect.
    @Test func whoServesARedisLearnsThatALaterVersionHasBegunWithIt() throws {
        let server = try RedisServer()
        let store = BlockingStore(RedisCallStore(address: server.address, prefix: prefix))
        _ = try store.load([CallID("a")!])
        try run(server, "SET", "\(prefix):clock", "2 0:1790000000000:0:0:0")
        for _ in 0..<2 {
            let looking = #expect(throws: StoreError.self) { try store.lookAtClock() }
            let loading = #expect(throws: StoreError.self) { try store.load([CallID("a")!]) }
            #expect(looking?.code == .foreign && loading?.code == .foreign)
        }
    }

    /// Redis is emptied while a store serves it: the new keys must not look like the keys of a build that wrote no
    /// format.
    @Test func aRedisThatIsEmptiedGetsItsFormatAgain() throws {
        let server = try RedisServer()
        let store = BlockingStore(RedisCallStore(address: server.address, prefix: prefix))
        _ = try store.load([CallID("a")!])
        try run(server, "FLUSHALL")
        try StoreUnderTest(store.store) { _ in }.write(call("a"))
        #expect(try store.lookAtClock())
        let other = BlockingStore(RedisCallStore(address: server.address, prefix: prefix))
        #expect(try other.load([CallID("a")!])[0] != nil)
    }

    private func contents(of server: RedisServer) throws -> [String: String] {
        let script = """
            local all = {}
            for _, key in ipairs(redis.call('KEYS', '*')) do
              all[#all + 1] = key
              all[#all + 1] = redis.call('DUMP', key) .. redis.call('PTTL', key)
            end
            return all
            """
        var pipeline = RedisPipeline()
        pipeline.command("EVAL", 2) {
            $0.add(script)
            $0.add("0")
        }
        var contents: [String: String] = [:]
        for (key, value) in try RedisConnection(server.address, timeout: 1000).run(pipeline)[0].pairs() {
            contents[String(decoding: key, as: UTF8.self)] = value.map { String($0) }.joined(separator: " ")
        }
        return contents
    }

    private func run(_ server: RedisServer, _ name: StaticString, _ words: String...) throws {
        var pipeline = RedisPipeline()
        pipeline.command(name, words.count) { for word in words { $0.add(word) } }
        if let error = try RedisConnection(server.address, timeout: 1000).run(pipeline)[0].error {
            throw StoreError(.failed, error)
        }
    }
}
