import CHiredis
import CallCore
import CallStore
import Glibc
import Support

/// The connections to the masters of a Redis Cluster.
///
/// Each command goes to the master of its key. The stages of a pipeline follow each other: a stage is sent when all
/// servers have answered the stage before; within a stage all servers work at once. Commands that a server redirects
/// are sent again, before the next stage begins.
///
/// When a connection to a master breaks, the whole link fails: the next link begins with a new map of the slots.
final class RedisCluster: RedisLink {
    private enum Bounds {
        /// The bound on the time in which commands are sent again because slots are being moved, in milliseconds.
        static let redirecting: Milliseconds = 1_000
        /// The bound on the time in which commands are sent again because the cluster is down, in milliseconds. The
        /// bound is below the difference from its own clock at which a server refuses the time of a command.
        static let down: Milliseconds = 400
        /// The pause before commands are sent again that no server accepts now, because their slot is being moved or
        /// the cluster is down, in milliseconds.
        static let pause: Milliseconds = 10
        /// The number of servers that are asked for the map of the slots.
        static let asked = 5
        /// The bound on the time for finding servers that answer, in milliseconds.
        static let finding: Milliseconds = 1_000
        static let events = 64
    }

    /// A master and its connection.
    private final class Node {
        let server: RedisAddress.Server
        let connection: RedisConnection
        /// The number under which the poller knows the connection.
        let number: UInt32
        var waitsToSend = false

        init(_ server: RedisAddress.Server, _ connection: RedisConnection, _ number: UInt32) {
            self.server = server
            self.connection = connection
            self.number = number
        }
    }

    private let address: RedisAddress
    private let timeout: Int
    /// Loads the scripts at a server.
    private let loadScripts: (RedisConnection) throws(StoreError) -> Void
    /// The epoll instance that waits for all connections.
    private let poller: Int32
    private var map: RedisClusterMap
    private var nodes: [RedisAddress.Server: Node] = [:]
    private var numbered: [UInt32: Node] = [:]
    private var nextNumber: UInt32 = 0
    private var runs: [RedisClusterRun] = []
    /// The batches whose replies have come, for `handleAnswers`.
    private var answers: [(RedisClusterRun, Batch, [RedisReply])] = []
    /// Whether a new map was asked for.
    private var asksForMap = false
    private(set) var failure: StoreError?
    private(set) var isClosedByPeer = false

    /// The slot of the partition whose server has the store's clock.
    private static let clockSlot = RedisSlot(ofKey: Array("{p0}".utf8))

    // MARK: Connecting

    /// Connects to all masters.
    /// - Parameters:
    ///   - known: servers of the cluster from an earlier map.
    ///   - timeout: the bound on connecting to a server, and on each of its replies, in milliseconds.
    ///   - loadScripts: loads the scripts at a server that becomes known later.
    init(
        _ address: RedisAddress, known: [RedisAddress.Server], timeout: Int,
        loadScripts: @escaping (RedisConnection) throws(StoreError) -> Void
    ) throws(StoreError) {
        self.address = address
        self.timeout = timeout
        self.loadScripts = loadScripts
        map = try Self.latestMap(address, known, timeout)
        poller = epoll_create1(Int32(EPOLL_CLOEXEC))
        guard poller >= 0 else { throw StoreError(.unreachable, "epoll: \(String(cString: strerror(errno)))") }
        for server in map.masters { _ = try connect(server) }
    }

    deinit { if poller >= 0 { close(poller) } }

    /// The masters, for the next link.
    var masters: [RedisAddress.Server] { map.masters }

