import CallCore
import SignalingProtocol

/// A message on its way to a client, in a single copy or several.
final class Delivery {
    /// Whether a copy was received.
    var isSeen = false
    /// Whether the message is a retained message.
    let isRetained: Bool
    /// The final topic of a message that a coordinator publishes for another coordinator.
    let responseTopic: String?

    init(isRetained: Bool = false, responseTopic: String? = nil) {
        self.isRetained = isRetained
        self.responseTopic = responseTopic
    }
}

/// A client of the simulated broker.
protocol BrokerClient: AnyObject {
    var clientID: String { get }
    /// Receives a message over this connection. If the network doubled the message, the copies share the `delivery`.
    func received(topic: String, payload: [UInt8], connection: Int, delivery: Delivery)
    /// Reports that the network doubled a message of this client.
    func doubled(_ payload: [UInt8])
    /// Reports that a message was lost, since the network is cut.
    func missed(connection: Int)
    /// Reports that the connection ended.
    func disconnected(connection: Int)
}

/// An MQTT broker, as far as the protocol relies on MQTT: clean and persistent sessions, wills, a single connection per
/// client id, shared subscriptions, message expiry, retained messages, and order on each connection.
///
/// Messages on their way to a client are lost when its connection breaks, at QoS 1 too, unless the client's session is
/// persistent: then the messages arrive when the client is back, however old the messages are by then.
final class SimulatedBroker {
    struct Will {
        let topic: String
        let payload: [UInt8]
    }

    private final class Connection {
        let number: Int
        weak var client: (any BrokerClient)?
        let clientID: ByteString
        var will: Will?
        var topics: Set<ByteString> = []
        var isShared = false
        /// The brokers for which this coordinator takes messages from other coordinators.
        var relays: Set<String> = []
        /// The arrival time of the previous message. Messages keep their order: no message arrives before the previous
        /// message.
        var lastArrival: (up: Milliseconds, down: Milliseconds) = (0, 0)
        /// Whether the network from the broker to this client is cut.
        var isCut = false
        /// Whether the client is a device. Only devices' links have delays and losses; coordinators are close to the
        /// broker.
        let isDevice: Bool
        let isPersistent: Bool

        init(number: Int, client: any BrokerClient, will: Will?, isDevice: Bool, isPersistent: Bool) {
            self.number = number
            self.client = client
            clientID = ByteString(client.clientID)
            self.will = will
            self.isDevice = isDevice
            self.isPersistent = isPersistent
        }
    }

    /// The subscriptions and messages of a persistent session while its client is away.
    private struct Session {
        static let queueLimit = 100

        let topics: Set<ByteString>
        var queue: [(topic: String, payload: [UInt8], expiry: Milliseconds?, delivery: Delivery)] = []
    }

    private unowned(unsafe) let world: World
    private var random: SeededRandom
    private var connections: [Connection] = []
    private var connectionCount = 0
    private var sessions: [ByteString: Session] = [:]
    private var retained: [(topic: String, payload: [UInt8])] = []
    private(set) var isUp = true
    /// The time until which the broker is frozen: its connections stay, and no message moves.
    private(set) var frozenUntil: Milliseconds = 0
    /// The time until which the broker takes messages and delivers none.
    private var silentUntil: Milliseconds = 0
    /// The time until which each client, by its id, cannot reach this broker.
    private var unreachable: [String: Milliseconds] = [:]
    private var turn = 0
    /// The place in the deployment's list of brokers.
    private let place: BrokerIndex

    init(_ place: BrokerIndex = 0, in world: World, random: SeededRandom) {
        self.place = place
        self.world = world
        self.random = random
    }

    var isFrozen: Bool { frozenUntil > world.now }
    var isWorking: Bool { isUp && !isFrozen && silentUntil <= world.now }

    // MARK: Connections

    /// Connects a client. Returns nil while the broker is down. An earlier connection with the same client id is
    /// closed, and its will published.
    func connect(_ client: any BrokerClient, will: Will?, isDevice: Bool, isPersistent: Bool = false) -> Int? {
        guard isUp, !isFrozen, unreachable[client.clientID, default: 0] <= world.now else { return nil }
        if let old = connections.first(where: { $0.clientID.string.hasSameBytes(as: client.clientID) }) {
            lose(old.number)
        }
        connectionCount += 1
        let number = connectionCount * BrokerSet.mostBrokers + place
        connections.append(
            Connection(number: number, client: client, will: will, isDevice: isDevice, isPersistent: isPersistent))
        return number
    }

