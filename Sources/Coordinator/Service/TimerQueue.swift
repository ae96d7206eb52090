import CallCore
import CallStore

/// The deadlines that this coordinator committed, the earliest first. Losing this queue loses no deadline: the store's
/// due index holds the same deadlines for all coordinators.
struct TimerQueue {
    private struct TimerEntry {
        let at: Milliseconds
        let id: RecordID
        /// Whether only resends are due at this time.
        let isResend: Bool
    }

    /// The bound on the number of deadlines; the due index alone serves further deadlines.
    static let capacity = 1_000_000
    /// The bound on the number of records that are known to be put off; a sweep may serve further records early.
    static let mostPutOff = 4_096

    private var heap: [TimerEntry] = []
    /// The deadline that counts for each call or message; older entries of the heap are passed over.
    private var current: [RecordID: Milliseconds] = [:]
    /// The records whose resends were put off. The due index still holds their earlier deadline; sweeps must not serve
    /// that deadline.
    private(set) var putOff: Set<RecordID> = []

    var count: Int { current.count }
    var next: Milliseconds? { heap.first?.at }

    /// Sets the record's deadline, or removes the deadline with nil. `isResend` says that only resends are due then.
    mutating func set(_ id: RecordID, at moment: Milliseconds?, isResend: Bool = false) {
        if !putOff.isEmpty { putOff.remove(id) }
        guard let moment else {
            current[id] = nil
            return
        }
        guard current[id] != moment, current.count < Self.capacity else { return }
        current[id] = moment
        heap.append(TimerEntry(at: moment, id: id, isResend: isResend))
        siftUp(heap.count - 1)
    }

    /// Takes out up to `limit` calls and messages with a deadline that has come.
    mutating func take(until now: Milliseconds, limit: Int) -> [RecordID] {
        var due: [RecordID] = []
        while due.count < limit, let first = heap.first, first.at <= now {
            removeFirst()
            guard current[first.id] == first.at else { continue }
            current[first.id] = nil
            if !putOff.isEmpty { putOff.remove(first.id) }
            due.append(first.id)
        }
        dropPassedOver()
        return due
    }

    /// Puts off the resends that are due, up to `limit`, by `delay`. Returns how many were put off.
    mutating func putOffResends(until now: Milliseconds, by delay: Milliseconds, limit: Int) -> Int {
        var kept: [TimerEntry] = []
        var count = 0
        while count + kept.count < limit, let first = heap.first, first.at <= now {
            removeFirst()
            guard current[first.id] == first.at else { continue }
            guard first.isResend else {
                kept.append(first)
                continue
            }
            current[first.id] = nil
            set(first.id, at: now + delay, isResend: true)
            if putOff.count < Self.mostPutOff { putOff.insert(first.id) }
            count += 1
        }
        for entry in kept {
            heap.append(entry)
            siftUp(heap.count - 1)
        }
        dropPassedOver()
        return count
    }

    /// Removes entries that no longer count, so that `next` is right and the heap stays small.
    private mutating func dropPassedOver() {
        while let first = heap.first, current[first.id] != first.at { removeFirst() }
        guard heap.count > 1024, heap.count > 4 * current.count else { return }
        var seen: Set<RecordID> = []
        heap = heap.filter { current[$0.id] == $0.at && seen.insert($0.id).inserted }.sorted {
            ($0.at, $0.id) < ($1.at, $1.id)
        }
    }

    private mutating func removeFirst() {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        siftDown()
    }

    private mutating func siftUp(_ start: Int) {
        var child = start
        while child > 0, heap[child].at < heap[(child - 1) / 2].at {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    private mutating func siftDown() {
        var parent = 0
        while 2 * parent + 1 < heap.count {
            var child = 2 * parent + 1
            if child + 1 < heap.count, heap[child + 1].at < heap[child].at { child += 1 }
            guard heap[child].at < heap[parent].at else { return }
            heap.swapAt(parent, child)
            parent = child
        }
    }
}
