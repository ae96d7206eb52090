import CallCore
import CallStore
import Coordinator

/// A coordinator's loop, with a broker that loses no message and a store that answers at once.
final class FuzzedCoordinator {
    private let loop: CoordinatorLoop
    private let clock: () -> Int64

    init(_ store: any CallStore, clock: @escaping () -> Int64) {
        self.clock = clock
        loop = CoordinatorLoop(CallService(store: store, settings: ServiceSettings()), clock: clock) { $0.lowerBound }
        _ = serve([])
    }

    /// Serves these messages and the due deadlines. Returns the messages that the coordinator publishes.
    @discardableResult
    func serve(_ messages: [InboundMessage]) -> [OutboundMessage] {
        var published = handle(messages.isEmpty ? .tick : .received(messages))
        var turns = 0
        while loop.nextTick <= clock() {
            published += handle(.tick)
            turns += 1
            precondition(turns < 1_000, "it never comes to rest")
        }
        return published
    }

    private func handle(_ event: CoordinatorLoop.Event) -> [OutboundMessage] {
        var published: [OutboundMessage] = []
        for action in loop.handle(event, now: clock()) {
            switch action {
            case .connect: published += handle(.connected())
            case .subscribe, .unsubscribe: published += handle(.answered())
            case .publish(let messages, at: _, by: _):
                published += messages
                let receipts = messages.filter { $0.receiptOf != nil }
                if !receipts.isEmpty { published += handle(.taken(receipts)) }
            case .disconnect, .sendCanary, .sendDisabledUsers, .subscribeRelay, .unsubscribeRelay, .note, .end: break
            }
        }
        return published
    }
}
