import CallCore
import CallDeciding
import CallStore
import Coordinator
import SignalingProtocol

/// The real decision code of a coordinator in a shell that knows virtual time: what `Coordinator.Coordinator` does with
/// threads and sockets, without them.
final class SimulatedCoordinator: BrokerClient {
    private enum Bounds {
        static let unservedAfter: Milliseconds = 2_000
        static let staleAfter: Milliseconds = 500
        static let sweepInterval: Milliseconds = 500
        static let storeLookInterval: Milliseconds = 200
        static let sweepGrace: Milliseconds = 500
        static let reconnectDelay: Milliseconds = 250
    }

    let clientID: String
    private unowned let world: World
    private let memory: MemoryCallStore
    private var store: SimulatedStore!
    private var service: CallService!
    private var random: SeededRandom
    private var connection: Int?
    private var messageSlice = SliceSize(largest: ServiceBounds.messagesPerRound)
    private var deadlineSlice = SliceSize(largest: ServiceBounds.deadlinesPerRound)
    private var inbox: [(at: Milliseconds, message: InboundMessage)] = []
    private var isBusy = false
    /// Also those of earlier lives that still stand in an operation.
    private var turns: [Coroutine] = []
    private var isStopping = false
    private var nextSweep: Milliseconds = 0
    private var nextLook: Milliseconds = 0
    private var hasSwept = false
    private var wakeAt = Milliseconds.max
    private var wakeNumber = 0
    private(set) var frozenUntil: Milliseconds = 0
    private(set) var isUp = false
    /// Counts lives, so that what an earlier one had planned does not happen.
    private var life = 0

    init(_ clientID: String, memory: MemoryCallStore, in world: World, random: SeededRandom) {
        self.clientID = clientID
        self.memory = memory
        self.world = world
        self.random = random
    }

    // MARK: Life

    func start() {
        guard !isUp else {
            // The one before still serves what it holds.
            if isStopping { world.at(world.now + Bounds.reconnectDelay) { [self] in start() } }
            return
        }
        isUp = true
        life += 1
        let store = SimulatedStore(memory, of: self, in: world, random: random.fork())
        self.store = store
        service = CallService(store: store, settings: world.settings)
        var pauses = random.fork()
        service.pauseBriefly = { [unowned store] in store.wait(pauses.between(1, 4)) }
        inbox = []
        isBusy = false
        isStopping = false
        frozenUntil = 0
        wakeAt = .max
        hasSwept = false
        messageSlice = SliceSize(largest: ServiceBounds.messagesPerRound)
        deadlineSlice = SliceSize(largest: ServiceBounds.deadlinesPerRound)
        connect(life)
    }

    private func connect(_ life: Int) {
        guard isUp, self.life == life, connection == nil else { return }
        guard let connection = world.broker.connect(self, will: nil, isDevice: false) else {
            world.at(world.now + Bounds.reconnectDelay) { [self] in connect(life) }
            return
        }
        self.connection = connection
        world.broker.share(connection)
        service.listeningSince = world.now - store.lag
        nextSweep = world.now
        nextLook = world.now
        wake()
    }

    /// `kill -9`: all that it had in memory is gone.
    func crash() {
        guard isUp else { return }
        store.die()
        leave()
    }

    /// The world is over.
    func end() {
        crash()
        for turn in turns { while !turn.hasEnded { turn.resume() } }
    }

    /// SIGTERM: leaves the group, serves what it holds, and goes.
    func stop() {
        guard isUp, !isStopping else { return }
        isStopping = true
        if let connection { world.broker.unshare(connection) }
        wake()
    }

    private func leave() {
        isUp = false
        life += 1
        inbox = []
        if let connection {
            self.connection = nil
            world.broker.disconnect(connection)
        }
    }

    /// SIGSTOP for a while.
    func freeze(for duration: Milliseconds) {
        frozenUntil = world.now + duration
        let life = life
        world.at(frozenUntil) { [self] in
            guard self.life == life, isUp else { return }
            // It wakes up in the middle of what it did: what it reads now is old, and it knows.
            inbox = []
            if let connection {
                self.connection = nil
                world.broker.disconnect(connection)
            }
            connect(life)
        }
        // A broker notices after a while that nobody is there.
        world.at(world.now + 7_500) { [self] in
            guard self.life == life, frozenUntil > world.now, let connection else { return }
            self.connection = nil
            world.broker.lose(connection)
        }
    }