    /// Asks some servers for the map of the slots. Returns the map of the server with the highest
    /// `cluster_current_epoch`.
    private static func latestMap(
        _ address: RedisAddress, _ known: [RedisAddress.Server], _ timeout: Int
    ) throws(StoreError) -> RedisClusterMap {
        var candidates = (address.cluster ?? []).shuffled()
        candidates += known.shuffled().filter { !candidates.contains($0) }
        let end = SystemClock.boot.milliseconds + Bounds.finding
        var latest: (epoch: Int64, map: RedisClusterMap)?
        var reason = "no server answers"
        var asked = 0
        for server in candidates where asked < Bounds.asked && SystemClock.boot.milliseconds < end {
            do throws(StoreError) {
                let (epoch, map) = try Self.map(of: server, address, timeout)
                asked += 1
                if epoch > latest?.epoch ?? -1 { latest = (epoch, map) }
            } catch {
                reason = error.description
            }
        }
        guard let latest else { throw StoreError(.unreachable, "\(address): \(reason)") }
        return latest.map
    }

    private static func map(
        of server: RedisAddress.Server, _ address: RedisAddress, _ timeout: Int
    ) throws(StoreError) -> (epoch: Int64, RedisClusterMap) {
        let connection = try RedisConnection(address.server(server), timeout: timeout)
        var info = RedisPipeline()
        info.command("CLUSTER", 1) { $0.add("INFO") }
        let reply = try connection.run(info)[0]
        if let message = reply.error { throw StoreError(.failed, "\(server): \(message)") }
        var values: [Substring: Substring] = [:]
        for line in (reply.bytes?.text ?? "").split(whereSeparator: \.isNewline) {
            let parts = line.split(separator: ":", maxSplits: 1)
            if parts.count == 2 { values[parts[0]] = parts[1] }
        }
        guard values["cluster_state"] == "ok", let epoch = values["cluster_current_epoch"].flatMap({ Int64($0) }) else {
            throw StoreError(.unreachable, "\(server): the cluster is down (cluster_state is not ok)")
        }
        let map = try RedisClusterMap(connection.run(RedisClusterMap.question)[0], of: server)
        guard map.uncovered == 0 else {
            throw StoreError(.unreachable, "\(server): \(map.uncovered) slots of the cluster have no master")
        }
        return (epoch, map)
    }

    private func connect(_ server: RedisAddress.Server) throws(StoreError) -> Node {
        if let node = nodes[server] { return node }
        let node = Node(server, try RedisConnection(address.server(server), timeout: timeout), nextNumber)
        nextNumber += 1
        guard poll(node, EPOLL_CTL_ADD) else {
            throw StoreError(.unreachable, "epoll: \(String(cString: strerror(errno)))")
        }
        nodes[server] = node
        numbered[node.number] = node
        return node
    }

    /// Has the poller wait for the connection's replies, and for room in its socket while bytes wait.
    private func poll(_ node: Node, _ operation: Int32) -> Bool {
        let socket = node.connection.socket
        node.waitsToSend = socket.waitsToSend
        var event = epoll_event()
        event.events = socket.waitsToSend ? EPOLLIN.rawValue | EPOLLOUT.rawValue : EPOLLIN.rawValue
        event.data.u32 = node.number
        return epoll_ctl(poller, operation, socket.descriptor, &event) == 0
    }

    /// Connects to a server that became known after this link was made.
    private func connectLate(_ server: RedisAddress.Server) throws(StoreError) -> Node {
        if let node = nodes[server] { return node }
        let node = try connect(server)
        try loadScripts(node.connection)
        return node
    }

    // MARK: The link

    var servers: [RedisConnection] { map.masters.filter(map.serves).compactMap { nodes[$0]?.connection } }

    func hasClock(for key: RedisKey) -> Bool {
        map.master(of: key.slot) == map.master(of: Self.clockSlot)
    }

    var socket: StoreSocket {
        var deadlines = numbered.values.compactMap(\.connection.socket.deadline)
        deadlines += runs.compactMap(\.pauseEnd)
        return StoreSocket(descriptor: poller, waitsToSend: false, deadline: deadlines.min())
    }

    func send(
        _ pipeline: RedisPipeline, _ answered: (([RedisReply]) -> Void)? = nil
    ) throws(StoreError) -> RedisExchange {
        if let failure { throw failure }
        let end = SystemClock.boot.milliseconds + Bounds.redirecting
        let exchange = RedisExchange(pipeline.commands.count, deadline: end, answered)
        guard exchange.count > 0 else {
            exchange.finish(.success([]))
            return exchange
        }
        let run = RedisClusterRun(pipeline, exchange)
        runs.append(run)
        sendStage(of: run)
        if let failure { throw failure }
        return exchange
    }

