import Glibc
import MQTTClient

/// The connections of a load, one to each broker. All devices of one user, as the topic names the user, are at the same
/// broker.
final class BenchConnections {
    private let connections: [MQTTConnection]
    private var brokerOfTopic: [String: Int] = [:]

    init(_ brokers: [BrokerAddress], clientID: String, filters: [String], qos: QoS) throws {
        connections = try brokers.map { broker in
            var configuration = MQTTConnection.Configuration(broker: broker, clientID: clientID)
            // While other parts are measured, this connection is not polled.
            configuration.keepAlive = .max
            let connection = try MQTTConnection(configuration)
            try connection.connect()
            while connection.state == .connecting { _ = try connection.poll(milliseconds: 100) }
            var waiting = Set(try filters.map { try connection.subscribe($0, qos: qos) })
            while !waiting.isEmpty {
                _ = try connection.poll(milliseconds: 100)
                waiting.subtract(connection.acknowledged)
            }
            return connection
        }
    }

    /// Publishes messages, and sends them together.
    func publish(_ messages: [(topic: String, payload: [UInt8])], qos: QoS) throws {
        guard connections.count > 1 else { return try publish(messages, at: 0, qos) }
        for place in connections.indices {
            let own = messages.filter { broker(of: $0.topic) == place }
            if !own.isEmpty { try publish(own, at: place, qos) }
        }
    }

    private func publish(_ messages: [(topic: String, payload: [UInt8])], at place: Int, _ qos: QoS) throws {
        let connection = connections[place]
        try connection.together { () throws(MQTTError) in
            for (topic, payload) in messages {
                try connection.publish(MQTTMessage(topic: topic, payload: payload, qos: qos))
            }
        }
    }

    /// Waits up to `milliseconds` for messages of any broker.
    func poll(milliseconds: Int32) throws -> [MQTTMessage] {
        guard connections.count > 1 else { return try connections[0].poll(milliseconds: milliseconds) }
        var descriptors: [pollfd] = []
        for connection in connections { descriptors.append(try connection.prepareToWait(reads: true)) }
        let isBusy = connections.contains { $0.hasWork(reads: true) }
        _ = Glibc.poll(&descriptors, nfds_t(descriptors.count), isBusy ? 0 : milliseconds)
        var messages: [MQTTMessage] = []
        for (connection, descriptor) in zip(connections, descriptors) {
            guard descriptor.revents != 0 || connection.hasWork(reads: true) else { continue }
            messages += try connection.receive(descriptor.revents, reads: true)
        }
        return messages
    }

    /// The broker of the user in a topic `{root}/up/{user}/{device}` or `{root}/presence/{user}/{device}`.
    private func broker(of topic: String) -> Int {
        if let known = brokerOfTopic[topic] { return known }
        let user = topic.split(separator: "/").dropLast().last ?? ""
        let place = user.utf8.reduce(0) { ($0 &* 31 &+ Int($1)) & 0xFFFF } % connections.count
        brokerOfTopic[topic] = place
        return place
    }
}
