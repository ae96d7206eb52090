import CallCore
import CallStore
import Coordinator
import Delivery
import SignalingProtocol
import Support

/// A real coordinator's loop, driven by virtual time and a simulated broker. `Coordinator.Coordinator` drives the same
/// loop with sockets.
final class SimulatedCoordinator: BrokerClient {
    private enum Bounds {
        static let restartDelay: Milliseconds = 250
        /// How long the broker takes to notice that a client is gone.
        static let brokerPatience: Milliseconds = 7_500
        /// The number of messages that a read returns at most. Real reads return up to 256; bursts are smaller here.
        static let readBatch = 4
    }

    let clientID: String
    private unowned(unsafe) let world: World
    private let memory: MemoryCallStore
    private var store: SimulatedStore!
    /// The stores of all lives of this coordinator, since a suspended operation needs its store. `forget()` breaks the
    /// reference cycles.
    private var stores: [SimulatedStore] = []
    private var loop: CoordinatorLoop!
    /// The webhook worker, in worlds with webhooks.
    private var deliverer: Deliverer?
    /// The worker that closes rooms, in worlds with a media server.
    private var closer: RoomCloser?
    /// The push worker, in worlds with pushes.
    private var pusher: Pusher?
    private var workers = 0
    private var random: SeededRandom
    /// The connection to each broker.
    private var connections: [Int?]
    private var inbox: [InboundMessage] = []
    private var isStopping = false
    private var wakeAt = Milliseconds.max
    private var wakeNumber = 0
    /// The loop's count of dropped stale work when the coordinator last looked.
    private var stale = 0
    private(set) var frozenUntil: Milliseconds = 0
    private(set) var isUp = false
    /// The number of the current life, so that actions that an earlier life had planned do not run.
    private var life = 0

    init(_ clientID: String, memory: MemoryCallStore, in world: World, random: SeededRandom) {
        self.clientID = clientID
        self.memory = memory
        self.world = world
        self.random = random
        connections = Array(repeating: nil, count: world.brokers.count)
    }

    // MARK: Life

    func start() {
        guard !isUp else {
            // The previous life still serves its queued requests.
            if isStopping { world.at(world.now + Bounds.restartDelay) { [self] in start() } }
            return
        }
        isUp = true
        life += 1
        store = SimulatedStore(memory, of: self, in: world, random: random.fork())
        stores.append(store)
        var draws = random.fork()
        var settings = world.settings
        settings.coordinator = clientID
        let service = CallService(store: store, settings: settings)
        service.onOutboxEntries = { [unowned self] ids in self.deliverer?.committed(ids) }
        service.onRooms = { [unowned self] ids in self.closer?.committed(ids) }
        if let media = world.media { service.mediaSession = { member, _ in media.session(for: member) } }
        service.onPushes = { [unowned self] ids in self.pusher?.committed(ids.map { .call($0) }) }
        let loop = CoordinatorLoop(service, clock: { [unowned(unsafe) world] in world.now }) {
            draws.between($0.lowerBound, $0.upperBound)
        }
        self.loop = loop
        let deliverer = startWorker()
        let closer = startCloser()
        let pusher = startPusher()
        store.onAnswer = { [unowned self, life] in
            if self.life == life {
                handle(.tick)
            } else {
                loop.giveUp()
                deliverer?.giveUp()
                closer?.giveUp()
                pusher?.giveUp()
            }
        }
        inbox = []
        isStopping = false
        frozenUntil = 0
        wakeAt = .max
        stale = 0
        handle(.tick)
    }

    private func startWorker() -> Deliverer? {
        guard let endpoint = world.endpoint else { return nil }
        let sender = SimulatedSender(endpoint.send)
        sender.onAnswer = { [unowned self, life] in
            if self.life == life { handle(.tick) }
        }
        deliverer = Deliverer(
            store, [SimulatedEndpoint.settings], sender: sender, now: world.now,
            wall: { [unowned(unsafe) world] in WallTime(milliseconds: world.now) }
        ) { [unowned self] in
            workers += 1
            return "\(clientID)-\(workers)"
        }
        return deliverer
    }

