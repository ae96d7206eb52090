import CallCore
import CallDeciding
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
    /// How much of one user waits at most, in works and bytes.
    static let mostWaiting = 2_048
    static let mostBytes = 4 * 1024 * 1024
    /// How much waits at most in all.
    static let mostOfAll = 16_384
    static let mostBytesOfAll = 64 * 1024 * 1024

    /// In the order in which it came.
    private var waiting: [Waiting] = []
    private var senders: [UserID: Sender] = [:]
    /// Records that are being served.
    private var records: Set<RecordID> = []
    private var batches = 0
    private var parked = 0
    private var bytes = 0

    /// How many messages wait.
    var count: Int { waiting.count + parked }

    /// For how long the first one has been waiting that nobody waits for.
    func lateness(_ now: Int64) -> Int64 {
        waiting.first { !$0.sender.isServed }.map { now - max($0.at, $0.sender.lastBegan) } ?? 0
    }

    /// False when there is no room for it. `bytes`: how long the message was.
    mutating func append(_ item: Round.Item, from device: DeviceAddress, _ bytes: Int, at now: Int64) -> Bool {
        guard count < Self.mostOfAll, self.bytes + bytes <= Self.mostBytesOfAll else { return false }
        let sender: Sender
        if let known = senders[device.userID] {
            sender = known
        } else {
            sender = Sender(device.userID)
            senders[device.userID] = sender
        }
        guard sender.waiting + sender.parkedCount < Self.mostWaiting, sender.bytes + bytes <= Self.mostBytes else {
            forget(sender)
            return false
        }
        sender.bytes += bytes
        self.bytes += bytes
        let next = Waiting(item: item, device: device, sender: sender, bytes: bytes, at: now)
        if sender.waiting < Self.mostOfUser, sender.parkedCount == 0 {
            sender.waiting += 1
            waiting.append(next)
        } else {
            sender.parked.append(next)
            parked += 1
        }
        return true
    }

    /// Drops what could have begun for `patience`; what waits for others of its own sender waits since the last one of them began. Returns how
    /// much it was.
    mutating func dropStale(_ now: Int64, patience: Int64) -> Int {
        func isStale(_ next: Waiting) -> Bool {
            !next.sender.isServed && now - max(next.at, next.sender.lastBegan) >= patience
        }
        let stale = waiting.filter(isStale)
        guard !stale.isEmpty else { return 0 }
        let before = count
        waiting.removeAll(where: isStale)
        for next in stale { leave(next) }
        // What is parked behind them came later, and may be stale as well.
        for next in stale where next.sender.waiting == 0 {
            while next.sender.parkedCount > 0, isStale(next.sender.parked[next.sender.firstParked]) {
                next.sender.waiting += 1
                parked -= 1
                leave(next.sender.unpark())
            }
            fill(next.sender)
        }
        return before - count
    }

    /// The next works that can begin, up to `limit` messages.
    mutating func next(_ limit: Int, _ now: Int64) -> Batch? {
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
        batch.round.add(next.item, from: next.device)
        batch.count += 1
        if let record = next.item.record { batch.records.insert(record) }
        if sender.taken == 0 { batch.senders.append(sender) }
        sender.taken += 1
        leave(next)
    }

    private mutating func leave(_ next: Waiting) {
        next.sender.waiting -= 1
        next.sender.bytes -= next.bytes
        bytes -= next.bytes
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

    /// Takes those of the records that are not being served, up to `limit`; they are from now on.
    mutating func begin(_ ids: inout [RecordID], limit: Int) -> [RecordID] {
        var taken: [RecordID] = []
        var left: [RecordID] = []
        for id in ids {
            if taken.count < limit, records.insert(id).inserted { taken.append(id) } else { left.append(id) }
        }
        ids = left
        return taken
    }

    mutating func finish(_ ids: [RecordID]) { records.subtract(ids) }

    /// Nothing that waits is to be served any more; what is being served is.
    mutating func removeAll() {
        waiting = []
        parked = 0
        bytes = 0
        for sender in senders.values {
            sender.waiting = 0
            sender.parked = []
            sender.firstParked = 0
            sender.bytes = 0
        }
        senders = senders.filter { $0.value.isServed }
    }
}
