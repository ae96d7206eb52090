import CallCore
import CallStore
import Coordinator
import SignalingProtocol

/// The clock of a world, which only a test moves.
final class Clock {
    var now: Milliseconds = 1_790_000_000_000
}

/// Phones, a broker that loses messages only when told to, coordinators and their store, in virtual time.
///
/// The world hands each inbound message to a single coordinator, as a shared subscription does. The loop that the
/// program runs serves each deadline at its moment. The messages that the coordinators publish reach the phones at
/// once, and the acks of the phones come back at once.
final class World {
    let clock: Clock
    let memory: MemoryCallStore
    let settings: ServiceSettings
    private(set) var coordinators: [WorldCoordinator] = []
    private(set) var phones: [Phone] = []
    /// All published messages, also messages that were lost on the way.
    private(set) var published: [Published] = []
    /// The same messages; messages that were published together stand together.
    private(set) var publications: [[Published]] = []
    /// While true, the broker takes the messages of the coordinators and delivers none.
    var losesPublications = false
    /// While true, no message that the coordinators want to publish gets as far as the broker: they are about to die.
    var diesBeforePublishing = false
    /// The index of the coordinator that gets the next message; the coordinators take turns unless a test says
    /// otherwise.
    var route: (_ turn: Int) -> Int = { $0 }
    private var turn = 0
    private var taken = 0
    private let start: Milliseconds
    private var requests = 0

    /// How often a coordinator searches the store's due index, and how long the found deadlines are overdue.
    static let sweepInterval: Milliseconds = 500

    init(
        coordinators: Int = 1, _ settings: ServiceSettings = .init(),
        store: ((MemoryCallStore) -> any CallStore)? = nil
    ) {
        let clock = Clock()
        let memory = MemoryCallStore { clock.now }
        self.clock = clock
        self.memory = memory
        self.settings = settings
        start = clock.now
        begin(coordinators, store?(memory) ?? memory, settings)
    }

    var services: [CallService] { coordinators.map(\.service) }
    var service: CallService { services[0] }
    /// Milliseconds since the world began.
    var elapsed: Milliseconds { clock.now - start }

    // MARK: Phones

    /// Returns a phone that is online; `name` is `user/device`. The phone acks by itself unless told otherwise.
    @discardableResult
    func phone(_ name: String, acks: Bool = true) -> Phone {
        let phone = stranger(name, acks: acks)
        phone.comeOnline()
        return phone
    }

    /// Returns a phone that listens and sends but never publishes presence.
    func stranger(_ name: String, acks: Bool = true) -> Phone {
        let phone = Phone(name, in: self, acks: acks)
        phones.append(phone)
        return phone
    }

    func nextRequestID() -> RequestID {
        requests += 1
        return RequestID("r\(requests)")!
    }

    // MARK: Messages

    /// Hands messages that have come together to a coordinator that listens.
    func send(_ batch: [InboundMessage]) {
        let group = coordinators.filter(\.isListening)
        let coordinator = group[route(turn) % group.count]
        turn += 1
        coordinator.receive(batch)
    }

    func send(_ batch: [InboundMessage], to index: Int) { coordinators[index].receive(batch) }

    func send(_ topic: String, _ payload: String, isRetained: Bool = false) {
        send([InboundMessage(topic: topic, payload: Array(payload.utf8), isRetained: isRetained)])
    }

    /// Takes the messages that a coordinator publishes; returns the messages that the phones send back.
    func publish(_ messages: [OutboundMessage]) -> [InboundMessage] {
        let prefix = "\(settings.topics.root)/down/"
        let before = published.count
        var acks: [InboundMessage] = []
        for message in messages {
            precondition(message.topic.hasPrefix(prefix), "published to \(message.topic)")
            precondition(message.payload.count <= Limits.downBytes, "\(message.payload.count) bytes published")
            let entry = Published(
                at: elapsed, topic: String(message.topic.dropFirst(prefix.count)), payload: message.payload,
                correlationData: message.correlationData, expirySeconds: message.expirySeconds,
                message: DownMessage.decode(message.payload)!)
            published.append(entry)
            guard !losesPublications else { continue }
            for phone in phones where phone.listens(to: entry.topic) { acks += phone.receive(entry) }
        }
        publications.append(Array(published[before...]))
        return acks
    }

    /// Returns the lines published since the last look, also for events that phones acked at once.
    func lines() -> [String] {
        defer { taken = published.count }
        return published[taken...].map(\.line)
    }

    /// Returns the same lines, each with the second of its publication.
    func timedLines() -> [String] {
        defer { taken = published.count }
        return published[taken...].map { "\(Double($0.at) / 1000) \($0.line)" }
    }

    func events(to topic: String) -> [Published] { published.filter { $0.topic == topic && $0.event != nil } }

    // MARK: Time

    func pass(seconds: Int) { pass(Milliseconds(seconds) * 1000) }

    /// Lets time pass, from each moment at which a coordinator wants its turn to the next such moment.
    func pass(_ milliseconds: Milliseconds) {
        let end = clock.now + milliseconds
        while let next = coordinators.map(\.nextTurn).min(), next <= end {
            clock.now = max(clock.now, next)
            for coordinator in coordinators where coordinator.nextTurn <= clock.now { coordinator.takeTurn() }
        }
        clock.now = end
    }

    // MARK: Life and death

    /// Every coordinator dies with all that it had in memory; new coordinators take over and sweep at once.
    func restart(store: (any CallStore)? = nil, _ settings: ServiceSettings? = nil) {
        let count = coordinators.count
        while !coordinators.isEmpty { kill(0) }
        begin(count, store ?? memory, settings ?? self.settings)
    }

    func kill(_ index: Int) { coordinators.remove(at: index).die() }

    /// Starts another coordinator, which sweeps at once.
    func join() { begin(1, memory, settings) }

    private func begin(_ count: Int, _ store: any CallStore, _ settings: ServiceSettings) {
        let new = (0..<count).map { _ in WorldCoordinator(CallService(store: store, settings: settings), in: self) }
        coordinators += new
        new.forEach { $0.takeTurn() }
    }

    // MARK: The content of the store

    func stored(_ callID: CallID) -> Call? {
        guard case .call(let call)? = memory.load([RecordID.call(callID)])[0]?.record else { return nil }
        return call
    }
}