    /// Subscribes the client, and first delivers the messages that the broker kept for the client's session.
    func subscribe(_ number: Int, topics: [String]) {
        guard let connection = find(number) else { return }
        connection.topics = Set(topics.map(ByteString.init))
        for message in sessions.removeValue(forKey: connection.clientID)?.queue ?? [] {
            deliver(message.topic, message.payload, to: connection, message.expiry, message.delivery)
        }
    }

    /// Adds the coordinator to the shared subscription: each message on an up or presence topic goes to one of the
    /// coordinators. Retained messages go to each coordinator that joins, as with mosquitto 2.0.11, although MQTT
    /// forbids that.
    func share(_ number: Int) {
        guard let connection = find(number) else { return }
        connection.isShared = true
        for message in retained {
            deliver(message.topic, message.payload, to: connection, nil, Delivery(isRetained: true))
        }
    }

    func unshare(_ number: Int) { find(number)?.isShared = false }

    /// Adds the coordinator to those that take messages for the broker `served`, or removes the coordinator.
    func relay(_ number: Int, _ served: BrokerName, _ isOn: Bool) {
        if isOn { find(number)?.relays.insert(served) } else { find(number)?.relays.remove(served) }
    }

    /// Closes the connection by DISCONNECT, without publishing the will.
    func disconnect(_ number: Int) {
        find(number)?.will = nil
        lose(number)
    }

    /// Breaks the connection; the broker publishes the will.
    func lose(_ number: Int) {
        guard let place = connections.firstIndex(where: { $0.number == number }) else { return }
        let connection = connections.remove(at: place)
        if connection.isPersistent, sessions[connection.clientID] == nil, !connection.topics.isEmpty {
            sessions[connection.clientID] = Session(topics: connection.topics)
        }
        connection.client?.disconnected(connection: number)
        if let will = connection.will { route(will.topic, will.payload, expiry: nil) }
    }

    /// Stops the broker for a while. Messages wait, and clients keep their connections.
    func freeze(for duration: Milliseconds) { frozenUntil = world.now + duration }

    /// Stops deliveries for a while. The messages are lost, and clients keep their connections.
    func fallSilent(for duration: Milliseconds) { silentUntil = world.now + duration }

    /// Keeps a connection whose client has gone, as after a change of the client's network, until `duration` has
    /// passed.
    func strand(_ number: Int, for duration: Milliseconds) {
        cut(number, true)
        world.at(world.now + duration) { [self] in lose(number) }
    }

    /// Whether another coordinator than `clientID` is in the share group, and no coordinator is cut off.
    func isServed(besides clientID: String) -> Bool {
        unreachable.values.allSatisfy { $0 <= world.now }
            && connections.contains { $0.isShared && !$0.clientID.string.hasSameBytes(as: clientID) }
    }

    /// Cuts a client off from this broker for a while.
    func cutOff(_ clientID: String, for duration: Milliseconds) {
        unreachable[clientID] = world.now + duration
        if let connection = connections.first(where: { $0.clientID.string.hasSameBytes(as: clientID) }) {
            lose(connection.number)
        }
    }

    /// Cuts or restores the network to the client.
    func cut(_ number: Int, _ isCut: Bool) { find(number)?.isCut = isCut }

    /// Ends the broker with all its sessions and messages. No will is published.
    func crash() {
        isUp = false
        let gone = connections
        connections = []
        sessions = [:]
        retained = []
        for connection in gone { connection.client?.disconnected(connection: connection.number) }
    }

    func start() { isUp = true }

    private func find(_ number: Int) -> Connection? { connections.first { $0.number == number } }

    // MARK: Messages

