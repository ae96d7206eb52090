import CallCore
import Coordinator

/// A coordinator of a world: the loop as it runs, with the world's clock and broker in place of sockets and a clock.
final class WorldCoordinator {
    let service: CallService
    private let loop: CoordinatorLoop
    private unowned let world: World
    /// The messages that the broker has handed to the coordinator and that the coordinator has not read; nil without
    /// such messages.
    private var inbox: [InboundMessage]?
    /// The coordinator is handling an event. A test that lets another coordinator act meanwhile is called from there.
    private(set) var isAtWork = false

    init(_ service: CallService, in world: World) {
        self.service = service
        self.world = world
        service.stopwatch = { world.clock.now * 1_000 }
        // Each random pause is as short as possible: the coordinator sweeps every 500 ms.
        loop = CoordinatorLoop(service, clock: { world.clock.now }) { $0.lowerBound }
    }

    var isListening: Bool { loop.isListening }

    /// The latest moment at which the coordinator wants its turn.
    var nextTurn: Milliseconds { loop.nextTick }

    func receive(_ messages: [InboundMessage]) {
        inbox = (inbox ?? []) + messages
        takeTurn()
    }

    /// Does all work that can be done now.
    func takeTurn() {
        // Messages that come while an event is handled wait for the end of that event.
        guard !isAtWork else { return }
        repeat {
            handle(inbox.take().map { .received($0) } ?? .tick)
        } while inbox != nil || nextTurn <= world.clock.now
    }

    /// The coordinator dies with all that it had in memory.
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
        // The acks go separately: the broker hands each ack to any coordinator.
        for ack in acks { world.send([ack]) }
    }
}