    private func startCloser() -> RoomCloser? {
        guard let media = world.media else { return nil }
        let sender = SimulatedSender(media.send)
        sender.onAnswer = { [unowned self, life] in
            if self.life == life { handle(.tick) }
        }
        closer = RoomCloser(
            store, SimulatedMediaServer.settings, sender: sender, now: world.now,
            wall: { [unowned(unsafe) world] in WallTime(milliseconds: world.now) }
        ) { [unowned self] in
            workers += 1
            return "\(clientID)-\(workers)"
        }
        return closer
    }

    private func startPusher() -> Pusher? {
        guard let provider = world.provider else { return nil }
        let sender = SimulatedPushSender(provider, in: world, of: self, life: life)
        sender.onAnswer = { [unowned self, life] in
            if self.life == life { handle(.tick) }
        }
        var settings = PusherSettings(
            SimulatedPushService.settings, lease: world.settings.presence.lease, name: clientID, traceLife: 86_400_000)
        settings.traces = .off
        pusher = Pusher(
            store, settings, sender: sender, clock: { [unowned(unsafe) world] in world.now },
            wall: { [unowned(unsafe) world] in WallTime(milliseconds: world.now) }
        ) {
            [unowned self, unowned sender] in
            workers += 1
            sender.worker = "\(clientID)-\(workers)"
            return sender.worker
        }
        return pusher
    }

    func isAlive(_ life: Int) -> Bool { isUp && self.life == life }

    /// Whether the coordinator can hand over due pushes, unless the store fails.
    var isPushing: Bool { isUp && !isStopping && frozenUntil <= world.now }

    /// Ends the process as `kill -9` does: its whole memory is gone.
    func crash() {
        guard isUp else { return }
        store.die()
        leave()
    }

    /// Ends the coordinator at the end of the world.
    func end() { crash() }

    /// Breaks the reference cycles between the stores and their callbacks, when no operation is suspended any more.
    func forget() {
        for store in stores { store.onAnswer = {} }
        stores = []
    }

    /// Stops the process as SIGTERM does: the coordinator leaves the shared subscription, serves its queued requests,
    /// and ends.
    func stop() {
        guard isUp, !isStopping else { return }
        isStopping = true
        pusher?.stop()
        handle(.stop)
    }

    private func leave() {
        isUp = false
        life += 1
        inbox = []
        connections.indices.forEach(disconnect)
        loop.giveUp()
        deliverer?.giveUp()
        deliverer = nil
        closer?.giveUp()
        closer = nil
        pusher?.giveUp()
        pusher = nil
    }

    private func disconnect(_ broker: BrokerIndex) {
        guard let connection = connections[broker] else { return }
        connections[broker] = nil
        world.brokers.of(connection).disconnect(connection)
    }

    /// Suspends the process for a while, as SIGSTOP does.
    func freeze(for duration: Milliseconds) {
        frozenUntil = world.now + duration
        let life = life
        world.at(frozenUntil) { [self] in
            guard self.life == life, isUp else { return }
            // The coordinator continues in the middle of its work. Its readings are now old, and the event tells the
            // loop so.
            inbox = []
            handle(.frozen)
        }
        world.at(world.now + Bounds.brokerPatience) { [self] in
            guard self.life == life, frozenUntil > world.now else { return }
            for (broker, connection) in connections.enumerated() {
                guard let connection else { continue }
                connections[broker] = nil
                world.brokers.of(connection).lose(connection)
            }
        }
    }

    var isServing: Bool { isUp && !isStopping && frozenUntil <= world.now && loop.isListening }

    func missed(connection: Int) {}

    func doubled(_ payload: [UInt8]) {}

    func disconnected(connection: Int) {
        guard let broker = connections.firstIndex(of: connection) else { return }
        connections[broker] = nil
        inbox.removeAll { $0.broker == broker }
        later(.lost(broker))
    }

    // MARK: The loop

