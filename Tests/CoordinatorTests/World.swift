import CallCore
import CallDeciding
import CallStore
import Coordinator
import SignalingProtocol

/// The clock of a world. Nothing moves but when a test says so.
final class Clock {
    var now: Milliseconds = 1_790_000_000_000
}

/// A message that the service published, with when.
struct Published {
    let at: Milliseconds
    /// The levels below `down/`.
    let topic: String
    let payload: [UInt8]
    let correlationData: [UInt8]?
    let expirySeconds: UInt32
    let message: DownMessage

    var event: Event? { if case .event(let event) = message { event } else { nil } }
    var response: Response? { if case .response(let response) = message { response } else { nil } }

    /// The message in short: topic, then the event with its revision, or the outcome.
    var line: String {
        switch message {
        case .event(let event): "\(topic) \(event.name.rawValue) \(event.revision)"
        case .response(let response):
            switch response.outcome {
            case .success(let success): "\(topic) ok \(success.call.revision)" + (success.merged ? " merged" : "")
            case .answer(.message(let id, _, let state)): "\(topic) ok \(id) \(state.rawValue)"
            case .answer: "\(topic) ok"
            case .failure(let error): "\(topic) \(error.code)" + (error.state.map { " " + $0 } ?? "")
            }
        case .welcome(let welcome):
            "\(topic) welcome \(welcome.session)" + welcome.calls.map { " \($0.callID)" }.joined()
        case .error(let error): "\(topic) error \(error.code)"
        case .signal(let signal): "\(topic) signal \(signal.data)"
        case .message(let message): "\(topic) message \(message.messageID) \(message.data)"
        case .receipt(let receipt): "\(topic) receipt \(receipt.messageID) \(receipt.state.rawValue)"
        case .tokenWillExpire: "\(topic) tokenWillExpire"
        }
    }
}

/// Phones, a broker that loses nothing unless told to, coordinators and their store, in virtual time.
///
/// Each inbound message is handed to one coordinator, as a shared subscription does; deadlines and sweeps are served
/// when they are due. What the coordinators publish reaches the phones at once, and their acks come back at once.
final class World {
    let clock: Clock
    let memory: MemoryCallStore
    let settings: ServiceSettings
    var services: [CallService]
    private(set) var phones: [Phone] = []
    /// Everything that was published, also what was lost on the way.
    private(set) var published: [Published] = []
    /// While true the broker takes what the coordinators publish and nobody gets it.
    var losesPublications = false
    /// Which coordinator gets the next message; in turns unless a test says otherwise.
    var route: (_ turn: Int) -> Int = { $0 }
    private var turn = 0
    private var taken = 0
    private var nextSweep: Milliseconds
    private let start: Milliseconds
    private var requests = 0

    /// How often a coordinator looks at the store's due index, and for how long overdue.
    static let sweepInterval: Milliseconds = 500

    init(
        coordinators: Int = 1, _ settings: ServiceSettings = .init(),
        store: ((MemoryCallStore) -> any CallStore)? = nil
    ) {
        let clock = Clock()
        let memory = MemoryCallStore { clock.now }
        let front = store?(memory) ?? memory
        self.clock = clock
        self.memory = memory
        self.settings = settings
        services = (0..<coordinators).map { _ in CallService(store: front, settings: settings) }
        start = clock.now
        nextSweep = clock.now + Self.sweepInterval
    }

    var service: CallService { services[0] }
    /// Milliseconds since the world began.
    var elapsed: Milliseconds { clock.now - start }

    // MARK: Phones

    /// A phone that is online; `name` is `user/device`. Acks by itself unless told otherwise.
    @discardableResult
    func phone(_ name: String, acks: Bool = true) -> Phone {
        let phone = stranger(name, acks: acks)
        phone.comeOnline()
        return phone
    }

    /// A phone that listens and sends but never publishes presence.
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

    /// Hands a batch to one coordinator and what it publishes to the phones.
    func send(_ batch: [InboundMessage]) {
        let service = services[route(turn) % services.count]
        turn += 1
        deliver(service.process(batch), from: service)
    }

    func send(_ topic: String, _ payload: String, isRetained: Bool = false) {
        send([InboundMessage(topic: topic, payload: Array(payload.utf8), isRetained: isRetained)])
    }

    /// Publishes what a coordinator wants published.
    func deliver(_ messages: [OutboundMessage], from service: CallService) {
        service.published(messages)
        let prefix = "\(settings.topics.root)/down/"
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
        // One by one: the broker hands each to whichever coordinator it likes.
        for ack in acks { send([ack]) }
    }

    /// The lines published since the last look, events that phones acked at once included.
    func lines() -> [String] {
        defer { taken = published.count }
        return published[taken...].map(\.line)
    }

    /// The same with the second at which each was published.
    func timedLines() -> [String] {
        defer { taken = published.count }
        return published[taken...].map { "\(Double($0.at) / 1000) \($0.line)" }
    }

    func events(to topic: String) -> [Published] { published.filter { $0.topic == topic && $0.event != nil } }

    // MARK: Time

    func pass(seconds: Int) { pass(Milliseconds(seconds) * 1000) }

    /// Lets time pass, serving each deadline and each sweep at its moment.
    func pass(_ milliseconds: Milliseconds) {
        let end = clock.now + milliseconds
        while true {
            let own = services.compactMap(\.nextDeadline).min()
            let next = min(own ?? .max, nextSweep)
            guard next <= end else { break }
            clock.now = max(clock.now, next)
            for service in services where service.nextDeadline.map({ $0 <= clock.now }) ?? false {
                deliver(service.serveDeadlines(), from: service)
            }
            if nextSweep <= clock.now {
                for service in services { deliver(service.sweep(grace: Self.sweepInterval).messages, from: service) }
                nextSweep = clock.now + Self.sweepInterval
            }
        }
        clock.now = end
    }

    /// Every coordinator dies with all that it had in memory; new ones take over, sweeping at once.
    func restart(store: (any CallStore)? = nil, _ settings: ServiceSettings? = nil) {
        services = services.map { _ in CallService(store: store ?? memory, settings: settings ?? self.settings) }
        for service in services {
            service.listeningSince = clock.now
            deliver(service.sweep(grace: 0).messages, from: service)
        }
    }

    // MARK: What the store holds

    func stored(_ callID: CallID) -> Call? {
        guard case .call(let call)? = memory.load([RecordID.call(callID)])[0]?.record else { return nil }
        return call
    }
}
