import Glibc
import Support
import Synchronization

/// A bounded queue from other threads to a polling thread. Items beyond the bound are refused at once.
final class Inbox<Item: Sendable>: Sendable {
    private struct InboxState {
        var items: [Item] = []
        var isStopping = false
    }

    private let state = Mutex(InboxState())
    private let wakeUp: WakeUp
    private let most: Int

    var descriptor: Int32 { wakeUp.descriptor }
    var isStopping: Bool { state.withLock(\.isStopping) }

    init?(most: Int) {
        guard let wakeUp = WakeUp() else { return nil }
        self.wakeUp = wakeUp
        self.most = most
    }

    /// Returns false when the queue is full, or the receiving thread stops.
    func post(_ item: Item) -> Bool {
        let place: Int? = state.withLock { state in
            guard state.items.count < most, !state.isStopping else { return nil }
            state.items.append(item)
            return state.items.count
        }
        if place == 1 { wakeUp.wake() }
        return place != nil
    }

    func take() -> [Item] {
        wakeUp.clear()
        return state.withLock { state in
            defer { state.items = [] }
            return state.items
        }
    }

    func stop() {
        state.withLock { $0.isStopping = true }
        wakeUp.wake()
    }
}
