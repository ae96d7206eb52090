import CallCore
import CallStore
import SignalingProtocol

/// What came and is not served yet, and the keys of what is being served (docs/decisions/0018).
///
/// Each work has keys: the user who sent it, and the record that it names. Works with a common key are served in the order in which they
/// came; a work begins when none before it has one of its keys, and keeps them until all that it does is done.
///
/// One user's burst is spread over what others send: beyond a few works of a user the rest waits in a line of its own, for their end. What
/// there is no room for is refused.
///
/// More than 200 lines: the lines of users and those of records are one structure; apart, each could be wrong by itself.
struct WorkQueue {
    /// A user of whom something waits or is being served.
    fileprivate final class Sender {
        let userID: UserID
        /// How many of its works stand in the queue.
        var waiting = 0
        /// Those that do not yet, in the order in which they came, from `firstParked` on.
        var parked: [Waiting] = []
        var firstParked = 0
        /// Of all that waits.
        var bytes = 0
        /// Of which devices something waits that shows only that they are alive.
        var unusable: [DeviceAddress] = []
        var isServed = false
        /// When something of it began last.
        var lastBegan = Int64.min
        /// Of the batch that is being put together, by its number.
        var batch = 0
        var place = Round.Place()
        var taken = 0
        var mustWait = false

        init(_ userID: UserID) { self.userID = userID }

        var parkedCount: Int { parked.count - firstParked }

        func unpark() -> Waiting {
            defer {
                firstParked += 1
                if firstParked == parked.count || firstParked >= 256 {
                    parked.removeFirst(firstParked)
                    firstParked = 0
                }
            }
            return parked[firstParked]
        }
    }

    fileprivate final class Waiting {
        let item: Round.Item
        let device: DeviceAddress
        let sender: Sender
        let bytes: Int
        let at: Int64
        /// When it was last seen to wait for others.
        var heldUntil = Int64.min

        init(item: Round.Item, device: DeviceAddress, sender: Sender, bytes: Int, at: Int64) {
            self.item = item
            self.device = device
            self.sender = sender
            self.bytes = bytes
            self.at = at
        }
    }

    /// Works that are served together, with their keys.
    final class Batch {
        fileprivate(set) var round = Round()
        fileprivate(set) var count = 0
        fileprivate var records: Set<RecordID> = []
        fileprivate var senders: [Sender] = []
    }

    /// How much of one user is served with that of others, and stands in the queue.
    static let mostOfUser = 16
    /// How much waits at most in all, in works and bytes.
    static let mostOfAll = 16_384
    static let mostBytesOfAll = 64 * 1024 * 1024
    /// How much of one user waits at most while nothing of others does. The more there is in all, the less one user may have: some
    /// seventh of what is free, and of bytes a fifteenth. So no number of users can fill the queue for others.
    static let mostWaiting = mostOfAll / 8
    static let mostBytes = mostBytesOfAll / 16

    /// In the order in which it came.
    private var waiting: [Waiting] = []
    private var senders: [UserID: Sender] = [:]
    /// Records that are being served.
    private var records: Set<RecordID> = []
    private var batches = 0
    private var parked = 0
    /// How many works have come since the last batch was put together, beside what is parked.
    private(set) var fresh = 0
    private var bytes = 0
    private var deadlines = DeadlineQueue()

    /// How many messages wait.
    var count: Int { waiting.count + parked }

    /// For how long the first one has been waiting that could begin.
    func lateness(_ now: Int64) -> Int64 { waiting.first(where: couldBegin).map { age($0, now) } ?? 0 }

    /// Nothing of its user is being served, nor its record.
    private func couldBegin(_ next: Waiting) -> Bool {
        !next.sender.isServed && !(next.item.record.map(records.contains) ?? false)
    }

    /// For how long it has been waiting for nobody but the service.
    private func age(_ next: Waiting, _ now: Int64) -> Int64 {
        now - max(next.at, next.sender.lastBegan, next.heldUntil)
    }

    /// False when there is no room for it. `bytes`: how long the message was.
    mutating func append(_ item: Round.Item, from device: DeviceAddress, _ bytes: Int, at now: Int64) -> Bool {
        let sender: Sender
        if let known = senders[device.userID] {
            sender = known
        } else {
            sender = Sender(device.userID)
            senders[device.userID] = sender
        }
        guard hasRoom(for: bytes, of: sender) else {
            forget(sender)
            return false
        }
        if case .nothing = item {
            // One of its kind shows the same.
            guard !sender.unusable.contains(device) else { return true }
            sender.unusable.append(device)
        }
        sender.bytes += bytes
        self.bytes += bytes
        let next = Waiting(item: item, device: device, sender: sender, bytes: bytes, at: now)
        if sender.waiting < Self.mostOfUser, sender.parkedCount == 0 {
            sender.waiting += 1
            fresh += 1
            waiting.append(next)
        } else {
            sender.parked.append(next)
            parked += 1
        }
        return true
    }

    private func hasRoom(for bytes: Int, of sender: Sender) -> Bool {
        let (works, size) = (sender.waiting + sender.parkedCount, sender.bytes + bytes)
        let (freeWorks, freeBytes) = (Self.mostOfAll - count, Self.mostBytesOfAll - self.bytes - bytes)
        return works * (Self.mostOfAll / Self.mostWaiting - 1) < freeWorks
            && size * (Self.mostBytesOfAll / Self.mostBytes - 1) <= freeBytes
    }

    /// What cannot be served in time any more.
    struct Late {
        /// Begins something: whoever asked is told so.
        var refused: [(item: Round.Item, device: DeviceAddress)] = []
        /// Goes on with something: it comes again by itself.
        var dropped = 0

