import SignalingProtocol

/// The model of the outbox: the rules that every store must follow. `now` is the store's time.
///
/// Each pair of an endpoint and a record has a line of revisions. A worker claims a line as a whole, so that the
/// revisions of a record go out in order, each after the previous attempt has ended. Lines do not wait for each other.
package struct Outbox: Equatable, Sendable {
    private struct OutboxEntry: Equatable, Sendable {
        let number: Int64
        let time: Milliseconds
        let record: [UInt8]
        let owner: UserID?
    }

    private struct OutboxLine: Equatable, Sendable {
        /// The entries, in the order of their numbers.
        var entries: [OutboxEntry] = []
        /// The time from which a worker may claim the line; nil while a worker has claimed the line.
        var due: Milliseconds?
        var holder: WorkerID?
        var attempts = 0
        var firstAttempt: Milliseconds?

        mutating func insert(_ entry: OutboxEntry) {
            guard !entries.contains(where: { $0.number == entry.number }) else { return }
            let place = entries.firstIndex { $0.number > entry.number } ?? entries.count
            entries.insert(entry, at: place)
        }
    }

    private struct BuriedEntry: Equatable, Sendable {
        let id: RecordID
        let entry: OutboxEntry
        let since: Milliseconds
    }

    private struct EndpointShelf: Equatable, Sendable {
        var lines: [RecordID: OutboxLine] = [:]
        /// The dead letters, in the order of their deaths.
        var dead: [BuriedEntry] = []
    }

    package private(set) var endpoints: [KeptEndpoint] = []
    /// The endpoints that operators have removed since the settings last named them.
    private var forgotten: Set<EndpointName> = []
    private var shelves: [EndpointName: EndpointShelf] = [:]
    private var leases = WorkerLeases()

    package init() {}

    // MARK: Endpoints

    /// Stores endpoints as the settings describe them. An endpoint that is off stays off and keeps its last attempt,
    /// unless its URL has changed.
    package mutating func keep(_ kept: [KeptEndpoint]) {
        for endpoint in kept {
            let place = endpoints.firstIndex { $0.name == endpoint.name }
            let before = place.map { endpoints[$0] }
            var endpoint = endpoint
            let same = before.flatMap { $0.url == endpoint.url ? $0 : nil }
            endpoint.isOff = same?.isOff ?? false
            endpoint.lastAttempt = same?.lastAttempt
            if let place { endpoints[place] = endpoint } else { endpoints.append(endpoint) }
            forgotten.remove(endpoint.name)
        }
        endpoints.sort { $0.name < $1.name }
    }

    /// Stores those endpoints that the list does not contain and that no operator has removed.
    package mutating func keepLost(_ kept: [KeptEndpoint]) {
        keep(kept.filter { lost in !forgotten.contains(lost.name) && !endpoints.contains { $0.name == lost.name } })
    }

    /// Turns the endpoint off after a response at `url` that says the endpoint is gone.
    package mutating func turnOff(_ name: EndpointName, at url: String) {
        guard let place = endpoints.firstIndex(where: { $0.name == name && $0.url == url }) else { return }
        endpoints[place].isOff = true
    }

    /// Turns an endpoint on again, on an operator's command. Returns false when the endpoint does not exist.
    package mutating func turnOn(_ name: EndpointName) -> Bool {
        guard let place = endpoints.firstIndex(where: { $0.name == name }) else { return false }
        endpoints[place].isOff = false
        return true
    }

    /// Stores the result of the last attempt at `url`.
    package mutating func note(_ attempt: String, of name: EndpointName, at url: String) {
        guard let place = endpoints.firstIndex(where: { $0.name == name && $0.url == url }) else { return }
        endpoints[place].lastAttempt = attempt
    }

    /// Removes an endpoint from the list. Coordinators that have read the new list write no more entries for the
    /// endpoint.
    package mutating func forget(_ name: EndpointName) {
        guard endpoints.contains(where: { $0.name == name }) else { return }
        endpoints.removeAll { $0.name == name }
        forgotten.insert(name)
    }

    /// Removes all entries and dead letters of an endpoint.
    package mutating func clear(_ name: EndpointName) { shelves[name] = nil }

    // MARK: Lines

    /// Adds entries together with the commit that causes them. `encode` returns the stored form of a record.
    package mutating func append(
        _ entries: OutboxEntries, _ id: RecordID, now: Milliseconds, encode: (Record) -> [UInt8]
    ) {
        for name in entries.to {
            var line = shelves[name]?.lines[id] ?? OutboxLine()
            if line.entries.isEmpty { line.due = now }
            for revision in entries.revisions {
                line.insert(
                    OutboxEntry(
                        number: revision.number, time: revision.time, record: encode(revision.record),
                        owner: revision.record.owner))
            }
            shelves[name, default: EndpointShelf()].lines[id] = line
        }
    }

    /// Claims due lines, the earliest first, and renews the worker's lease. Returns the first revision of each line.
    package mutating func claim(
        _ name: EndpointName, by worker: WorkerID, limit: Int, now: Milliseconds
    ) -> [OutboxItem] {
        let due = (shelves[name]?.lines ?? [:]).filter { $0.value.due.map { $0 <= now } ?? false }
            .sorted { ($0.value.due!, $0.key) < ($1.value.due!, $1.key) }.prefix(limit)
        if !due.isEmpty { leases.begin(worker, now: now) }
        return due.map { id, _ in
            shelves[name]!.lines[id]!.due = nil
            shelves[name]!.lines[id]!.holder = worker
            return first(of: id, name)!
        }
    }

    private func first(of id: RecordID, _ name: EndpointName) -> OutboxItem? {
        guard let line = shelves[name]?.lines[id], let entry = line.entries.first else { return nil }
        return OutboxItem(
            endpoint: name, id: id, number: entry.number, time: entry.time, record: entry.record,
            attempts: line.attempts, firstAttempt: line.firstAttempt)
    }

    package mutating func settle(_ settlement: Settlement, by worker: WorkerID, now: Milliseconds) -> Settled {
        let (item, name) = (settlement.item, settlement.item.endpoint)
        guard var line = shelves[name]?.lines[item.id], line.holder == worker, leases.lives(worker, now: now) else {
            return .void
        }
        switch settlement.outcome {
        case .again(let delay):
            line.attempts = item.attempts + 1
            line.firstAttempt = item.firstAttempt ?? now
            return put(line, back: item, at: now + delay)
        case .released: return put(line, back: item, at: now)
        case .taken, .givenUp:
            if let place = line.entries.firstIndex(where: { $0.number == item.number }) {
                let entry = line.entries.remove(at: place)
                if settlement.outcome == .givenUp { bury(entry, of: item.id, name, now) }
            }
            (line.attempts, line.firstAttempt) = (0, nil)
            shelves[name]!.lines[item.id] = line.entries.isEmpty ? nil : line
            return first(of: item.id, name).map { .next($0) } ?? .done
        }
    }

    private mutating func put(_ line: OutboxLine, back item: OutboxItem, at due: Milliseconds) -> Settled {
        var line = line
        line.holder = nil
        line.due = due
        shelves[item.endpoint]!.lines[item.id] = line
        return .done
    }

    private mutating func bury(_ entry: OutboxEntry, of id: RecordID, _ name: EndpointName, _ now: Milliseconds) {
        shelves[name]!.dead.removeAll { $0.id == id && $0.entry.number == entry.number }
        shelves[name]!.dead.append(BuriedEntry(id: id, entry: entry, since: now))
    }

    // MARK: Workers

    /// Renews the worker's lease. Returns false when the lease has expired: the worker's claims are void, and the
    /// process must continue as a new worker.
    package mutating func renew(_ worker: WorkerID, now: Milliseconds) -> Bool { leases.renew(worker, now: now) }

    /// Frees the lines of workers whose lease has expired. Returns the number of freed lines.
    package mutating func recover(now: Milliseconds) -> Int {
        var count = 0
        for (name, shelf) in shelves {
            for (id, line) in shelf.lines where line.holder.map({ !leases.lives($0, now: now) }) ?? false {
                shelves[name]!.lines[id]!.holder = nil
                shelves[name]!.lines[id]!.due = now
                count += 1
            }
        }
        leases.forgetOthers(now: now)
        return count
    }

    // MARK: Bounds

    package func count(_ name: EndpointName) -> OutboxCount {
        var count = OutboxCount()
        guard let shelf = shelves[name] else { return count }
        for line in shelf.lines.values {
            count.waiting += line.entries.count
            count.bytes += line.entries.reduce(0) { $0 + $1.record.count }
            if let first = line.entries.first { count.oldest = min(count.oldest ?? .max, first.time) }
        }
        count.dead = shelf.dead.count
        count.bytes += shelf.dead.reduce(0) { $0 + $1.entry.record.count }
        return count
    }

    /// Enforces the bounds of an endpoint. While more revisions wait than `backlog`, the first revisions of the
    /// earliest lines become dead letters. While the bytes exceed their bound, entries of the user with the most bytes
    /// are deleted. Claimed lines stay, because their first revision is on its way. Callers must call again as long as
    /// the result reports a loss.
    package mutating func bound(_ name: EndpointName, _ bounds: OutboxBounds, now: Milliseconds) -> OutboxLoss {
        var loss = OutboxLoss()
        guard shelves[name] != nil else { return loss }
        let isOff = endpoints.contains { $0.name == name && $0.isOff }
        for id in oldest(name).prefix(max(0, count(name).waiting - (isOff ? 0 : bounds.backlog))) {
            bury(takeFirst(of: id, name), of: id, name, now)
            loss.becameDead += 1
        }
        let before = shelves[name]!.dead.count
        shelves[name]!.dead.removeFirst(max(0, before - bounds.deadLetters))
        shelves[name]!.dead.removeAll { $0.since + bounds.deadLetterLife <= now }
        loss.deleted = before - shelves[name]!.dead.count + boundBytes(name, bounds)
        return loss
    }

    /// Deletes entries until the bound of bytes holds. Each deletion takes from the user with the most bytes: first the
    /// oldest dead letters, then the oldest queued entries.
    private mutating func boundBytes(_ name: EndpointName, _ bounds: OutboxBounds) -> Int {
        var excess = count(name).bytes - bounds.bytes
        var owners = bytesOfOwners(name)
        let share = OutboxShares.share(of: bounds.bytes, among: owners.count)
        var deleted = 0
        while excess > 0 {
            var freed: Int?
            // Users with equally many bytes go by their names, so that every store makes the same choice.
            let most = owners.sorted { ($0.value, $1.key?.string ?? "") > ($1.value, $0.key?.string ?? "") }
            for (owner, bytes) in most where freed == nil && bytes > share {
                freed = deleteFirst(of: owner, name)
                owners[owner]! -= freed ?? 0
            }
            guard let freed else { break }
            excess -= freed
            deleted += 1
        }
        return deleted
    }

    /// Returns the bytes of each user's queued entries and dead letters.
    private func bytesOfOwners(_ name: EndpointName) -> [UserID?: Int] {
        var bytes: [UserID?: Int] = [:]
        for line in shelves[name]!.lines.values {
            for entry in line.entries { bytes[entry.owner, default: 0] += entry.record.count }
        }
        for dead in shelves[name]!.dead { bytes[dead.entry.owner, default: 0] += dead.entry.record.count }
        return bytes
    }

    /// Deletes an entry of the user and returns its bytes; returns nil when workers have claimed all lines of this
    /// user.
    private mutating func deleteFirst(of owner: UserID?, _ name: EndpointName) -> Int? {
        if let place = shelves[name]!.dead.firstIndex(where: { $0.entry.owner == owner }) {
            return shelves[name]!.dead.remove(at: place).entry.record.count
        }
        let id = oldest(name).first { shelves[name]!.lines[$0]!.entries[0].owner == owner }
        return id.map { takeFirst(of: $0, name).record.count }
    }

    /// Returns the lines without a claim, the earliest first.
    private func oldest(_ name: EndpointName) -> [RecordID] {
        shelves[name]!.lines.filter { $0.value.holder == nil }
            .sorted { ($0.value.entries[0].time, $0.key) < ($1.value.entries[0].time, $1.key) }.map(\.key)
    }

    private mutating func takeFirst(of id: RecordID, _ name: EndpointName) -> OutboxEntry {
        var line = shelves[name]!.lines[id]!
        let entry = line.entries.removeFirst()
        (line.attempts, line.firstAttempt) = (0, nil)
        shelves[name]!.lines[id] = line.entries.isEmpty ? nil : line
        return entry
    }

    // MARK: Dead letters

    /// Returns dead letters whose revisions were made at `since` or later, the earliest first.
    package func deadLetters(_ name: EndpointName, since: Milliseconds, limit: Int) -> [DeadLetter] {
        let dead = (shelves[name]?.dead ?? []).filter { $0.entry.time >= since }
        return dead.sorted { ($0.entry.time, $0.id, $0.entry.number) < ($1.entry.time, $1.id, $1.entry.number) }
            .prefix(limit).map {
                DeadLetter(id: $0.id, number: $0.entry.number, time: $0.entry.time, record: $0.entry.record)
            }
    }

    /// Puts dead letters back into the outbox, each at its place in its line. Returns the number of dead letters that
    /// existed.
    package mutating func replay(_ letters: [DeadLetter], of name: EndpointName, now: Milliseconds) -> Int {
        var count = 0
        for letter in letters {
            guard
                let place = shelves[name]?.dead.firstIndex(where: {
                    $0.id == letter.id && $0.entry.number == letter.number
                })
            else { continue }
            let entry = shelves[name]!.dead.remove(at: place).entry
            var line = shelves[name]!.lines[letter.id] ?? OutboxLine()
            if line.entries.first.map({ $0.number > entry.number }) ?? true, line.holder == nil {
                // The replayed entry becomes the first entry of its line, without attempts.
                (line.due, line.attempts, line.firstAttempt) = (now, 0, nil)
            }
            line.insert(entry)
            shelves[name]!.lines[letter.id] = line
            count += 1
        }
        return count
    }

    package var isEmpty: Bool { endpoints.isEmpty && shelves.isEmpty }
}
