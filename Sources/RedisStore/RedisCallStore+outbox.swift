import CallCore
import CallStore
import SignalingProtocol

/// The outbox: some keys per partition and endpoint beside the keys of the calls, so that outbox entries are written
/// with the call. A line holds the entries of a call for an endpoint, in the order of their revisions.
extension RedisCallStore: OutboxStore {
    /// The keys of an endpoint in a partition.
    struct OutboxKeys {
        private let prefix: [UInt8]

        fileprivate init(_ partition: [UInt8], _ endpoint: EndpointName) {
            prefix = partition + Array("outbox:\(endpoint):".utf8)
        }

        private func key(_ kind: String) -> [UInt8] { prefix + Array(kind.utf8) }

        func line(_ id: RecordID) -> [UInt8] { key("line:") + Array(id.string.utf8) }
        /// The lines that may be claimed, by the earliest time for a claim.
        var due: [UInt8] { key("due") }
        /// All lines, by the time of their first revision.
        var age: [UInt8] { key("age") }
        /// The worker that has claimed each line.
        var holders: [UInt8] { key("holders") }
        /// "attempts:first" of lines with attempts for their first revision.
        var attempts: [UInt8] { key("attempts") }
        /// w: waiting revisions, d: dead letters, b: bytes of both.
        var counts: [UInt8] { key("counts") }
        /// The dead letters "number:record", by the time when they were given up; and their texts.
        var dead: [UInt8] { key("dead") }
        var texts: [UInt8] { key("texts") }
        /// The bytes of waiting revisions and dead letters, by the user who caused them.
        var owners: [UInt8] { key("owners") }
        /// The user who caused a line or a dead letter.
        var whose: [UInt8] { key("whose") }
    }

    func outbox(_ endpoint: EndpointName, of id: RecordID) -> OutboxKeys {
        outbox(endpoint, in: partition(of: id))
    }

    func outbox(_ endpoint: EndpointName, in partition: Int) -> OutboxKeys {
        OutboxKeys(prefix(ofPartition: partition), endpoint)
    }

    func lease(of worker: WorkerID, in partition: Int) -> [UInt8] {
        prefix(ofPartition: partition) + Array("worker:\(worker)".utf8)
    }

    // MARK: Endpoints

    /// Returns all endpoints. The value of an endpoint is "off backlog bytes url patterns". A second field holds the
    /// result of its last attempt. A third field exists while an operator has removed the endpoint. The names of these
    /// two fields are not valid endpoint names.
    package func endpoints() async throws(StoreError) -> [KeptEndpoint] {
        var pipeline = try session.pipeline()
        pipeline.command("HGETALL", 1) { $0.add(endpointsKey) }
        let pairs = try await session.run(pipeline)[0].pairs()
        var attempts: [String: String] = [:]
        for pair in pairs {
            guard let field = pair.name.text, field.hasSuffix(Self.lastAttempt) else { continue }
            attempts[String(field.dropLast(Self.lastAttempt.count))] = pair.value.text
        }
        let endpoints = pairs.compactMap { pair -> KeptEndpoint? in
            guard let name = pair.name.text.flatMap(EndpointName.init), let text = pair.value.text else { return nil }
            let parts = text.split(separator: " ", maxSplits: 4, omittingEmptySubsequences: false)
            guard parts.count == 5, let backlog = Int(parts[1]), let bytes = Int(parts[2]) else { return nil }
            return KeptEndpoint(
                name: name, patterns: String(parts[4]), url: String(parts[3]), backlog: backlog, bytes: bytes,
                isOff: parts[0] == "1", lastAttempt: attempts[name.string])
        }
        return endpoints.sorted { $0.name < $1.name }
    }

    /// The suffix of an endpoint's name in the field of its last attempt.
    private static let lastAttempt = " last"
    /// The suffix of an endpoint's name in the field of its removal.
    private static let removal = " removed"

    package func keep(_ endpoints: [KeptEndpoint]) async throws(StoreError) {
        try await keep(endpoints, onlyLost: false)
    }

    package func keepLost(_ endpoints: [KeptEndpoint]) async throws(StoreError) {
        try await keep(endpoints, onlyLost: true)
    }

    private func keep(_ endpoints: [KeptEndpoint], onlyLost: Bool) async throws(StoreError) {
        guard !endpoints.isEmpty else { return }
        var pipeline = try session.pipeline()
        for endpoint in endpoints {
            pipeline.script(.keepEndpoint, keys: 1, arguments: 6) {
                $0.add(endpointsKey)
                $0.add(endpoint.name.string)
                $0.add(endpoint.url)
                $0.add("\(endpoint.backlog) \(endpoint.bytes) \(endpoint.url) \(endpoint.patterns)")
                $0.add(endpoint.name.string + Self.lastAttempt)
                $0.add(endpoint.name.string + Self.removal)
                $0.add(onlyLost ? "lost" : "")
            }
        }
        for reply in try await session.run(pipeline, isWrite: true) { _ = try reply.number() }
    }