        var isEmpty: Bool { refused.isEmpty && dropped == 0 }
    }

    /// For how long works wait that could begin, in milliseconds: those that begin something, and those that go on with something; and for how
    /// long anything waits, also for others of its own sender.
    struct Patience {
        let new: Int64
        let any: Int64
        let inAll: Int64
    }

    /// Takes out what has waited for too long. What comes afterwards is served before it would have been.
    mutating func takeLate(_ now: Int64, _ patience: Patience) -> Late {
        func isLate(_ next: Waiting) -> Bool {
            if now - next.at >= patience.inAll { return true }
            guard now - next.at >= patience.new, couldBegin(next) else { return false }
            return age(next, now) >= (next.item.isNew ? patience.new : patience.any)
        }
        var taken = Late()
        let late = waiting.filter(isLate)
        guard !late.isEmpty else { return taken }
        waiting = waiting.filter { !isLate($0) }
        for next in late { take(next, into: &taken) }
        // What is parked behind them came later, and may be late as well.
        for next in late where next.sender.waiting == 0 {
            while next.sender.parkedCount > 0, isLate(next.sender.parked[next.sender.firstParked]) {
                next.sender.waiting += 1
                parked -= 1
                take(next.sender.unpark(), into: &taken)
            }
            fill(next.sender)
        }
        return taken
    }

    private mutating func take(_ next: Waiting, into late: inout Late) {
        if next.item.isNew { late.refused.append((next.item, next.device)) } else { late.dropped += 1 }
        leave(next)
    }

    /// The next works that can begin, up to `limit` messages.
    mutating func next(_ limit: Int, _ now: Int64) -> Batch? {
        fresh = 0
        guard !waiting.isEmpty else { return nil }
        batches += 1
        let batch = Batch()
        var left: [Waiting] = []
        /// Of what must wait: what comes after it on the same record waits as well.
        var mustWait: Set<RecordID> = []
        for (place, next) in waiting.enumerated() {
            guard batch.count < limit else {
                left += waiting[place...]
                break
            }
            if mayBegin(next, beside: mustWait) {
                take(next, into: batch)
            } else {
                next.sender.mustWait = true
                next.heldUntil = now
                if let record = next.item.record { mustWait.insert(record) }
                left.append(next)
            }
        }
        waiting = left
        guard batch.count > 0 else { return nil }
        for sender in batch.senders {
            sender.isServed = true
            sender.lastBegan = now
        }
        records.formUnion(batch.records)
        return batch
    }

    private func mayBegin(_ next: Waiting, beside mustWait: Set<RecordID>) -> Bool {
        let sender = next.sender
        if sender.batch != batches {
            sender.batch = batches
            sender.place = Round.Place()
            sender.taken = 0
            sender.mustWait = sender.isServed
        }
        guard !sender.mustWait, sender.taken < Self.mostOfUser else { return false }
        if let record = next.item.record, records.contains(record) || mustWait.contains(record) { return false }
        return sender.place.takes(next.item, from: next.device)
    }

    private mutating func take(_ next: Waiting, into batch: Batch) {
        let sender = next.sender
        if let record = next.item.record, batch.records.insert(record).inserted, deadlines.join(record) {
            batch.round.addDeadline(of: record)
        }
        if sender.taken == 0 { batch.senders.append(sender) }
        sender.taken += 1
        batch.round.add(next.item, from: next.device)
        batch.count += 1
        leave(next)
    }

    private mutating func leave(_ next: Waiting) {
        next.sender.waiting -= 1
        next.sender.bytes -= next.bytes
        bytes -= next.bytes
        if case .nothing = next.item { next.sender.unusable.removeAll { $0 == next.device } }
    }

    private mutating func forget(_ sender: Sender) {
        if sender.waiting == 0, sender.parkedCount == 0, !sender.isServed { senders[sender.userID] = nil }
    }

    /// All that the batch does is done.
    mutating func finish(_ batch: Batch) {
        records.subtract(batch.records)
        for sender in batch.senders {
            sender.isServed = false
            fill(sender)
        }
    }

    /// What was parked comes into the queue as far as there is room for it; of whom nothing waits is forgotten.
    private mutating func fill(_ sender: Sender) {
        while sender.waiting < Self.mostOfUser, sender.parkedCount > 0 {
            sender.waiting += 1
            parked -= 1
            waiting.append(sender.unpark())
        }
        forget(sender)
    }

    // MARK: Deadlines

    var waitingDeadlines: Int { deadlines.count }
    /// How many own ones could begin.
    var readyDeadlines: Int { deadlines.ready { !records.contains($0) } }
    var hasFoundDeadlines: Bool { deadlines.hasFound }

    mutating func append(ownDeadlines ids: [RecordID]) { deadlines.add(own: ids) }

    mutating func append(foundDeadlines ids: [RecordID]) { deadlines.add(found: ids) }

    /// Takes deadlines of records that are not being served, up to `limit`; they are from now on.
    mutating func nextDeadlines(_ limit: Int) -> (ids: [RecordID], areOwn: Bool) {
        let next = deadlines.take(limit) { !records.contains($0) }
        records.formUnion(next.ids)
        return next
    }

    mutating func finish(_ ids: [RecordID]) { records.subtract(ids) }

    /// Something is being done on the record.
    func isServed(_ id: RecordID) -> Bool { records.contains(id) }

    /// Nothing that waits is to be served any more; what is being served is.
    mutating func removeAll() {
        waiting = []
        parked = 0
        bytes = 0
        fresh = 0
        for sender in senders.values {
            sender.waiting = 0
            sender.parked = []
            sender.firstParked = 0
            sender.bytes = 0
            sender.unusable = []
        }
        senders = senders.filter { $0.value.isServed }
    }
}
