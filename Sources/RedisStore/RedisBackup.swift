import CallCore
import CallStore
import SignalingProtocol
import Support

/// Reads all data of a deployment from Redis while coordinators serve calls (docs/operations.md, Backup and restore).
///
/// Redis has no snapshot that a client could read. A record is read in one step with all that must agree with it: its
/// entry in the due index and the push queue, and its outbox lines. Everything that names records (lists, claims) is
/// read after the records, since coordinators write it before the record (docs/redis.md, The order of writes). When a
/// call ends in between, its list has the end already.
package struct RedisBackup {
    private enum Bounds {
        /// The number of keys that are read in one round trip. Redis serves other clients in between.
        static let keys = 32
    }

    private let visit: RedisVisit
    private let store: RedisCallStore
    private let endpoints: [EndpointName]
    package let head: BackupHead

    /// Connects. Throws when there is no data of Bellwire, or data in another format.
    package init(_ address: RedisAddress, prefix: String) throws(StoreError) {
        visit = try RedisVisit(address, prefix: prefix)
        store = RedisCallStore(address: address, prefix: prefix)
        guard let entry = try visit.value("clock") else {
            throw StoreError(.foreign, "\(address) has no data of Bellwire under the prefix \(prefix)")
        }
        _ = try RedisFormat.clock(in: entry, address)
        let topicRoot = try visit.value("deployment")?.text
        guard topicRoot != RedisRestore.unfinished else {
            throw StoreError(.foreign, "\(address) has a part of a backup alone: the restore into it has not ended")
        }
        endpoints = try Self.endpoints(visit)
        head = BackupHead(
            kind: .redis, format: RedisFormat.format.number, topicRoot: topicRoot)
    }

    /// Returns the endpoints of webhooks.
    private static func endpoints(_ visit: RedisVisit) throws(StoreError) -> [EndpointName] {
        var pipeline = RedisPipeline()
        pipeline.command("HKEYS", 1) { $0.add(visit.key("endpoints")) }
        // Other fields hold the last attempts; their names are not names of endpoints.
        return try visit.run(pipeline)[0].values().compactMap { $0.text.flatMap(EndpointName.init) }
    }

    /// Passes all entries to `sink`. Returns the number of records.
    package func read(_ sink: BackupSink) throws(StoreError) -> Int {
        let layout = try visit.slotMap()
        var records = 0
        for server in visit.link.servers { records += try readRecords(server, sink) }
        try readDeadLetters(sink)
        for kind in [RedisKeyKind.value, .lateValue] {
            for server in visit.link.servers { try readValues(kind, server, sink) }
        }
        guard try visit.slotMap() == layout else {
            throw StoreError(.unsettled, "\(visit.address): the cluster moved slots meanwhile: start again")
        }
        return records
    }

    // MARK: Records

    private func readRecords(_ server: RedisConnection, _ sink: BackupSink) throws(StoreError) -> Int {
        let hash = try load(Self.recordScript, at: server)
        var count = 0
        try visit.scan(server) { keys throws(StoreError) in
            var found: [RecordID: Bool] = [:]
            for key in keys {
                switch RedisKeyKind(key) {
                case .record(let id): found[id] = false
                case .line(let id): if found[id] == nil { found[id] = true }
                case .value, .lateValue, .skipped: continue
                }
            }
            let ids = found.sorted { $0.key < $1.key }
            for start in stride(from: 0, to: ids.count, by: Bounds.keys) {
                let some = ids[start..<min(ids.count, start + Bounds.keys)]
                var pipeline = RedisPipeline()
                for (id, isLine) in some { add(id, isLine, hash, to: &pipeline) }
                for (reply, (id, _)) in zip(try visit.run(pipeline, at: server), some) {
                    let fields = try reply.values().map { Array($0) }
                    guard !fields.isEmpty else { continue }
                    if !fields[0].isEmpty { count += 1 }
                    try sink([Array("record".utf8), Array(id.string.utf8)] + fields)
                }
            }
        }
        return count
    }

    private func add(_ id: RecordID, _ isLine: Bool, _ hash: [UInt8], to pipeline: inout RedisPipeline) {
        let keys = 4 + 2 * endpoints.count
        pipeline.command("EVALSHA", 4 + keys + endpoints.count) {
            $0.add(hash)
            $0.add(Int64(keys))
            $0.add(store.key(id))
            $0.add(store.dueKey(id))
            let partition = store.prefix(ofPartition: store.partition(of: id))
            $0.add(partition + Array("push:due".utf8))
            $0.add(partition + Array("push:holders".utf8))
            for endpoint in endpoints {
                let outbox = store.outbox(endpoint, of: id)
                $0.add(outbox.line(id))
                $0.add(outbox.whose)
            }
            $0.add(id.string)
            $0.add(isLine ? "line" : "record")
            for endpoint in endpoints { $0.add(endpoint.string) }
        }
    }

    /// Reads a record. KEYS: record, due index, push queue, its holders; then per endpoint the outbox line, and the
    /// owners of lines. ARGV: id; "line" to return nothing when the id has a record; the names of the endpoints.
    ///
    /// Returns the dumped record or "", its end in milliseconds or "0", its deadline or "", whether the call is in the
    /// push queue; then for each endpoint with entries its name, the owner, the number of entries, and the entries.
    /// Returns nothing when there is neither a record nor an outbox entry.
    private static let recordScript = """
        local id = ARGV[1]
        local dump = redis.call('DUMP', KEYS[1])
        if dump and ARGV[2] == 'line' then return {} end
        local time = redis.call('TIME')
        local life, ends = redis.call('PTTL', KEYS[1]), '0'
        if life >= 0 then ends = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000) + math.max(life, 1)) end
        local queued = redis.call('ZSCORE', KEYS[3], id) or redis.call('HEXISTS', KEYS[4], id) == 1
        local reply = {dump or '', ends, redis.call('ZSCORE', KEYS[2], id) or '', queued and '1' or '0'}
        for i = 5, #KEYS, 2 do
          local entries = redis.call('ZRANGE', KEYS[i], 0, -1)
          if #entries > 0 then
            table.insert(reply, ARGV[3 + (i - 5) / 2])
            table.insert(reply, redis.call('HGET', KEYS[i + 1], id) or '')
            table.insert(reply, tostring(#entries))
            for _, entry in ipairs(entries) do table.insert(reply, entry) end
          end
        end
        if not dump and #reply == 4 then return {} end
        return reply
        """

    private func load(_ script: String, at server: RedisConnection) throws(StoreError) -> [UInt8] {
        var pipeline = RedisPipeline()
        pipeline.command("SCRIPT", 2) {
            $0.add("LOAD")
            $0.add(script)
        }
        let reply = try visit.run(pipeline, at: server)[0]
        guard let hash = try reply.value() else { throw reply.unexpected }
        return Array(hash)
    }

    // MARK: Dead letters

    /// A dead letter that is made, sent again or deleted meanwhile may be missing.
    private func readDeadLetters(_ sink: BackupSink) throws(StoreError) {
        for endpoint in endpoints {
            for partition in 0..<RedisCallStore.Bounds.partitions {
                let keys = store.outbox(endpoint, in: partition)
                var pipeline = RedisPipeline()
                pipeline.command("HGETALL", 1) { $0.add(keys.texts) }
                pipeline.command("HGETALL", 1) { $0.add(keys.whose) }
                pipeline.command("ZRANGE", 4) {
                    $0.add(keys.dead)
                    $0.add(0)
                    $0.add(-1)
                    $0.add("WITHSCORES")
                }
                let replies = try visit.run(pipeline)
                let since = Dictionary(try replies[2].pairs().map { (Array($0.name), Array($0.value)) }) { $1 }
                let owners = Dictionary(try replies[1].pairs().map { (Array($0.name), Array($0.value)) }) { $1 }
                var entry: BackupEntry = [
                    Array("letters".utf8), Array(endpoint.string.utf8), Array("\(partition)".utf8),
                ]
                for (name, text) in try replies[0].pairs() {
                    let name = Array(name)
                    guard let time = since[name] else { continue }
                    entry += [name, time, Array(text), owners[name] ?? []]
                }
                if entry.count > 3 { try sink(entry) }
            }
        }
    }

    // MARK: Other keys

    private func readValues(
        _ kind: RedisKeyKind, _ server: RedisConnection, _ sink: BackupSink
    ) throws(StoreError) {
        try visit.scan(server) { keys throws(StoreError) in
            let wanted = keys.filter { RedisKeyKind($0) == kind }
            for start in stride(from: 0, to: wanted.count, by: Bounds.keys) {
                let some = wanted[start..<min(wanted.count, start + Bounds.keys)]
                var pipeline = RedisPipeline()
                pipeline.command("TIME", to: .clock)
                for key in some {
                    for command in ["PTTL", "DUMP"] as [StaticString] {
                        pipeline.command(command, 1) { $0.add(visit.key("") + key) }
                    }
                }
                let replies = try visit.run(pipeline, at: server)
                let now = try replies[0].redisTime()
                for (place, key) in some.enumerated() {
                    // The key may have ended meanwhile: without a life it would be restored for ever.
                    let life = try replies[1 + 2 * place].number()
                    guard life == -1 || life > 0, let dump = try replies[2 + 2 * place].value() else { continue }
                    let end = life > 0 ? now + life : 0
                    try sink([Array("value".utf8), key, Array(dump), Array("\(end)".utf8)])
                }
            }
        }
    }
}