    package func turnOff(_ endpoint: EndpointName, at url: String) async throws(StoreError) {
        var pipeline = try session.pipeline()
        pipeline.script(.turnOffEndpoint, keys: 1, arguments: 2) {
            $0.add(endpointsKey)
            $0.add(endpoint.string)
            $0.add(url)
        }
        _ = try await session.run(pipeline, isWrite: true)[0].number()
    }

    package func turnOn(_ endpoint: EndpointName) async throws(StoreError) -> Bool {
        var pipeline = try session.pipeline()
        pipeline.script(.turnOnEndpoint, keys: 1, arguments: 1) {
            $0.add(endpointsKey)
            $0.add(endpoint.string)
        }
        return try await session.run(pipeline, isWrite: true)[0].number() == 1
    }

    package func note(_ attempt: String, of endpoint: EndpointName, at url: String) async throws(StoreError) {
        var pipeline = try session.pipeline()
        pipeline.script(.noteAttempt, keys: 1, arguments: 4) {
            $0.add(endpointsKey)
            $0.add(endpoint.string)
            $0.add(url)
            $0.add(endpoint.string + Self.lastAttempt)
            $0.add(attempt)
        }
        _ = try await session.run(pipeline, isWrite: true)[0].number()
    }

    package func forget(_ endpoint: EndpointName) async throws(StoreError) {
        var pipeline = try session.pipeline()
        pipeline.script(.forgetEndpoint, keys: 1, arguments: 3) {
            $0.add(endpointsKey)
            $0.add(endpoint.string)
            $0.add(endpoint.string + Self.lastAttempt)
            $0.add(endpoint.string + Self.removal)
        }
        _ = try await session.run(pipeline, isWrite: true)[0].number()
    }

    package func clear(_ endpoint: EndpointName) async throws(StoreError) -> Bool {
        for partition in 0..<Bounds.partitions { try await clear(endpoint, in: partition) }
        return false
    }

    /// Deletes an endpoint's keys in a partition. Lines go first, since only the list by age contains their ids.
    private func clear(_ endpoint: EndpointName, in partition: Int) async throws(StoreError) {
        let keys = outbox(endpoint, in: partition)
        var reading = try session.pipeline()
        reading.command("ZRANGE", 3) {
            $0.add(keys.age)
            $0.add(0)
            $0.add(-1)
        }
        let lines = try await session.run(reading)[0].values().compactMap { $0.text.flatMap { RecordID($0) } }
        let rest = [
            keys.due, keys.age, keys.holders, keys.attempts, keys.counts, keys.dead, keys.texts, keys.owners,
            keys.whose,
        ]
        var pipeline = try session.pipeline()
        for key in lines.map(keys.line) + rest { pipeline.command("UNLINK", 1) { $0.add(key) } }
        for reply in try await session.run(pipeline, isWrite: true) { _ = try reply.number() }
    }

    // MARK: Lines

    package func claim(
        _ endpoint: EndpointName, by worker: WorkerID, limit: Int, near: [RecordID]?
    ) async throws(StoreError) -> [OutboxItem] {
        let partitions = near.map { Set($0.map(partition)).sorted() } ?? Array(0..<Bounds.partitions)
        guard limit > 0, !partitions.isEmpty else { return [] }
        var pipeline = try session.pipeline()
        for partition in partitions {
            let keys = outbox(endpoint, in: partition)
            pipeline.script(.claimLines, keys: 3, arguments: 3) {
                $0.add(keys.due)
                $0.add(keys.holders)
                $0.add(lease(of: worker, in: partition))
                $0.add(worker.string)
                $0.add(Int64(1 + limit / partitions.count))
                $0.add(WorkerLease.life)
            }
        }
        var ids: [RecordID] = []
        for (partition, reply) in zip(partitions, try await session.run(pipeline, isWrite: true)) {
            let claimed = try reply.values().compactMap { $0.text.flatMap { RecordID($0) } }
            if !claimed.isEmpty { held(partition, by: worker) }
            ids += claimed
        }
        return try await firsts(of: ids, endpoint)
    }

    /// Remembers the partitions of a worker's lines. Only workers that may still live are remembered: a process with
    /// void claims continues as another worker.
    func held(_ partition: Int, by worker: WorkerID) {
        if heldPartitions[worker] == nil, heldPartitions.count >= Self.mostWorkers { heldPartitions = [:] }
        heldPartitions[worker, default: []].insert(partition)
    }

    /// The bound on remembered workers; a process has a single worker at a time.
    private static let mostWorkers = 16

