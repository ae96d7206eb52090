import CallCore
import CallStore
import SignalingProtocol

/// Writes a backup into a Redis without data of Bellwire. The account needs the right to `RESTORE`.
///
/// Until all data is there, Redis belongs to a deployment that does not exist: no coordinator uses half of the data,
/// and a restore that was interrupted leaves a Redis that no coordinator uses.
package struct RedisRestore {
    private enum Bounds {
        /// The bounds of one round trip: the number of commands, and the number of their bytes.
        static let commands = 64
        static let bytes = 4 << 20
    }

    /// The topic root that no deployment can have, because no topic contains a wildcard.
    static let unfinished = "#restore-unfinished"

    /// The outbox line of a record.
    private struct Line {
        let owner: [UInt8]
        let entries: Int
        let bytes: Int
    }

    /// The outbox of an endpoint in a partition.
    private struct Outbox: Hashable {
        let endpoint: EndpointName
        let partition: Int
    }

    private let visit: RedisVisit
    private let store: RedisCallStore
    private let now: Milliseconds
    private var pipeline = RedisPipeline()
    /// The lines and dead letters that were written, by their names.
    private var lines: [Outbox: [[UInt8]: Line]] = [:]
    private var letters: [Outbox: [[UInt8]: Line]] = [:]

    /// Connects. Throws, and writes nothing, when Redis has data of Bellwire, or when the backup is of another kind or
    /// format.
    package init(_ address: RedisAddress, prefix: String, _ head: BackupHead) throws(StoreError) {
        visit = try RedisVisit(address, prefix: prefix)
        store = RedisCallStore(address: address, prefix: prefix)
        guard head.kind == .redis else {
            throw StoreError(.foreign, "a backup of a file cannot be restored into \(address)")
        }
        guard head.format == RedisFormat.format.number else {
            throw RedisFormat.format.refusal(of: head.format, in: "the backup", instead: "another backup")
        }
        for server in visit.link.servers {
            try visit.scan(server) { keys throws(StoreError) in
                guard let key = keys.first else { return }
                throw StoreError(
                    .foreign,
                    """
                    \(address) is not empty: it has \(prefix):\(String(decoding: key.prefix(64), as: UTF8.self)). \
                    Nothing in it was changed. Stop the coordinators and gateways, and restore into an empty database \
                    (redis://HOST/NUMBER), under another --redis-prefix, or after FLUSHDB
                    """)
            }
        }
        var time = RedisPipeline()
        time.command("TIME", to: .clock)
        now = try visit.run(time)[0].redisTime()
    }

    /// Marks Redis as being restored, and writes the format of its data.
    package func begin() throws(StoreError) {
        var pipeline = RedisPipeline()
        pipeline.command("SET", 3) {
            $0.add(visit.key("deployment"))
            $0.add(Self.unfinished)
            $0.add("NX")
        }
        pipeline.command("SET", 3) {
            $0.add(visit.key("clock"))
            $0.add(RedisFormat.entry(SharedClock()))
            $0.add("NX")
        }
        guard try visit.run(pipeline)[0].isOK else {
            throw StoreError(.foreign, "\(visit.address): another process began to use it: stop the coordinators")
        }
    }

    package mutating func write(_ entry: BackupEntry) throws(StoreError) {
        guard let kind = entry.first else { throw unreadable }
        switch String(decoding: kind, as: UTF8.self) {
        case "record" where entry.count >= 6: try writeRecord(entry)
        case "letters" where entry.count % 4 == 3: try writeLetters(entry)
        case "value" where entry.count == 4: restore(visit.key("") + entry[1], entry[2], endingAt: entry[3])
        default: throw unreadable
        }
        if pipeline.commands.count >= Bounds.commands || pipeline.bytes.count >= Bounds.bytes { try flush() }
    }

    /// Completes the outboxes and gives Redis to its deployment.
    package mutating func finish(_ head: BackupHead) throws(StoreError) {
        for outbox in Set(lines.keys).union(letters.keys) { try complete(outbox) }
        try flush()
        var last = RedisPipeline()
        if let root = head.topicRoot {
            last.command("SET", 2) {
                $0.add(visit.key("deployment"))
                $0.add(root)
            }
        } else {
            last.command("DEL", 1) { $0.add(visit.key("deployment")) }
        }
        _ = try visit.run(last)
    }

    private var unreadable: StoreError { StoreError(.failed, "the backup has an entry that this version cannot read") }

    private mutating func flush() throws(StoreError) {
        guard !pipeline.commands.isEmpty else { return }
        _ = try visit.run(pipeline)
        pipeline = RedisPipeline()
    }

    /// A key that has ended meanwhile is not made.
    private mutating func restore(_ key: [UInt8], _ dump: [UInt8], endingAt end: [UInt8]) {
        pipeline.command("RESTORE", 5) {
            $0.add(key)
            $0.add(end)
            $0.add(dump)
            $0.add("REPLACE")
            $0.add("ABSTTL")
        }
    }

    private mutating func add(_ member: [UInt8], _ score: [UInt8], to key: [UInt8]) {
        pipeline.command("ZADD", 3) {
            $0.add(key)
            $0.add(score)
            $0.add(member)
        }
    }

    private mutating func set(_ field: [UInt8], _ value: [UInt8], in key: [UInt8]) {
        pipeline.command("HSET", 3) {
            $0.add(key)
            $0.add(field)
            $0.add(value)
        }
    }

    // MARK: Records

    private mutating func writeRecord(_ entry: BackupEntry) throws(StoreError) {
        guard let id = RecordID(String(decoding: entry[1], as: UTF8.self)) else { throw unreadable }
        let partition = store.prefix(ofPartition: store.partition(of: id))
        let (dump, end, deadline, isQueued) = (entry[2], entry[3], entry[4], entry[5] == Array("1".utf8))
        if !dump.isEmpty {
            restore(store.key(id).bytes, dump, endingAt: end)
            if !deadline.isEmpty { add(entry[1], deadline, to: store.dueKey(id).bytes) }
            // The number of pending invitations follows with the next change of the call.
            if id.callID != nil, end == Array("0".utf8) {
                add(entry[1], Array("0".utf8), to: partition + Array("live".utf8))
            }
            if isQueued { add(entry[1], Array("\(now)".utf8), to: partition + Array("push:due".utf8)) }
        }
        var rest = entry.dropFirst(6)
        while !rest.isEmpty {
            guard rest.count >= 3, let endpoint = rest.popFirst().flatMap(Self.endpoint), let owner = rest.popFirst(),
                let count = rest.popFirst().flatMap({ Int(String(decoding: $0, as: UTF8.self)) }),
                count > 0, rest.count >= count
            else { throw unreadable }
            try writeLine(id, endpoint, owner, rest.prefix(count))
            rest = rest.dropFirst(count)
        }
    }

    private static func endpoint(_ name: [UInt8]) -> EndpointName? {
        EndpointName(String(decoding: name, as: UTF8.self))
    }

    private mutating func writeLine(
        _ id: RecordID, _ endpoint: EndpointName, _ owner: [UInt8], _ entries: ArraySlice<[UInt8]>
    ) throws(StoreError) {
        let keys = store.outbox(endpoint, of: id)
        let name = Array(id.string.utf8)
        pipeline.command("DEL", 1) { $0.add(keys.line(id)) }
        var bytes = 0
        for (place, entry) in entries.enumerated() {
            // An entry is "number:time:record".
            let parts = entry.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { throw unreadable }
            add(entry, Array(parts[0]), to: keys.line(id))
            bytes += parts[2].count
            if place == 0 { add(name, Array(parts[1]), to: keys.age) }
        }
        add(name, Array("\(now)".utf8), to: keys.due)
        if !owner.isEmpty { set(name, owner, in: keys.whose) }
        lines[Outbox(endpoint: endpoint, partition: store.partition(of: id)), default: [:]][name] = Line(
            owner: owner, entries: entries.count, bytes: bytes)
    }

    // MARK: Dead letters

    private mutating func writeLetters(_ entry: BackupEntry) throws(StoreError) {
        guard let endpoint = Self.endpoint(entry[1]), let partition = Int(String(decoding: entry[2], as: UTF8.self)),
            (0..<RedisCallStore.Bounds.partitions).contains(partition)
        else { throw unreadable }
        let keys = store.outbox(endpoint, in: partition)
        for start in stride(from: 3, to: entry.count, by: 4) {
            let (name, since, text, owner) = (entry[start], entry[start + 1], entry[start + 2], entry[start + 3])
            let parts = text.split(separator: UInt8(ascii: ":"), maxSplits: 2, omittingEmptySubsequences: false)
            guard parts.count == 3 else { throw unreadable }
            add(name, since, to: keys.dead)
            set(name, text, in: keys.texts)
            if !owner.isEmpty { set(name, owner, in: keys.whose) }
            letters[Outbox(endpoint: endpoint, partition: partition), default: [:]][name] = Line(
                owner: owner, entries: 1, bytes: parts[2].count)
        }
    }

    /// Writes the counts of an outbox.
    private mutating func complete(_ outbox: Outbox) throws(StoreError) {
        let keys = store.outbox(outbox.endpoint, in: outbox.partition)
        let lines = lines[outbox, default: [:]].values
        let letters = letters[outbox, default: [:]].values
        var bytesOfOwner: [[UInt8]: Int] = [:]
        for line in [lines, letters].joined() where !line.owner.isEmpty {
            bytesOfOwner[line.owner, default: 0] += line.bytes
        }
        let bytes = [lines, letters].joined().reduce(0) { $0 + $1.bytes }
        for (field, count) in [("w", lines.reduce(0) { $0 + $1.entries }), ("d", letters.count), ("b", bytes)] {
            set(Array(field.utf8), Array("\(count)".utf8), in: keys.counts)
        }
        for (owner, bytes) in bytesOfOwner {
            add(owner, Array("\(bytes)".utf8), to: keys.owners)
            if pipeline.commands.count >= Bounds.commands { try flush() }
        }
    }
}
