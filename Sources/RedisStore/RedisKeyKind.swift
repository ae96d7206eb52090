import CallCore
import SignalingProtocol

/// The way in which a key of a deployment is backed up (docs/redis.md, Keys).
enum RedisKeyKind: Equatable {
    /// A record, which is read together with its entries in the due index, the push queue and the outboxes.
    case record(RecordID)
    /// An outbox line, whose record may have ended.
    case line(RecordID)
    /// A key whose value is read as a whole.
    case value
    /// A key whose value says that others count: the owners of push targets, without whom a registration does not
    /// count, and the index of the devices of a broker. These keys are read last.
    case lateValue
    /// A key that running processes hold, an index that is made anew from the records, or an outbox key that is read in
    /// another way.
    case skipped

    /// Reads a key without its prefix.
    init(_ key: [UInt8]) {
        self = String(validating: key, as: UTF8.self).map(Self.kind) ?? .value
    }

    private static func kind(_ key: String) -> RedisKeyKind {
        if ["deployment", "clock", "brokers", "push:processes"].contains(key) { return .skipped }
        if key.hasPrefix("token:") || key.hasPrefix("devices:") { return .lateValue }
        guard key.hasPrefix("{p"), let end = key.firstRange(of: "}:"),
            key[..<end.lowerBound].dropFirst(2).allSatisfy({ $0.isASCII && $0.isNumber })
        else { return .value }
        return kind(inPartition: key[end.upperBound...])
    }

    private static func kind(inPartition key: Substring) -> RedisKeyKind {
        if key.hasPrefix("call:") { return CallID(String(key.dropFirst(5))).map { .record(.call($0)) } ?? .value }
        if key.hasPrefix("message:") {
            return RecordID(":" + key.dropFirst(8)).map { .record($0) } ?? .value
        }
        if key.hasPrefix("outbox:") {
            var rest = key.dropFirst(7)
            if rest.hasPrefix("rooms:") { rest = rest.dropFirst(6) }
            // The name of an endpoint holds no colon.
            guard let colon = rest.firstIndex(of: ":"), rest[colon...].hasPrefix(":line:") else { return .skipped }
            return RecordID(String(rest[colon...].dropFirst(6))).map { .line($0) } ?? .skipped
        }
        if ["due", "live", "online"].contains(key) { return .skipped }
        if key.hasPrefix("push:") || key.hasPrefix("worker:") { return .skipped }
        return .value
    }
}
