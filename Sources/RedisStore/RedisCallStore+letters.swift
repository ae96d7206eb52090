import CallCore
import CallStore
import SignalingProtocol

/// The outbox's bounds and its dead letters.
extension RedisCallStore {
    /// The bound on lines that are read at a time, since other requests wait.
    private static let step = 256

    private struct Place {
        let partition: Int
        var count = OutboxCount()
    }

    private func counts(_ endpoint: EndpointName) async throws(StoreError) -> [Place] {
        var pipeline = try session.pipeline()
        for partition in 0..<Bounds.partitions {
            let keys = outbox(endpoint, in: partition)
            pipeline.command("HGETALL", 1) { $0.add(keys.counts) }
            pipeline.command("ZRANGE", 4) {
                $0.add(keys.age)
                $0.add(0)
                $0.add(0)
                $0.add("WITHSCORES")
            }
        }
        let replies = try await session.run(pipeline)
        var places: [Place] = []
        for partition in 0..<Bounds.partitions {
            var place = Place(partition: partition)
            for (name, value) in try replies[2 * partition].pairs() {
                let number = value.text.flatMap { Int($0) } ?? 0
                switch name.text {
                case "w": place.count.waiting = number
                case "d": place.count.dead = number
                default: place.count.bytes = number
                }
            }
            place.count.oldest =
                try replies[2 * partition + 1].pairs().first.flatMap { $0.value.text.flatMap { Double($0) } }
                .map { Milliseconds($0) }
            places.append(place)
        }
        return places
    }

    package func count(_ endpoint: EndpointName) async throws(StoreError) -> OutboxCount {
        var sum = OutboxCount()
        for place in try await counts(endpoint) {
            sum.waiting += place.count.waiting
            sum.dead += place.count.dead
            sum.bytes += place.count.bytes
            if let oldest = place.count.oldest { sum.oldest = min(sum.oldest ?? .max, oldest) }
        }
        return sum
    }

    /// Holds an endpoint's outbox to its bounds. Each partition gives up its share of the excess.
    package func bound(_ endpoint: EndpointName, _ bounds: OutboxBounds) async throws(StoreError) -> OutboxLoss {
        let isOff = try await endpoints().contains { $0.name == endpoint && $0.isOff }
        let places = try await counts(endpoint)
        func excess(_ value: KeyPath<OutboxCount, Int>, _ bound: Int) -> (Place) -> Int {
            let sum = places.reduce(0) { $0 + $1.count[keyPath: value] }
            guard sum > bound else { return { _ in 0 } }
            return { place in ((sum - bound) * place.count[keyPath: value] + sum - 1) / sum }
        }
        let waiting = excess(\.waiting, isOff ? 0 : bounds.backlog)
        let dead = excess(\.dead, bounds.deadLetters)
        var loss = OutboxLoss()
        for place in places where place.count.waiting + place.count.dead > 0 {
            let found = try await bound(
                endpoint, place.partition, waiting: waiting(place), dead: dead(place),
                deadSince: try await now() - bounds.deadLetterLife)
            loss.becameDead += found.becameDead
            loss.deleted += found.deleted
        }
        // The deletions above may have been enough.
        if places.reduce(0, { $0 + $1.count.bytes }) > bounds.bytes {
            loss.deleted += try await boundBytes(endpoint, bounds)
        }
        return loss
    }

    private func bound(
        _ endpoint: EndpointName, _ partition: Int, waiting: Int, dead: Int, deadSince: Milliseconds
    ) async throws(StoreError) -> OutboxLoss {
        let keys = outbox(endpoint, in: partition)
        let lines = waiting > 0 ? try await oldest(keys, limit: min(waiting, Self.step)) : []
        var pipeline = try session.pipeline()
        pipeline.script(.boundLines, keys: 9 + lines.count, arguments: 2 + lines.count) {
            add(keys, lines, to: &$0)
            $0.add(Int64(min(dead, Self.step)))
            $0.add(session.raw(deadSince))
            for line in lines { $0.add(line.string) }
        }
        let reply = try await session.run(pipeline, isWrite: true)[0]
        guard let parts = reply.array, parts.count == 2 else { throw reply.unexpected }
        return OutboxLoss(becameDead: Int(try parts[0].number()), deleted: Int(try parts[1].number()))
    }

    private func add(_ keys: OutboxKeys, _ lines: [RecordID], to words: inout RedisWords) {
        for key in [
            keys.age, keys.holders, keys.attempts, keys.counts, keys.dead, keys.texts, keys.due, keys.owners,
            keys.whose,
        ] { words.add(key) }
        for line in lines { words.add(keys.line(line)) }
    }

    private func oldest(_ keys: OutboxKeys, limit: Int) async throws(StoreError) -> [RecordID] {
        var pipeline = try session.pipeline()
        pipeline.command("ZRANGE", 3) {
            $0.add(keys.age)
            $0.add(0)
            $0.add(Int64(limit - 1))
        }
        return try await session.run(pipeline)[0].values().compactMap { $0.text.flatMap { RecordID($0) } }
    }

    // MARK: Bytes

