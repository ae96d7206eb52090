import CallCore
import FoundationEssentials
import FuzzEntries
import SignalingProtocol
import Testing

@testable import CallStore
@testable import RedisStore
@testable import SQLiteStore

/// A store that remembers the records that it has read must never take a remembered record for the stored record.
struct RecordCacheTests {
    private let id = RecordID.call(CallID("a")!)

    private func commit(_ record: Record, over version: Int64, expiresAt: Milliseconds? = nil) -> Commit {
        Commit(id, record: record, expected: version, deadline: nil, expiresAt: expiresAt)
    }

    /// Two coordinators' handles of the same store.
    private func stores(_ kind: StoreKind) throws -> (BlockingStore, BlockingStore) {
        switch kind {
        case .memory: throw StoreError(.unreachable, "belongs to one process")
        case .sqlite:
            return (
                BlockingStore(try SQLiteCallStore(path: file.path)), BlockingStore(try SQLiteCallStore(path: file.path))
            )
        case .redis, .redisCluster:
            let address = try kind.redisAddress()
            let prefix = "test-\(UUID().uuidString)"
            return (
                BlockingStore(RedisCallStore(address: address, prefix: prefix)),
                BlockingStore(RedisCallStore(address: address, prefix: prefix))
            )
        }
    }

    private static let shared = [StoreKind.sqlite, .redis, .redisCluster]
    private let file = TemporaryFile()

    @Test(arguments: shared)
    func whatAnotherCoordinatorHasWrittenIsRead(kind: StoreKind) throws {
        let (here, there) = try stores(kind)
        _ = try here.commit([commit(.call(call("a")), over: 0)])
        _ = try there.commit([commit(.call(call("a", media: "video")), over: 1)])
        #expect(try here.load([id])[0]?.record == .call(call("a", media: "video")))
        #expect(try here.load([id])[0]?.version == 2)
    }

    /// The record is another record, though its id and version are the same.
    @Test(arguments: shared)
    func aRecordThatWasMadeAnewIsRead(kind: StoreKind) throws {
        let (here, there) = try stores(kind)
        let cancelled = Record.cancelled(by: alice, at: try here.now())
        _ = try here.commit([commit(cancelled, over: 0, expiresAt: here.now() + 1)])
        while try there.load([id])[0] != nil { _ = try there.clean(limit: 1) }
        #expect(try there.commit([commit(.call(call("a")), over: 0)]) == [.committed(version: 1)])
        #expect(try here.load([id])[0]?.record == .call(call("a")))
    }

    /// The store remembers a record that it encoded and did not write, and finds this record only where it is stored.
    @Test(arguments: shared)
    func aCommitThatLostIsNotTakenForStored(kind: StoreKind) throws {
        let (here, there) = try stores(kind)
        _ = try there.commit([commit(.call(call("a")), over: 0)])
        #expect(try here.commit([commit(.call(call("a", media: "video")), over: 0)]) == [.conflict])
        #expect(try here.load([id])[0]?.record == .call(call("a")))
    }

    /// A busy call must not make the cache forget the other calls.
    @Test func aRecordThatIsWrittenOftenTakesTheRoomOfItsLatestForm() {
        var cache = RecordCache()
        let other = cache.encode(.call(call("other")), .call(CallID("other")!)).count
        var written = 0
        var latest = 0
        while written < 4 * RecordCache.capacity {
            let media = String(repeating: "m", count: written % 1_000)
            latest = cache.encode(.call(call("a", media: media)), id).count
            written += latest
        }
        #expect(cache.bytes == other + latest)
    }

    @Test func noMoreThanTwiceItsCapacityIsRemembered() {
        var cache = RecordCache()
        var written = 0
        var number = 0
        while written < 4 * RecordCache.capacity {
            number += 1
            let call = call("c\(number)", media: String(repeating: "m", count: number % 1_000))
            written += cache.encode(.call(call), .call(call.callID)).count
        }
        #expect((RecordCache.capacity...2 * RecordCache.capacity).contains(cache.bytes))
    }
}
