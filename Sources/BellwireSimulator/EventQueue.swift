import CallCore

/// The actions that are still to run, ordered by virtual time. Actions of the same time run in the order in which they
/// were added.
struct EventQueue {
    private struct Event {
        let at: Milliseconds
        let sequence: Int
        let action: () -> Void

        func isBefore(_ other: Event) -> Bool { at != other.at ? at < other.at : sequence < other.sequence }
    }

    private var heap: [Event] = []
    private var sequence = 0

    var next: Milliseconds? { heap.first?.at }

    mutating func add(at moment: Milliseconds, _ action: @escaping () -> Void) {
        sequence += 1
        let event = Event(at: moment, sequence: sequence, action: action)
        heap.append(event)
        var place = heap.count - 1
        while place > 0, event.isBefore(heap[(place - 1) / 2]) {
            heap[place] = heap[(place - 1) / 2]
            place = (place - 1) / 2
        }
        heap[place] = event
    }

    mutating func take() -> (at: Milliseconds, action: () -> Void)? {
        guard let first = heap.first else { return nil }
        let last = heap.removeLast()
        if !heap.isEmpty { sink(last) }
        return (first.at, first.action)
    }

    /// Moves `event` down from the top of the heap, which is free.
    private mutating func sink(_ event: Event) {
        var place = 0
        while 2 * place + 1 < heap.count {
            var child = 2 * place + 1
            if child + 1 < heap.count, heap[child + 1].isBefore(heap[child]) { child += 1 }
            guard heap[child].isBefore(event) else { break }
            heap[place] = heap[child]
            place = child
        }
        heap[place] = event
    }
}
