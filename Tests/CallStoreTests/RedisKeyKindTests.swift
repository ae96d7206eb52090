import CallCore
import SignalingProtocol
import Testing

@testable import RedisStore

/// How a backup tells keys apart (docs/decisions/0035).
struct RedisKeyKindTests {
    private static let call = RecordID.call(CallID("c1")!)
    private static let message = RecordID.message(MessageID("m1")!, to: UserID("bob:}:due")!)

    @Test(arguments: [
        ("{p17}:call:c1", RedisKeyKind.record(call)),
        ("{p17}:message:m1:bob:}:due", .record(message)),
        ("{p3}:outbox:app:line:c1", .line(call)),
        ("{p3}:outbox:line:line:c1", .line(call)),
        ("{p3}:outbox:rooms:line:line::m1:bob:}:due", .line(message)),
        ("{p3}:outbox:app:due", .skipped),
        ("{p3}:outbox:app:texts", .skipped),
        ("{p3}:outbox:rooms:line:dead", .skipped),
        ("{p3}:due", .skipped),
        ("{p3}:push:due", .skipped),
        ("{p3}:push:holders", .skipped),
        ("{p3}:worker:w", .skipped),
        ("{p3}:trace:c1", .value),
        ("{p3}:omitted:c1", .value),
        ("clock", .skipped),
        ("deployment", .skipped),
        ("brokers", .skipped),
        ("push:processes", .skipped),
        ("push", .value),
        ("endpoints", .value),
        ("devices:eu", .lateValue),
        ("token:{abc}", .lateValue),
        // A user's id may look like another key.
        ("{u:alice}:presence", .value),
        ("{u:{p3}:call:c1}:calls", .value),
        ("{pair:3:bob:}:due}:up", .value),
    ])
    func eachKeyHasAKind(_ key: String, _ kind: RedisKeyKind) {
        #expect(RedisKeyKind(Array(key.utf8)) == kind)
    }

    @Test func aKeyThatIsNoTextIsKept() {
        #expect(RedisKeyKind([0xFF, 0x00]) == .value)
    }
}