    private func firsts(of ids: [RecordID], _ endpoint: EndpointName) async throws(StoreError) -> [OutboxItem] {
        guard !ids.isEmpty else { return [] }
        var pipeline = try session.pipeline()
        for id in ids {
            let keys = outbox(endpoint, of: id)
            pipeline.command("ZRANGE", 3) {
                $0.add(keys.line(id))
                $0.add(0)
                $0.add(0)
            }
            pipeline.command("HGET", 2) {
                $0.add(keys.attempts)
                $0.add(id.string)
            }
        }
        let replies = try await session.run(pipeline)
        var items: [OutboxItem] = []
        for (place, id) in ids.enumerated() {
            guard let entry = try replies[2 * place].values().first else { continue }
            if let item = item(entry, id, endpoint, attempts: try replies[2 * place + 1].value()) { items.append(item) }
        }
        return items
    }

    private func item(
        _ entry: RedisBytes, _ id: RecordID, _ endpoint: EndpointName, attempts: RedisBytes?
    ) -> OutboxItem? {
        var rest = entry
        guard let number = rest.part(before: UInt8(ascii: ":")).flatMap(StoredNumber.time),
            let time = rest.part(before: UInt8(ascii: ":")).flatMap(StoredNumber.time)
        else { return nil }
        let tried = attempts?.text.map { $0.split(separator: ":").compactMap { Int64($0) } } ?? []
        return OutboxItem(
            endpoint: endpoint, id: id, number: number, time: time, record: Array(rest),
            attempts: Int(tried.first ?? 0), firstAttempt: tried.count == 2 ? tried[1] : nil)
    }

    package func settle(_ settlements: [Settlement], by worker: WorkerID) async throws(StoreError) -> [Settled] {
        guard !settlements.isEmpty else { return [] }
        let now = try await now()
        var pipeline = try session.pipeline()
        for settlement in settlements { add(settlement, by: worker, now, to: &pipeline) }
        var settled: [Settled] = []
        for (settlement, reply) in zip(settlements, try await session.run(pipeline, isWrite: true)) {
            if let entry = reply.bytes {
                let next = item(entry, settlement.item.id, settlement.item.endpoint, attempts: nil)
                settled.append(next.map { .next($0) } ?? .done)
            } else {
                settled.append(try reply.number() == 0 ? .void : .done)
            }
        }
        return settled
    }

    private func add(
        _ settlement: Settlement, by worker: WorkerID, _ now: Milliseconds, to pipeline: inout RedisPipeline
    ) {
        let item = settlement.item
        let keys = outbox(item.endpoint, of: item.id)
        let (word, delay): (String, Milliseconds) =
            switch settlement.outcome {
            case .taken: ("taken", 0)
            case .givenUp: ("dead", 0)
            case .released: ("released", 0)
            case .again(let delay): ("again", delay)
            }
        pipeline.script(.settleLine, keys: 11, arguments: 6) {
            $0.add(keys.line(item.id))
            $0.add(keys.due)
            $0.add(keys.age)
            $0.add(keys.holders)
            $0.add(keys.attempts)
            $0.add(lease(of: worker, in: partition(of: item.id)))
            $0.add(keys.counts)
            $0.add(keys.dead)
            $0.add(keys.texts)
            $0.add(keys.owners)
            $0.add(keys.whose)
            $0.add(worker.string)
            $0.add(item.id.string)
            $0.add(item.number)
            $0.add(word)
            $0.add(delay)
            $0.add("\(item.attempts + 1):\(item.firstAttempt ?? now)")
        }
    }

    // MARK: Workers

    package func renew(_ worker: WorkerID) async throws(StoreError) -> Bool {
        guard let partitions = heldPartitions[worker] else { return true }
        var pipeline = try session.pipeline()
        for partition in partitions.sorted() {
            pipeline.command("SET", 5) {
                $0.add(lease(of: worker, in: partition))
                $0.add("1")
                $0.add("PX")
                $0.add(WorkerLease.life)
                $0.add("XX")
            }
        }
        var lives = true
        for reply in try await session.run(pipeline, isWrite: true) where !reply.isOK { lives = false }
        if !lives { heldPartitions[worker] = nil }
        return lives
    }

    package func recover() async throws(StoreError) -> Int {
        let names = try await endpoints().map(\.name)
        let places = names.flatMap { name in (0..<Bounds.partitions).map { (name, $0) } }
        var reading = try session.pipeline()
        for (name, partition) in places { reading.command("HVALS", 1) { $0.add(outbox(name, in: partition).holders) } }
        guard !places.isEmpty else { return 0 }
        var pipeline = try session.pipeline()
        for ((name, partition), reply) in zip(places, try await session.run(reading)) {
            let keys = outbox(name, in: partition)
            for holder in Set(try reply.values().compactMap(\.text)) {
                pipeline.script(.freeLines, keys: 3, arguments: 1) {
                    $0.add(keys.holders)
                    $0.add(keys.due)
                    $0.add(lease(of: WorkerID(holder), in: partition))
                    $0.add(holder)
                }
            }
        }
        guard !pipeline.commands.isEmpty else { return 0 }
        var count: Int64 = 0
        for reply in try await session.run(pipeline, isWrite: true) { count += try reply.number() }
        return Int(count)
    }
}
