import CallCore
import CallStore
import SignalingProtocol

/// The queued requests, and the keys of the requests that are being served (docs/decisions/0018).
///
/// Each request has keys: its user, and the record in the request. Requests with a common key are served in the order
/// of their arrival. A request begins when no earlier request has a common key, and holds its keys until all its
/// effects are done.
///
/// The burst of a user is spread among the requests of other users: beyond `mostOfUser` requests, the user's further
/// requests wait in a separate line (`parked`) until earlier requests end. A request is refused when the queue has no
/// room.
///
/// More than 200 lines: the lines of users and of records are a single structure, and two parts could disagree.
struct WorkQueue {
    /// A user with requests that wait or are being served.
    fileprivate final class Sender {
        let userID: UserID
        /// The number of the user's requests in `WorkQueue.waiting`.
        var waiting = 0
        /// The user's further requests in the order of their arrival, from `firstParked` on.
        var parked: [QueuedRequest] = []
        var firstParked = 0
        /// The bytes of all the user's queued requests.
        var bytes = 0
        /// The devices with a queued message that only shows that they are alive.
        var unusable: [DeviceAddress] = []
        var isServed = false
        /// The time when a request of this user last began.
        var lastBegan = Int64.min
        /// The number of the batch that the following properties belong to.
        var batch = 0
        var part = Batch.UserPart()
        var taken = 0
        var mustWait = false

        init(_ userID: UserID) { self.userID = userID }

        var parkedCount: Int { parked.count - firstParked }

        func unpark() -> QueuedRequest {
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

    fileprivate final class QueuedRequest {
        let content: RequestContent
        let device: DeviceAddress
        let sender: Sender
        let bytes: Int
        let at: Int64
        /// The time when the request last had to wait for another request.
        var heldUntil = Int64.min

        init(content: RequestContent, device: DeviceAddress, sender: Sender, bytes: Int, at: Int64) {
            self.content = content
            self.device = device
            self.sender = sender
            self.bytes = bytes
            self.at = at
        }
    }

    /// Requests that are served together, with their keys.
    final class KeyedBatch {
        fileprivate(set) var batch = Batch()
        fileprivate(set) var count = 0
        fileprivate var records: Set<RecordID> = []
        fileprivate var senders: [Sender] = []
    }

    /// The bound on a user's requests in a batch, and in `waiting`.
    static let mostOfUser = 16
    /// The bounds on all queued requests and their bytes.
    static let mostOfAll = 16_384
    static let mostBytesOfAll = 64 * 1024 * 1024
    /// The bounds on a user's queued requests and bytes while the queue is otherwise empty. The fuller the queue, the
    /// less each user may add: a seventh of the free requests and a fifteenth of the free bytes. Users, however many,
    /// can therefore not fill the queue for other users.
    static let mostWaiting = mostOfAll / 8
    static let mostBytes = mostBytesOfAll / 16

    /// The requests in the order of their arrival.
    private var waiting: [QueuedRequest] = []
    private var senders: [UserID: Sender] = [:]
    /// The records that are being served.
    private var records: Set<RecordID> = []
    private var batches = 0
    private var parked = 0
    /// The number of requests that were added to `waiting` since the last batch was put together.
    private(set) var fresh = 0
    private var bytes = 0
    private var deadlines = DeadlineQueue()

    /// The number of queued requests.
    var count: Int { waiting.count + parked }

    /// Returns for how many milliseconds the first request that could begin has been waiting.
    func lateness(_ now: Int64) -> Int64 {
        // A closure over `self` would copy the queue, in each turn.
        for next in waiting where couldBegin(next) { return age(next, now) }
        return 0
    }

    /// Whether neither the request's user nor its record is being served.
    private func couldBegin(_ next: QueuedRequest) -> Bool {
        !next.sender.isServed && !(next.content.record.map(records.contains) ?? false)
    }

    /// Returns for how long the request has been waiting for the service alone, and not for other requests.
    private func age(_ next: QueuedRequest, _ now: Int64) -> Int64 {
        now - max(next.at, next.sender.lastBegan, next.heldUntil)
    }

    /// Adds a request; `bytes` is the length of its message. Returns false when the queue has no room.
    mutating func append(_ content: RequestContent, from device: DeviceAddress, _ bytes: Int, at now: Int64) -> Bool {
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
        if case .nothing = content {
            // A second message of this kind would add no information.
            guard !sender.unusable.contains(device) else { return true }
            sender.unusable.append(device)
        }
        sender.bytes += bytes
        self.bytes += bytes
        let next = QueuedRequest(content: content, device: device, sender: sender, bytes: bytes, at: now)
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

    /// The requests that can no longer be served in time.
    struct Late {
        /// The requests that begin new work; their devices get an error.
        var refused: [(content: RequestContent, device: DeviceAddress)] = []
        /// The number of messages that continue work that has begun; their devices send again.
        var dropped = 0

        var isEmpty: Bool { refused.isEmpty && dropped == 0 }
    }

    /// The bounds on waiting, in milliseconds: for requests of new work that could begin, for other messages that could
    /// begin, and for all requests, also while they wait for another request of their sender.
    struct Patience {
        let new: Int64
        let any: Int64
        let inAll: Int64
    }

    /// Takes out the requests that have waited for too long, so that later requests are served earlier.
    mutating func takeLate(_ now: Int64, _ patience: Patience) -> Late {
        func isLate(_ next: QueuedRequest) -> Bool {
            if now - next.at >= patience.inAll { return true }
            guard now - next.at >= patience.new, couldBegin(next) else { return false }
            return age(next, now) >= (next.content.isNew ? patience.new : patience.any)
        }
        var taken = Late()
        let late = waiting.filter(isLate)
        guard !late.isEmpty else { return taken }
        waiting = waiting.filter { !isLate($0) }
        for next in late { take(next, into: &taken) }
        // A late request may have parked requests of the same sender behind it. The parked requests came later, but may
        // also have waited for too long.
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

    private mutating func take(_ next: QueuedRequest, into late: inout Late) {
        if next.content.isNew { late.refused.append((next.content, next.device)) } else { late.dropped += 1 }
        leave(next)
    }

    /// Returns a batch of the next requests that can begin, up to `limit`.
    mutating func next(_ limit: Int, _ now: Int64) -> KeyedBatch? {
        fresh = 0
        guard !waiting.isEmpty else { return nil }
        batches += 1
        let keyed = KeyedBatch()
        var left: [QueuedRequest] = []
        /// The records of requests that must wait. Later requests on the same records wait too.
        var mustWait: Set<RecordID> = []
        for (place, next) in waiting.enumerated() {
            guard keyed.count < limit else {
                left += waiting[place...]
                break
            }
            if mayBegin(next, beside: mustWait) {
                take(next, into: keyed)
            } else {
                next.sender.mustWait = true
                next.heldUntil = now
                if let record = next.content.record { mustWait.insert(record) }
                left.append(next)
            }
        }
        waiting = left
        guard keyed.count > 0 else { return nil }
        for sender in keyed.senders {
            sender.isServed = true
            sender.lastBegan = now
        }
        records.formUnion(keyed.records)
        return keyed
    }

    private func mayBegin(_ next: QueuedRequest, beside mustWait: Set<RecordID>) -> Bool {
        let sender = next.sender
        if sender.batch != batches {
            sender.batch = batches
            sender.part = Batch.UserPart()
            sender.taken = 0
            sender.mustWait = sender.isServed
        }
        guard !sender.mustWait, sender.taken < Self.mostOfUser else { return false }
        if let record = next.content.record, records.contains(record) || mustWait.contains(record) { return false }
        return sender.part.takes(next.content, from: next.device)
    }

    private mutating func take(_ next: QueuedRequest, into keyed: KeyedBatch) {
        let sender = next.sender
        if let record = next.content.record, keyed.records.insert(record).inserted, deadlines.join(record) {
            keyed.batch.addDeadline(of: record)
        }
        if sender.taken == 0 { keyed.senders.append(sender) }
        sender.taken += 1
        keyed.batch.add(next.content, from: next.device)
        keyed.count += 1
        leave(next)
    }

    private mutating func leave(_ next: QueuedRequest) {
        next.sender.waiting -= 1
        next.sender.bytes -= next.bytes
        bytes -= next.bytes
        if case .nothing = next.content { next.sender.unusable.removeAll { $0 == next.device } }
    }

    private mutating func forget(_ sender: Sender) {
        if sender.waiting == 0, sender.parkedCount == 0, !sender.isServed { senders[sender.userID] = nil }
    }

    /// Releases the keys of a batch, once all its effects are done.
    mutating func finish(_ keyed: KeyedBatch) {
        records.subtract(keyed.records)
        for sender in keyed.senders {
            sender.isServed = false
            fill(sender)
        }
    }

    /// Moves the user's parked requests into `waiting` as far as the bound allows, and forgets a user without requests.
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
    /// The number of own deadlines that can begin.
    var readyDeadlines: Int { deadlines.ready { !records.contains($0) } }
    var hasFoundDeadlines: Bool { deadlines.hasFound }

    mutating func append(ownDeadlines ids: [RecordID]) { deadlines.add(own: ids) }

    mutating func append(foundDeadlines ids: [RecordID]) { deadlines.add(found: ids) }

    /// Takes up to `limit` deadlines of records that are not being served, and marks the records as being served.
    mutating func nextDeadlines(_ limit: Int) -> (ids: [RecordID], areOwn: Bool) {
        let next = deadlines.take(limit) { !records.contains($0) }
        records.formUnion(next.ids)
        return next
    }

    mutating func finish(_ ids: [RecordID]) { records.subtract(ids) }

    /// Whether the record is being served.
    func isServed(_ id: RecordID) -> Bool { records.contains(id) }

    /// Removes all queued requests. Requests that are being served continue.
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