    private func handle(_ event: CoordinatorLoop.Event) {
        guard isUp, frozenUntil <= world.now else { return }
        let life = life
        for action in loop.handle(event, now: world.now) {
            // The coordinator may have died within an operation.
            guard self.life == life, !store.isDead else { return }
            perform(action)
        }
        guard self.life == life else { return }
        deliverer?.turn(world.now)
        guard self.life == life, !store.isDead else { return }
        closer?.turn(world.now)
        guard self.life == life, !store.isDead else { return }
        pusher?.turn(world.now)
        guard self.life == life, !store.isDead else { return }
        if loop.stale > stale {
            stale = loop.stale
            world.workWasStale("stale work dropped")
        }
        var next = min(loop.nextTick, deliverer?.nextTurn ?? .max, closer?.nextTurn ?? .max, pusher?.nextTurn ?? .max)
        if !inbox.isEmpty, loop.takesMessages { next = world.now }
        wake(at: max(next, world.now))
    }

    /// Handles an event of the broker a little later, at the same virtual time.
    private func later(_ event: CoordinatorLoop.Event) {
        world.at(world.now) { [self, life] in
            if self.life == life { handle(event) }
        }
    }

    /// Schedules the loop's next turn, when the loop asks for a turn or when a message arrives.
    private func wake(at moment: Milliseconds) {
        guard moment < wakeAt || wakeAt <= world.now else { return }
        wakeAt = moment
        wakeNumber += 1
        world.at(moment) { [self, wakeNumber, life] in
            guard wakeNumber == self.wakeNumber, self.life == life else { return }
            wakeAt = .max
            // Messages that the loop does not take yet stay in the socket.
            let messages = loop.takesMessages ? Array(inbox.prefix(Bounds.readBatch)) : []
            inbox.removeFirst(messages.count)
            if !messages.isEmpty, frozenUntil <= world.now {
                world.tell("\(clientID) reads \(messages.count) messages")
            }
            let event = CoordinatorLoop.Event.received(messages, mayHoldMore: messages.count == Bounds.readBatch)
            handle(messages.isEmpty ? .tick : event)
        }
    }

    private func perform(_ action: CoordinatorLoop.Action) {
        switch action {
        case .connect(let broker):
            connections[broker] = world.brokers[broker].connect(self, will: nil, isDevice: false)
            later(connections[broker] == nil ? .lost(broker) : .connected(broker))
        case .disconnect(let broker): disconnect(broker)
        case .subscribe(let broker):
            if let connection = connections[broker] { world.brokers[broker].share(connection) }
            later(.answered(broker))
        case .unsubscribe(let broker):
            if let connection = connections[broker] { world.brokers[broker].unshare(connection) }
            later(.answered(broker))
        case .publish(let messages, let broker, let by): publish(messages, at: broker, by: by)
        case .sendCanary(let broker):
            // Only worlds with several brokers have brokers that stand still.
            guard let connection = connections[broker], world.brokers.count > 1 else { return }
            world.brokers[broker].publish(connection, topic: world.topics.canary(of: clientID), payload: [])
        // Simulated brokers check no tokens.
        case .sendDisabledUsers: return
        case .subscribeRelay(let served, let broker): relay(served, at: broker, true)
        case .unsubscribeRelay(let served, let broker): relay(served, at: broker, false)
        case .note(let notice, _): world.tell("\(clientID): \(notice)")
        case .end: leave()
        }
    }

    func received(topic: String, payload: [UInt8], connection: Int, delivery: Delivery) {
        guard let broker = connections.firstIndex(of: connection) else { return }
        inbox.append(
            InboundMessage(
                topic: topic, payload: payload, responseTopic: delivery.responseTopic,
                isRetained: delivery.isRetained, broker: broker))
        if loop.takesMessages { wake(at: world.now) }
    }

    private func relay(_ served: BrokerIndex, at broker: BrokerIndex, _ isOn: Bool) {
        guard let connection = connections[broker] else { return }
        world.brokers[broker].relay(connection, world.settings.brokers[served], isOn)
    }

    private func publish(_ messages: [OutboundMessage], at broker: BrokerIndex, by deadline: Milliseconds) {
        guard let connection = connections[broker], world.now < deadline else { return }
        world.tell("\(clientID) publishes \(messages.count) messages")
        for message in messages {
            world.brokers[broker].publish(
                connection, topic: message.topic, payload: message.payload, expirySeconds: message.expirySeconds,
                responseTopic: message.responseTopic)
        }
        let receipts = messages.filter { $0.receiptOf != nil }
        if !receipts.isEmpty { later(.taken(receipts)) }
    }
}
