import BellwireClientCore
import Glibc
import MQTTClient
import Support

/// Bellwire's own MQTT client, driven by a `ThreadedConnection`.
final class MQTTThread: ThreadedClient {
    private let connection: MQTTConnection
    private let topics: [String]
    private let qos: QoS
    private let wakeUp: WakeUp
    /// Returns a known cause of a connection's failure or end, beside the error.
    private let cause: (MQTTError) -> String?
    /// The subscriptions that the broker has not granted; nil before CONNACK.
    private var ungranted: Set<Int32>?
    var received: [BellwireTransportEvent] = []

    var isSubscribed: Bool { ungranted?.isEmpty == true }
    var backlog: Int { connection.backlog }
    var largestPacket: Int { connection.maximumPacketSize }

    /// Connects; blocks while the name is looked up and TCP connects.
    init(
        _ settings: MQTTConnection.Configuration, _ request: BellwireConnectionRequest, _ wakeUp: WakeUp,
        cause: @escaping (MQTTError) -> String?
    ) throws(BellwireTransportError) {
        (topics, qos) = (request.topics, QoS(request.qos))
        (self.wakeUp, self.cause) = (wakeUp, cause)
        do throws(MQTTError) {
            connection = try MQTTConnection(settings)
            try connection.connect()
        } catch {
            throw BellwireTransportError(error.because(cause(error)))
        }
    }

    func wait(milliseconds: Int32) throws(BellwireTransportError) {
        try explaining { () throws(MQTTError) in
            var other = pollfd(fd: wakeUp.descriptor, events: Int16(POLLIN), revents: 0)
            let messages = try connection.poll(milliseconds: milliseconds, others: &other)
            if other.revents != 0 { wakeUp.clear() }
            received += messages.map { .received(payload: $0.payload, isRetained: $0.retain) }
            try subscribe()
        }
    }

    /// Subscribes to all topics after CONNACK, and then removes granted subscriptions from `ungranted`.
    private func subscribe() throws(MQTTError) {
        guard connection.state == .connected else { return }
        if let ungranted {
            if !ungranted.isEmpty { self.ungranted = ungranted.subtracting(connection.acknowledged) }
        } else {
            var outstanding: Set<Int32> = []
            for topic in topics { outstanding.insert(try connection.subscribe(topic, qos: qos)) }
            ungranted = outstanding
        }
    }

    func publish(_ messages: [BellwireOutgoingMessage]) throws(BellwireTransportError) {
        try explaining { () throws(MQTTError) in
            try connection.together { () throws(MQTTError) in
                for message in messages { try connection.publish(MQTTMessage(message, qos)) }
            }
        }
    }

    func probe() throws(BellwireTransportError) { try explaining { () throws(MQTTError) in try connection.ask() } }

    func disconnect() { connection.disconnect() }

    private func explaining(_ body: () throws(MQTTError) -> Void) throws(BellwireTransportError) {
        do throws(MQTTError) {
            try body()
        } catch {
            throw BellwireTransportError(error.because(cause(error)))
        }
    }
}

extension MQTTMessage {
    fileprivate init(_ message: BellwireOutgoingMessage, _ qos: QoS) {
        self.init(topic: message.topic, payload: message.payload, qos: qos, expirySeconds: message.expirySeconds)
    }
}