    /// Deletes entries of the users with the most bytes, so that all these users are at one level of bytes. In every
    /// partition, each of these users gives up a share.
    private func boundBytes(_ endpoint: EndpointName, _ bounds: OutboxBounds) async throws(StoreError) -> Int {
        let places = try await counts(endpoint).filter { $0.count.bytes > 0 }
        let excess = places.reduce(0) { $0 + $1.count.bytes } - bounds.bytes
        guard excess > 0 else { return 0 }
        let parts = try await bytesOfOwners(endpoint, places)
        var totals: [[UInt8]: Int] = [:]
        for part in parts { totals.merge(part, uniquingKeysWith: +) }
        let level = max(
            OutboxShares.level(Array(totals.values), excess: excess),
            OutboxShares.share(of: bounds.bytes, among: totals.count))
        var deleted = 0
        for (place, part) in zip(places, parts) {
            var budgets: [[UInt8]: Int] = [:]
            for (owner, bytes) in part {
                let total = totals[owner]!
                guard total > level else { continue }
                budgets[owner] = Int((Double(total - level) * Double(bytes) / Double(total)).rounded(.up))
            }
            if !budgets.isEmpty { deleted += try await take(budgets, endpoint, place.partition) }
        }
        return deleted
    }

    /// Returns the bytes per owner, for each partition.
    private func bytesOfOwners(
        _ endpoint: EndpointName, _ places: [Place]
    ) async throws(StoreError) -> [[[UInt8]: Int]] {
        var pipeline = try session.pipeline()
        for place in places {
            pipeline.command("ZRANGE", 4) {
                $0.add(outbox(endpoint, in: place.partition).owners)
                $0.add(0)
                $0.add(-1)
                $0.add("WITHSCORES")
            }
        }
        var parts: [[[UInt8]: Int]] = []
        for reply in try await session.run(pipeline) {
            var part: [[UInt8]: Int] = [:]
            for (owner, bytes) in try reply.pairs() {
                guard let bytes = bytes.text.flatMap({ Double($0) }), bytes > 0 else { continue }
                // A bound above the size of any store, so that a damaged number does not overflow.
                part[Array(owner)] = Int(min(bytes, 1e15))
            }
            parts.append(part)
        }
        return parts
    }

    /// Deletes the given bytes of these users: their oldest dead letters first, and then their waiting entries. Bytes
    /// beyond `step` entries are left for the next time.
    private func take(
        _ budgets: [[UInt8]: Int], _ endpoint: EndpointName, _ partition: Int
    ) async throws(StoreError) -> Int {
        let keys = outbox(endpoint, in: partition)
        var reading = try session.pipeline()
        reading.command("HGETALL", 1) { $0.add(keys.whose) }
        for key in [keys.dead, keys.age] {
            reading.command("ZRANGE", 3) {
                $0.add(key)
                $0.add(0)
                $0.add(-1)
            }
        }
        let replies = try await session.run(reading)
        var whose: [[UInt8]: [UInt8]] = [:]
        for (id, owner) in try replies[0].pairs() { whose[Array(id)] = Array(owner) }
        func those(_ reply: RedisReply) throws(StoreError) -> [[UInt8]] {
            try reply.values().map { Array($0) }.filter { budgets[whose[$0] ?? []] != nil }
        }
        let letters = try those(replies[1]).prefix(Self.step)
        let lines = try those(replies[2]).compactMap { RecordID(String(decoding: $0, as: UTF8.self)) }.prefix(Self.step)
        var pipeline = try session.pipeline()
        pipeline.script(
            .boundOwners, keys: 9 + lines.count, arguments: 2 + 2 * budgets.count + letters.count + lines.count
        ) {
            add(keys, Array(lines), to: &$0)
            $0.add(Int64(budgets.count))
            for (owner, bytes) in budgets {
                $0.add(owner)
                $0.add(Int64(bytes))
            }
            $0.add(Int64(letters.count))
            for letter in letters { $0.add(letter) }
            for line in lines { $0.add(line.string) }
        }
        return Int(try await session.run(pipeline, isWrite: true)[0].number())
    }

    // MARK: Dead letters

    package func deadLetters(
        _ endpoint: EndpointName, since: Milliseconds, limit: Int
    ) async throws(StoreError) -> [DeadLetter] {
        var letters: [DeadLetter] = []
        for partition in 0..<Bounds.partitions {
            var pipeline = try session.pipeline()
            pipeline.command("HGETALL", 1) { $0.add(outbox(endpoint, in: partition).texts) }
            for (name, entry) in try await session.run(pipeline)[0].pairs() {
                guard let letter = letter(name, entry), letter.time >= since else { continue }
                letters.append(letter)
            }
        }
        letters.sort { ($0.time, $0.id, $0.number) < ($1.time, $1.id, $1.number) }
        return Array(letters.prefix(limit))
    }

    private func letter(_ name: RedisBytes, _ entry: RedisBytes) -> DeadLetter? {
        var (name, entry) = (name, entry)
        guard let number = name.part(before: UInt8(ascii: ":")).flatMap(StoredNumber.time),
            let id = name.text.flatMap({ RecordID($0) }), entry.part(before: UInt8(ascii: ":")) != nil,
            let time = entry.part(before: UInt8(ascii: ":")).flatMap(StoredNumber.time)
        else { return nil }
        return DeadLetter(id: id, number: number, time: time, record: Array(entry))
    }

    package func replay(_ letters: [DeadLetter], of endpoint: EndpointName) async throws(StoreError) -> Int {
        guard !letters.isEmpty else { return 0 }
        var pipeline = try session.pipeline()
        for (id, letters) in Dictionary(grouping: letters, by: \.id) {
            let keys = outbox(endpoint, of: id)
            pipeline.script(.replayLetters, keys: 9, arguments: 1 + letters.count) {
                for key in [
                    keys.line(id), keys.due, keys.age, keys.counts, keys.dead, keys.texts, keys.holders, keys.attempts,
                    keys.whose,
                ] { $0.add(key) }
                $0.add(id.string)
                for letter in letters { $0.add(letter.number) }
            }
        }
        var count: Int64 = 0
        for reply in try await session.run(pipeline, isWrite: true) { count += try reply.number() }
        return Int(count)
    }
}
