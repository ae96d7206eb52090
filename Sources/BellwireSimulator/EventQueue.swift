import CallCore

/// What is to happen, by virtual time; of one time, in the order in which it was asked for.
struct EventQueue {
    private struct Event {
        let at: Milliseconds
        let sequence: Int
        let action: () -> Void
    }

    private var heap: [Event] = []
    private var sequence = 0

    var next: Milliseconds? { heap.first?.at }

    mutating func add(at moment: Milliseconds, _ action: @escaping () -> Void) {
        sequence += 1
        heap.append(Event(at: moment, sequence: sequence, action: action))
        var child = heap.count - 1
        while child > 0, isEarlier(child, (child - 1) / 2) {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
    }

    mutating func take() -> (at: Milliseconds, action: () -> Void)? {
        guard let first = heap.first else { return nil }
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while 2 * parent + 1 < heap.count {
            var child = 2 * parent + 1
            if child + 1 < heap.count, isEarlier(child + 1, child) { child += 1 }
            guard isEarlier(child, parent) else { break }
            heap.swapAt(parent, child)
            parent = child
        }
        return (first.at, first.action)
    }

    private func isEarlier(_ one: Int, _ other: Int) -> Bool {
        (heap[one].at, heap[one].sequence) < (heap[other].at, heap[other].sequence)
    }
}
