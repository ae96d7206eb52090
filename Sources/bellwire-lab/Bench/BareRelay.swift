import Glibc
import MQTTClient

/// The limit of any service: a process that only receives on a shared subscription and publishes as many bytes as each
/// message asks for, to the answer's topic. No service behind this broker can be faster.
///
/// Messages to the relay have the topic `bench/up/PLACE`; the first eight digits of the payload are the number of bytes
/// of the answer. Answers have the topic `bench/down/PLACE`.
enum BareRelay {
    static let upPrefix = "bench/up/"
    static let downPrefix = "bench/down/"
    /// The number of digits at the start of each payload.
    static let header = 8
    private static let filter = "$share/relay/bench/up/+"

    /// Runs the relay, after a message to `bench/down/ready`.
    static func run(broker: BrokerAddress, qos: QoS) throws -> Never {
        let connection = try MQTTConnection(MQTTConnection.Configuration(broker: broker, clientID: "bench-relay"))
        try connection.connect()
        while connection.state == .connecting { _ = try connection.poll(milliseconds: 100) }
        var waiting: Set = [try connection.subscribe(filter, qos: qos)]
        while !waiting.isEmpty {
            _ = try connection.poll(milliseconds: 100)
            waiting.subtract(connection.acknowledged)
        }
        try connection.publish(MQTTMessage(topic: downPrefix + "ready", payload: [], qos: qos))
        var payload: [UInt8] = []
        while true {
            let messages = try connection.poll(milliseconds: 1_000)
            guard !messages.isEmpty else { continue }
            try connection.together { () throws(MQTTError) in
                for message in messages where message.topic.hasPrefix(upPrefix) {
                    let size = message.payload.prefix(header).reduce(0) { $0 * 10 + Int($1 &- UInt8(ascii: "0")) }
                    if payload.count != size { payload = [UInt8](repeating: UInt8(ascii: "x"), count: size) }
                    try connection.publish(
                        MQTTMessage(
                            topic: downPrefix + message.topic.dropFirst(upPrefix.count), payload: payload, qos: qos,
                            expirySeconds: 60))
                }
            }
        }
    }
}