    var isServing: Bool { isUp && !isStopping && frozenUntil <= world.now && connection != nil }

    func missed(connection: Int) {}

    func doubled(_ payload: [UInt8]) {}

    func disconnected(connection: Int) {
        guard connection == self.connection else { return }
        self.connection = nil
        inbox = []
        let life = life
        world.at(world.now + Bounds.reconnectDelay) { [self] in connect(life) }
    }

    // MARK: Work

    func received(topic: String, payload: [UInt8], connection: Int, delivery: Delivery) {
        guard connection == self.connection else { return }
        inbox.append((world.now, InboundMessage(topic: topic, payload: payload, isRetained: delivery.isRetained)))
        wake()
    }

    /// Sees to it that `turn` comes when there is something to do.
    private func wake() {
        guard isUp, connection != nil || isStopping, !isBusy else { return }
        // A deadline that could not be served, as while the store is away, is tried again and again, but not at once.
        let deadline = service.nextDeadline.map { $0 + store.lag } ?? .max
        var at = max(min(nextSweep, nextLook, deadline), world.now + 1)
        if !inbox.isEmpty || isStopping { at = world.now }
        at = max(at, frozenUntil)
        guard at < wakeAt || wakeAt <= world.now else { return }
        wakeAt = at
        wakeNumber += 1
        let (number, life) = (wakeNumber, life)
        world.at(at) { [self] in
            guard number == wakeNumber, self.life == life else { return }
            wakeAt = .max
            guard frozenUntil <= world.now else { return wake() }
            beginTurn()
        }
    }

    private func beginTurn() {
        guard isUp, !isBusy else { return }
        isBusy = true
        let work = Coroutine { [self, life, store] in
            turn(life)
            store?.turn = nil
        }
        store.turn = work
        turns.removeAll(where: \.hasEnded)
        turns.append(work)
        work.resume()
    }

    private func turn(_ life: Int) {
        if world.now >= nextLook {
            service.lookAtStore()
            nextLook = world.now + Bounds.storeLookInterval
        }
        while self.life == life, !inbox.isEmpty {
            let batch = inbox.prefix(messageSlice.current)
            inbox.removeFirst(batch.count)
            let fresh = batch.filter { world.now - $0.at < Bounds.unservedAfter }.map(\.message)
            if fresh.count < batch.count { world.workWasStale("messages dropped unserved") }
            guard !fresh.isEmpty else { continue }
            let started = world.now
            world.tell("\(clientID) serves \(fresh.count) of \(batch.count) messages")
            publish(service.process(fresh), since: started, life)
            messageSlice.took(world.now - started)
            serveDeadlines(life)
        }
        serveDeadlines(life)
        if self.life == life, !isStopping, world.now >= nextSweep {
            let started = world.now
            let (messages, hasMore) = service.sweep(
                grace: hasSwept ? Bounds.sweepGrace : 0, limit: deadlineSlice.current)
            publish(messages, since: started, life)
            deadlineSlice.took(world.now - started)
            hasSwept = true
            nextSweep = hasMore ? world.now : started + Bounds.sweepInterval
        }
        guard self.life == life else { return }
        isBusy = false
        if isStopping, inbox.isEmpty { leave() } else { wake() }
    }

    private func serveDeadlines(_ life: Int) {
        guard self.life == life, let deadline = service.nextDeadline, deadline + store.lag <= world.now else { return }
        let started = world.now
        world.tell("\(clientID) serves deadlines")
        publish(service.serveDeadlines(limit: deadlineSlice.current), since: started, life)
        deadlineSlice.took(world.now - started)
    }

    private func publish(_ messages: [OutboundMessage], since started: Milliseconds, _ life: Int) {
        // It may have died within an operation, or been frozen since: then nothing goes out, or what is stale is dropped.
        guard !messages.isEmpty, self.life == life, !store.isDead, let connection, frozenUntil <= world.now else {
            return
        }
        guard world.now - started < Bounds.staleAfter else {
            world.tell("\(clientID) drops \(messages.count) messages, which are stale")
            return world.workWasStale("stale work dropped")
        }
        world.tell("\(clientID) publishes \(messages.count) messages")
        for message in messages {
            world.broker.publish(
                connection, topic: message.topic, payload: message.payload, expirySeconds: message.expirySeconds)
        }
        service.published(messages)
    }
}