    func run(_ pipeline: RedisPipeline) throws(StoreError) -> [RedisReply] {
        let exchange = try send(pipeline)
        while exchange.result == nil {
            var descriptor = pollfd(fd: poller, events: Int16(POLLIN), revents: 0)
            let deadline = socket.deadline ?? exchange.deadline
            _ = Glibc.poll(&descriptor, 1, Int32(clamping: max(0, deadline - SystemClock.boot.milliseconds) + 1))
            receive()
        }
        return try exchange.result!.get()
    }

    func receive() {
        guard failure == nil else { return }
        var events = [epoll_event](repeating: epoll_event(), count: Bounds.events)
        let count = epoll_wait(poller, &events, Int32(events.count), 0)
        for event in events.prefix(Int(max(0, count))) {
            if let node = numbered[event.data.u32] { receive(node) }
        }
        let now = SystemClock.boot.milliseconds
        for node in numbered.values where node.connection.socket.deadline.map({ $0 <= now }) ?? false { receive(node) }
        handleAnswers()
        for run in runs where run.pauseEnd.map({ $0 <= now }) ?? false {
            run.pauseEnd = nil
            sendAgain(run)
        }
        handleAnswers()
    }

    private func receive(_ node: Node) {
        guard failure == nil else { return }
        let isIdle = node.connection.socket.deadline == nil
        node.connection.receive()
        // A server that was taken out of the cluster may end.
        if isIdle, node.connection.failure != nil, !map.serves(node.server) {
            nodes[node.server] = nil
            numbered[node.number] = nil
        } else {
            check(node)
        }
    }

    /// Ends the link when the connection has failed.
    private func check(_ node: Node) {
        if let failure = node.connection.failure {
            isClosedByPeer = node.connection.isClosedByPeer
            return fail(StoreError(failure.code, "\(node.server): \(failure)"))
        }
        if node.connection.socket.waitsToSend != node.waitsToSend { _ = poll(node, EPOLL_CTL_MOD) }
    }

    func fail(_ error: StoreError) {
        if failure == nil { failure = error }
        let lost = runs
        runs = []
        answers = []
        for node in numbered.values { node.connection.fail(error) }
        for run in lost { run.exchange.finish(.failure(error)) }
    }

    // MARK: Stages

    /// Commands for a server. A place is nil for a command whose reply is not used.
    private struct Batch {
        let node: Node
        var places: [Int?] = []
        var commands: RedisPipeline

        init(_ node: Node) {
            self.node = node
            commands = RedisPipeline()
        }

        mutating func add(_ place: Int, of pipeline: RedisPipeline, asking: Bool = false) {
            if asking {
                commands.command("ASKING")
                places.append(nil)
            }
            commands.copy(pipeline, place)
            places.append(place)
        }
    }

    private func sendStage(of run: RedisClusterRun) {
        guard run.goOn() else {
            runs.removeAll { $0 === run }
            return run.exchange.finish(.success(run.replies.map { $0! }))
        }
        send(run.stage.map { ($0, nil) }, of: run)
    }

    private func sendAgain(_ run: RedisClusterRun) {
        let again = run.again
        run.again = []
        run.downCluster = nil
        run.rounds += 1
        send(again, of: run)
    }

