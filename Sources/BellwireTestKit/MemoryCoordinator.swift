import BellwireClientCore
import CallCore
import CallStore
import Coordinator
import Dispatch
import Support
import Synchronization

/// The coordinator's loop on a thread of its own, with a store in memory.
final class MemoryCoordinator: Sendable {
    private struct State {
        var isStopping = false
        var isToBeReplaced = false
    }

    private let settings: ServiceSettings
    private let broker: MemoryBroker
    private let mediaSession: (@Sendable (CallID, UserID, DeviceID) -> BellwireMediaSession?)?
    private let state = Mutex(State())
    /// Ends the thread's wait.
    private let wakeUp = DispatchSemaphore(value: 0)

    init(
        _ settings: ServiceSettings, _ broker: MemoryBroker,
        _ mediaSession: (@Sendable (CallID, UserID, DeviceID) -> BellwireMediaSession?)?
    ) {
        self.settings = settings
        self.broker = broker
        self.mediaSession = mediaSession
        broker.setWake { [wakeUp] in wakeUp.signal() }
    }

    func start() {
        guard startDetachedThread({ self.run() }) else { preconditionFailure("no thread for the service") }
    }

    func stop() {
        state.withLock { $0.isStopping = true }
        wakeUp.signal()
    }

    /// Replaces the coordinator: its memory is lost, the store stays.
    func replace() {
        state.withLock { $0.isToBeReplaced = true }
        wakeUp.signal()
    }

    // MARK: The thread

    private func run() {
        let store = MemoryCallStore(lease: settings.presence.lease) { SystemClock.wall.milliseconds }
        while !state.withLock(\.isStopping) {
            state.withLock { $0.isToBeReplaced = false }
            let service = CallService(store: store, settings: settings)
            if let mediaSession {
                service.mediaSession = { member, _ in
                    mediaSession(member.callID, member.device.userID, member.device.deviceID)
                }
            }
            let loop = CoordinatorLoop(
                service, clock: { SystemClock.boot.milliseconds },
                random: { .random(in: $0) })
            serve(loop)
            loop.giveUp()
        }
    }

    private var now: Int64 { SystemClock.boot.milliseconds }

    private func serve(_ loop: CoordinatorLoop) {
        var events: [CoordinatorLoop.Event] = [.tick]
        while !state.withLock({ $0.isStopping || $0.isToBeReplaced }) {
            if events.isEmpty {
                let messages = loop.isListening ? broker.takeInbox() : []
                events.append(messages.isEmpty ? .tick : .received(messages))
            }
            let event = events.removeFirst()
            for action in loop.handle(event, now: now) { perform(action, &events) }
            guard events.isEmpty else { continue }
            let pause = max(0, loop.nextTick - now)
            _ = wakeUp.wait(timeout: .now() + .milliseconds(Int(pause)))
        }
    }

    private func perform(_ action: CoordinatorLoop.Action, _ events: inout [CoordinatorLoop.Event]) {
        switch action {
        case .connect: events.append(.connected())
        case .subscribe, .unsubscribe: events.append(.answered())
        case .publish(let messages, at: _, by: _):
            broker.deliver(messages)
            let receipts = messages.filter { $0.receiptOf != nil }
            if !receipts.isEmpty { events.append(.taken(receipts)) }
        case .disconnect, .sendCanary, .sendDisabledUsers, .subscribeRelay, .unsubscribeRelay, .note, .end: break
        }
    }
}
