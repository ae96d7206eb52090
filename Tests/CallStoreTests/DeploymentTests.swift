import FoundationEssentials
import FuzzEntries
import Glibc
import SignalingProtocol
import Testing

@testable import CallStore

/// A store belongs to one deployment.
@Suite struct DeploymentTests {
    private let file = TemporaryFile()
    private let prefix = "test-\(UUID().uuidString)"

    /// Opens the one store of this test in the name of `root`.
    private func open(_ kind: StoreKind, _ root: String?, takesOver: Bool = false) throws -> BlockingStore {
        let stamp = root.map { DeploymentStamp(topicRoot: $0, takesOver: takesOver) }
        switch kind {
        case .memory: throw StoreError(.unreachable, "nobody shares it")
        case .sqlite: return BlockingStore(try SQLiteCallStore(path: file.path, stamp: stamp))
        case .redis:
            let address = try RedisServer.shared.get().address
            let store = RedisCallStore(address: address, prefix: prefix, stamp: stamp)
            try store.refuseForeign()
            return BlockingStore(store)
        }
    }

    @Test(arguments: [StoreKind.sqlite, .redis])
    func aStoreBelongsToWhoOpensItFirst(_ kind: StoreKind) throws {
        // One of before there were stamps.
        try StoreUnderTest(open(kind, nil).store) { _ in }.write(call("a"))
        for _ in 0..<2 { #expect(try open(kind, "first").load([CallID("a")!])[0] != nil) }
        let refusal = #expect(throws: StoreError.self) { try open(kind, "second") }
        #expect(refusal?.code == .foreign)
        for part in ["\"first\"", "\"second\"", "--take-over-store"] {
            #expect(refusal?.description.contains(part) == true)
        }
        // What was refused has changed nothing.
        #expect(try open(kind, "first").load([CallID("a")!])[0] != nil)
    }

    /// They are two topics.
    @Test(arguments: [StoreKind.sqlite, .redis])
    func twoSpellingsOfOneLetterAreTwoDeployments(_ kind: StoreKind) throws {
        _ = try open(kind, "caf\u{E9}")
        #expect(throws: StoreError.self) { try open(kind, "cafe\u{301}") }
    }

    @Test(arguments: [StoreKind.sqlite, .redis])
    func aStoreIsTakenOverByWhoSaysSo(_ kind: StoreKind) throws {
        _ = try open(kind, "first")
        #expect(throws: Never.self) { try open(kind, "second", takesOver: true) }
        #expect(throws: StoreError.self) { try open(kind, "first") }
        #expect(throws: Never.self) { try open(kind, "second") }
    }

    /// Two deployments that both say so must not take the store from each other with each connection.
    @Test func aStoreIsTakenOverOnlyOnce() throws {
        let address = try RedisServer.shared.get().address
        let connection = try RedisConnection(address, timeout: 1000)
        var (one, other) = (deployment("first"), deployment("second"))
        try one.check(connection, address)
        try other.check(connection, address)
        #expect(throws: StoreError.self) { try one.check(connection, address) }
        #expect(throws: Never.self) { try other.check(connection, address) }
    }

    /// A connection that breaks in the middle leaves it to the next one.
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

    /// As a restart with an old file, or another server at the address.
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

    private func run(_ server: RedisServer, _ name: StaticString, _ words: String...) throws {
        var pipeline = RedisPipeline()
        pipeline.command(name, words.count) { for word in words { $0.add(word) } }
        if let error = try RedisConnection(server.address, timeout: 1000).run(pipeline)[0].error {
            throw StoreError(.failed, error)
        }
    }
}