    private func send(_ commands: [(place: Int, asking: RedisAddress.Server?)], of run: RedisClusterRun) {
        do throws(StoreError) {
            var batches: [RedisAddress.Server: Batch] = [:]
            var order: [RedisAddress.Server] = []
            func add(_ place: Int, to server: RedisAddress.Server, asking: Bool = false) throws(StoreError) {
                if batches[server] == nil {
                    batches[server] = Batch(try connectLate(server))
                    order.append(server)
                }
                batches[server]!.add(place, of: run.pipeline, asking: asking)
            }
            for (place, asking) in commands where place != run.waiting {
                if let asking {
                    try add(place, to: asking, asking: true)
                    continue
                }
                let command = run.pipeline.commands[place]
                if command.route == .every {
                    for server in map.masters where map.serves(server) { try add(place, to: server) }
                    continue
                }
                let slot = command.route == .clock ? Self.clockSlot : run.pipeline.slot(of: command)
                guard let server = map.master(of: slot) else {
                    throw StoreError(.unreachable, "\(address): the slot \(slot.number) has no master")
                }
                try add(place, to: server)
            }
            run.open = order.count
            for server in order {
                var batch = batches[server]!
                if let waiting = run.waiting { batch.add(waiting, of: run.pipeline) }
                let sent = batch
                _ = try batch.node.connection.send(batch.commands) { [unowned self] replies in
                    answers.append((run, sent, replies))
                }
                check(batch.node)
            }
            // A stage of `WAIT` alone, after the commands of the stages before.
            if order.isEmpty { sendStage(of: run) }
        } catch {
            fail(error)
        }
    }

    private func handleAnswers() {
        while !answers.isEmpty, failure == nil {
            let (run, batch, replies) = answers.removeFirst()
            do throws(StoreError) {
                try take(replies, to: batch, of: run)
            } catch {
                return fail(error)
            }
            run.open -= 1
            if run.open == 0 { finishRound(of: run) }
        }
    }

    private func take(_ replies: [RedisReply], to batch: Batch, of run: RedisClusterRun) throws(StoreError) {
        for (place, reply) in zip(batch.places, replies) {
            guard let place else { continue }
            switch RedisRedirection(reply, of: batch.node.server) {
            case .moved(let slot, let server):
                try map.move(slot, to: server)
                run.again.append((place, nil))
                // Two servers that name each other must not be asked without end.
                if run.rounds > 0 { run.pauses = true }
                try askForMap(server)
            case .ask(let server): run.again.append((place, server))
            case .tryAgain:
                run.again.append((place, nil))
                run.pauses = true
            case .loadScripts:
                try loadScripts(batch.node.connection)
                run.again.append((place, nil))
            case .clusterDown:
                run.again.append((place, nil))
                run.pauses = true
                run.downCluster = "\(batch.node.server): \(reply.error ?? "")"
            case nil where reply.refusesWrites:
                throw StoreError(.unreachable, "\(batch.node.server): \(reply.error ?? "")")
            case nil: run.keep(reply, at: place)
            }
        }
    }

    private func finishRound(of run: RedisClusterRun) {
        if let error = run.replies[run.stage].lazy.compactMap({ $0?.clockError ?? $0?.error }).first {
            // The next stage must not be sent.
            runs.removeAll { $0 === run }
            return run.exchange.finish(.failure(StoreError(.failed, "\(address): \(error)")))
        }
        guard !run.again.isEmpty else { return sendStage(of: run) }
        let now = SystemClock.boot.milliseconds
        if let downCluster = run.downCluster, now >= run.exchange.deadline - Bounds.redirecting + Bounds.down {
            // The next link may find other servers, in the larger part of a divided cluster.
            return fail(StoreError(.unreachable, downCluster))
        }
        guard now < run.exchange.deadline else {
            runs.removeAll { $0 === run }
            return run.exchange.finish(
                .failure(StoreError(.unreachable, "\(address): slots are being moved for too long")))
        }
        run.again.sort { $0.place < $1.place }
        guard run.pauses else { return sendAgain(run) }
        run.pauses = false
        run.pauseEnd = now + Bounds.pause
    }

    /// Asks a server for the map of the slots, without a wait for the reply.
    private func askForMap(_ server: RedisAddress.Server) throws(StoreError) {
        guard !asksForMap else { return }
        asksForMap = true
        let node = try connectLate(server)
        _ = try node.connection.send(RedisClusterMap.question) { [unowned self] replies in
            asksForMap = false
            if let map = try? RedisClusterMap(replies[0], of: server), map.uncovered == 0 { self.map = map }
        }
    }
}
