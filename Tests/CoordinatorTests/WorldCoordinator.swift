import CallCore
import Coordinator

/// A coordinator of a world: the loop as it runs, with the world's clock and broker in place of sockets and a clock.
final class WorldCoordinator {
    let service: CallService
    private let loop: CoordinatorLoop
    private unowned let world: World
    /// What the broker has handed to it and it has not read; nil when that is nothing.
    private var inbox: [InboundMessage]?
    /// It is in the middle of something: a test that lets somebody else in meanwhile is called from there.
    private(set) var isAtWork = false

    init(_ service: CallService, in world: World) {
        self.service = service
        self.world = world
        service.stopwatch = { world.clock.now * 1_000 }
        // No draw is longer than it must be: it sweeps every 500 ms.
        loop = CoordinatorLoop(service, clock: { world.clock.now }) { $0.lowerBound }
    }

    var isListening: Bool { loop.isListening }

    /// When it wants its turn at the latest.
    var nextTurn: Milliseconds { loop.nextTick }

    func receive(_ messages: [InboundMessage]) {
        inbox = (inbox ?? []) + messages
        takeTurn()
    }

    /// Does what can be done now.
    func takeTurn() {
        // What comes in the middle of something waits for its end.
        guard !isAtWork else { return }
        repeat {
            handle(inbox.take().map { .received($0) } ?? .tick)
        } while inbox != nil || nextTurn <= world.clock.now
    }

    /// With all that it had in memory.
    func die() { loop.giveUp() }

    private func handle(_ event: CoordinatorLoop.Event) {
        isAtWork = true
        let actions = loop.handle(event, now: world.clock.now)
        isAtWork = false
        var answers: [CoordinatorLoop.Event] = []
        var acks: [InboundMessage] = []
        for action in actions {
            switch action {
            case .connect: answers.append(.connected())
            case .subscribe, .unsubscribe: answers.append(.answered())
            case .publish(let messages, at: _, let by):
                guard world.clock.now < by, !world.diesBeforePublishing else { continue }
                acks += world.publish(messages)
                service.handedOver(messages)
                let receipts = messages.filter { $0.receiptOf != nil }
                if !receipts.isEmpty { answers.append(.taken(receipts)) }
            case .disconnect, .sendCanary, .sendDisabledUsers, .subscribeRelay, .unsubscribeRelay, .note, .end: break
            }
        }
        for answer in answers { handle(answer) }
        // One by one: the broker hands each to whichever coordinator it likes.
        for ack in acks { world.send([ack]) }
    }
}
