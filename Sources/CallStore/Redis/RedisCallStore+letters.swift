import CallCore
import SignalingProtocol

/// The outbox's bounds and its dead letters.
extension RedisCallStore {
    /// Lines that are looked at in one go: others wait for it.
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

    /// Each partition gives its share of what is too much.
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
        let bytes = excess(\.bytes, bounds.bytes)
        var loss = OutboxLoss()
        for place in places where place.count.waiting + place.count.dead > 0 {
            let found = try await bound(
                endpoint, place.partition, waiting: waiting(place), dead: dead(place), bytes: bytes(place),
                deadSince: try await now() - bounds.deadLetterLife)
            loss.becameDead += found.becameDead
            loss.deleted += found.deleted
        }
        return loss
    }

    private func bound(
        _ endpoint: EndpointName, _ partition: Int, waiting: Int, dead: Int, bytes: Int, deadSince: Milliseconds
    ) async throws(StoreError) -> OutboxLoss {
        let keys = outbox(endpoint, in: partition)
        let lines = waiting > 0 || bytes > 0 ? try await oldest(keys, limit: Self.step) : []
        let buried = min(waiting, lines.count)
        var pipeline = try session.pipeline()
        pipeline.script(.boundLines, keys: 7 + lines.count, arguments: 4 + lines.count) {
            for key in [keys.age, keys.holders, keys.attempts, keys.counts, keys.dead, keys.texts, keys.due] {
                $0.add(key)
            }
            for line in lines { $0.add(keys.line(line)) }
            $0.add(Int64(min(dead, Self.step)))
            $0.add(session.raw(deadSince))
            $0.add(Int64(bytes))
            $0.add(Int64(buried))
            for line in lines { $0.add(line.string) }
        }
        let reply = try await session.run(pipeline, isWrite: true)[0]
        guard let parts = reply.array, parts.count == 2 else { throw reply.unexpected }
        return OutboxLoss(becameDead: Int(try parts[0].number()), deleted: Int(try parts[1].number()))
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
            pipeline.script(.replayLetters, keys: 8, arguments: 1 + letters.count) {
                for key in [
                    keys.line(id), keys.due, keys.age, keys.counts, keys.dead, keys.texts, keys.holders, keys.attempts,
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