    /// Publishes a message. The message arrives at the broker after the link's delay, unless the connection breaks
    /// first.
    func publish(
        _ number: Int, topic: String, payload: [UInt8], expirySeconds: UInt32? = nil, isRetained: Bool = false,
        responseTopic: String? = nil
    ) {
        guard let connection = find(number) else { return }
        guard connection.isDevice else {
            route(
                topic, payload, expiry: expirySeconds.map { world.now + Milliseconds($0) * 1000 },
                responseTopic: responseTopic)
            return
        }
        let copies = world.hasFaults && random.chance(world.mix.duplication) ? 2 : 1
        for copy in 0..<copies {
            if copy > 0 { connection.client?.doubled(payload) }
            connection.lastArrival.up = max(connection.lastArrival.up, world.now + delay())
            world.at(connection.lastArrival.up) { [self] in
                // A message that was sent over a connection that broke meanwhile never arrives.
                guard find(number) != nil else { return }
                if isRetained {
                    retained.removeAll { $0.topic.hasSameBytes(as: topic) }
                    retained.append((topic, payload))
                }
                route(topic, payload, expiry: nil)
            }
        }
    }

    private func delay() -> Milliseconds { world.hasFaults ? random.between(0, world.mix.delay) : 1 }

    private func route(_ topic: String, _ payload: [UInt8], expiry: Milliseconds?, responseTopic: String? = nil) {
        guard isUp else { return }
        guard !isFrozen else {
            return world.at(frozenUntil) { [self] in route(topic, payload, expiry: expiry, responseTopic: responseTopic)
            }
        }
        let name = ByteString(topic)
        if topic.utf8.starts(with: world.downPrefix.utf8) {
            for connection in connections where connection.topics.contains(name) {
                deliver(topic, payload, to: connection, expiry)
            }
            for clientID in sessions.keys.sorted() where sessions[clientID]?.topics.contains(name) ?? false {
                keep(topic, payload, expiry, Delivery(), for: clientID)
            }
        } else if case .relay(let served) = world.topics.parse(topic) {
            let delivery = Delivery(responseTopic: responseTopic)
            deliver(topic, payload, toOneOf: connections.filter { $0.relays.contains(served) }, expiry, delivery)
        } else if topic.utf8.starts(with: world.topics.canary(of: "").utf8) {
            for connection in connections where topic == world.topics.canary(of: connection.clientID.string) {
                deliver(topic, payload, to: connection, expiry)
            }
        } else {
            deliver(topic, payload, toOneOf: connections.filter(\.isShared), expiry, Delivery())
        }
    }

    private func deliver(
        _ topic: String, _ payload: [UInt8], toOneOf members: [Connection], _ expiry: Milliseconds?,
        _ delivery: Delivery
    ) {
        guard !members.isEmpty else { return }
        turn += 1
        deliver(topic, payload, to: members[turn % members.count], expiry, delivery)
    }

    private func keep(
        _ topic: String, _ payload: [UInt8], _ expiry: Milliseconds?, _ delivery: Delivery, for clientID: ByteString
    ) {
        guard let count = sessions[clientID]?.queue.count, count < Session.queueLimit else { return }
        sessions[clientID]?.queue.append((topic, payload, expiry, delivery))
    }

    private func deliver(
        _ topic: String, _ payload: [UInt8], to connection: Connection, _ expiry: Milliseconds?,
        _ delivery: Delivery = Delivery()
    ) {
        let number = connection.number
        let clientID = connection.clientID
        let copies = connection.isDevice && world.hasFaults && random.chance(world.mix.duplication) ? 2 : 1
        for _ in 0..<copies {
            let delay = connection.isDevice ? delay() : 0
            connection.lastArrival.down = max(connection.lastArrival.down, world.now + delay)
            world.at(connection.lastArrival.down) { [self] in
                arrive(topic, payload, number, clientID, expiry, delivery)
            }
        }
    }

    private func arrive(
        _ topic: String, _ payload: [UInt8], _ number: Int, _ clientID: ByteString, _ expiry: Milliseconds?,
        _ delivery: Delivery
    ) {
        guard !isFrozen else {
            return world.at(frozenUntil) { [self] in arrive(topic, payload, number, clientID, expiry, delivery) }
        }
        guard let connection = find(number) else {
            // The client has not acknowledged the message, so the broker sends the message again in the same session.
            return keep(topic, payload, expiry, delivery, for: clientID)
        }
        guard !connection.isCut, silentUntil <= world.now else {
            connection.client?.missed(connection: number)
            return
        }
        if let expiry, expiry <= world.now { return }
        connection.client?.received(topic: topic, payload: payload, connection: number, delivery: delivery)
    }
}
