import CallCore
import SignalingProtocol

/// One message on its way to one client, as one copy or more.
final class Delivery {
    /// A copy was received.
    var isSeen = false
}

/// Who is connected to the simulated broker.
protocol BrokerClient: AnyObject {
    var clientID: String { get }
    /// A message has arrived over this connection; its copies, when the network made two of one, share the `delivery`.
    func received(topic: String, payload: [UInt8], connection: Int, delivery: Delivery)
    /// A message of this client was doubled on its way.
    func doubled(_ payload: [UInt8])
    /// A message was lost in a network that is cut.
    func missed(connection: Int)
    /// The connection is gone.
    func disconnected(connection: Int)
}

/// A broker as MQTT describes it, as far as the protocol relies on it: clean sessions, wills, one connection per client
/// id, shared subscriptions, message expiry, and order on each connection.
///
/// What is on its way to a client when its connection breaks is lost, at QoS 1 too: sessions are clean.
final class SimulatedBroker {
    struct Will {
        let topic: String
        let payload: [UInt8]
    }

    private final class Connection {
        let number: Int
        weak var client: (any BrokerClient)?
        let clientID: String
        var will: Will?
        var topics: Set<String> = []
        var isShared = false
        /// Messages keep their order: none arrives before the one before it.
        var lastArrival: (up: Milliseconds, down: Milliseconds) = (0, 0)
        /// The network from the broker to this client is cut.
        var isCut = false
        /// Delays and losses are of devices; coordinators sit beside the broker.
        let isDevice: Bool

        init(number: Int, client: any BrokerClient, will: Will?, isDevice: Bool) {
            self.number = number
            self.client = client
            clientID = client.clientID
            self.will = will
            self.isDevice = isDevice
        }
    }

    private unowned let world: World
    private var random: SeededRandom
    private var connections: [Connection] = []
    private var connectionCount = 0
    private(set) var isUp = true
    private var turn = 0

    init(in world: World, random: SeededRandom) {
        self.world = world
        self.random = random
    }

    // MARK: Connections

    /// Nil while the broker is down. A client with the same id is thrown out, and its will published.
    func connect(_ client: any BrokerClient, will: Will?, isDevice: Bool) -> Int? {
        guard isUp else { return nil }
        if let old = connections.first(where: { $0.clientID == client.clientID }) { lose(old.number) }
        connectionCount += 1
        connections.append(Connection(number: connectionCount, client: client, will: will, isDevice: isDevice))
        return connectionCount
    }

    func subscribe(_ number: Int, topics: Set<String>) { find(number)?.topics = topics }

    /// Joins the group of coordinators: each message on an up or presence topic goes to one of them.
    func share(_ number: Int) { find(number)?.isShared = true }

    func unshare(_ number: Int) { find(number)?.isShared = false }

    /// DISCONNECT: no will.
    func disconnect(_ number: Int) {
        find(number)?.will = nil
        lose(number)
    }

    /// The connection breaks; the broker publishes the will.
    func lose(_ number: Int) {
        guard let place = connections.firstIndex(where: { $0.number == number }) else { return }
        let connection = connections.remove(at: place)
        connection.client?.disconnected(connection: number)
        if let will = connection.will { route(will.topic, will.payload, expiry: nil) }
    }

    /// Cuts the way to the client, or mends it.
    func cut(_ number: Int, _ isCut: Bool) { find(number)?.isCut = isCut }

    /// The broker dies with all that it has: nobody's will is published.
    func crash() {
        isUp = false
        let gone = connections
        connections = []
        for connection in gone { connection.client?.disconnected(connection: connection.number) }
    }

    func start() { isUp = true }

    private func find(_ number: Int) -> Connection? { connections.first { $0.number == number } }

    // MARK: Messages

    /// A client publishes. It arrives at the broker after the link's delay, if it does.
    func publish(_ number: Int, topic: String, payload: [UInt8], expirySeconds: UInt32? = nil) {
        guard let connection = find(number) else { return }
        guard connection.isDevice else {
            route(topic, payload, expiry: expirySeconds.map { world.now + Milliseconds($0) * 1000 })
            return
        }
        let copies = world.hasFaults && random.chance(world.mix.duplication) ? 2 : 1
        for copy in 0..<copies {
            if copy > 0 { connection.client?.doubled(payload) }
            connection.lastArrival.up = max(connection.lastArrival.up, world.now + delay())
            world.at(connection.lastArrival.up) { [self] in
                // What was sent over a connection that broke meanwhile never arrives.
                guard find(number) != nil else { return }
                route(topic, payload, expiry: nil)
            }
        }
    }

    private func delay() -> Milliseconds { world.hasFaults ? random.between(0, world.mix.delay) : 1 }

    private func route(_ topic: String, _ payload: [UInt8], expiry: Milliseconds?) {
        guard isUp else { return }
        if topic.hasPrefix(world.downPrefix) {
            for connection in connections where connection.topics.contains(topic) {
                deliver(topic, payload, to: connection, expiry)
            }
        } else {
            let members = connections.filter(\.isShared)
            guard !members.isEmpty else { return }
            turn += 1
            deliver(topic, payload, to: members[turn % members.count], expiry)
        }
    }

    private func deliver(_ topic: String, _ payload: [UInt8], to connection: Connection, _ expiry: Milliseconds?) {
        let number = connection.number
        let copies = connection.isDevice && world.hasFaults && random.chance(world.mix.duplication) ? 2 : 1
        let delivery = Delivery()
        for _ in 0..<copies {
            let delay = connection.isDevice ? delay() : 0
            connection.lastArrival.down = max(connection.lastArrival.down, world.now + delay)
            world.at(connection.lastArrival.down) { [self] in
                guard let connection = find(number) else { return }
                guard !connection.isCut else {
                    connection.client?.missed(connection: number)
                    return
                }
                if let expiry, expiry <= world.now { return }
                connection.client?.received(topic: topic, payload: payload, connection: number, delivery: delivery)
            }
        }
    }
}
