import Glibc
import MQTTClient
import Support

/// A connection to the broker that is only examined. Messages are kept as they come.
final class Probe {
    private enum Bounds {
        /// The bound on each answer of the broker, in milliseconds.
        static let answer: Int64 = 5_000
        static let step: Int32 = 5
    }

    private let connection: MQTTConnection
    private(set) var messages: [MQTTMessage] = []

    /// Connects, and waits until the broker has accepted the connection.
    init(_ configuration: MQTTConnection.Configuration) throws(MQTTError) {
        connection = try MQTTConnection(configuration)
        try connection.connect(within: Int32(Bounds.answer))
        guard try wait(until: { connection.state == .connected }) else {
            throw MQTTError(kind: .lost, message: "no answer to CONNECT within 5 s")
        }
    }

    /// The properties of the broker's answer to CONNECT.
    var offer: PacketProperties { connection.offer }

    /// Polls until the condition holds. Returns false after the time.
    func wait(_ milliseconds: Int64 = Bounds.answer, until condition: () -> Bool) throws(MQTTError) -> Bool {
        let end = SystemClock.boot.milliseconds + milliseconds
        while !condition() {
            guard SystemClock.boot.milliseconds < end else { return false }
            try receive(Bounds.step)
        }
        return true
    }

    /// Takes the messages that arrive within the time.
    func receive(_ milliseconds: Int32) throws(MQTTError) {
        messages += try connection.poll(milliseconds: milliseconds)
    }

    func subscribe(_ filter: String, wantsRetained: Bool = false) throws(MQTTError) {
        let identifier = try connection.subscribe(filter, qos: .atLeastOnce, wantsRetained: wantsRetained)
        var isAnswered = false
        let end = SystemClock.boot.milliseconds + Bounds.answer
        while !isAnswered, SystemClock.boot.milliseconds < end {
            try receive(Bounds.step)
            isAnswered = connection.acknowledged.contains(identifier)
        }
        guard isAnswered else { throw MQTTError(kind: .lost, message: "no answer to SUBSCRIBE within 5 s") }
    }

    /// Publishes, and waits for the broker's answer. Returns whether the broker has taken the message.
    func publish(_ message: MQTTMessage) throws(MQTTError) -> Bool {
        let identifier = try connection.publish(message, isAwaited: true)
        var answer: Bool?
        let isAnswered = try wait {
            for (answered, isTaken) in connection.takeAnswered() where answered == identifier { answer = isTaken }
            return answer != nil
        }
        guard isAnswered, let answer else { throw MQTTError(kind: .lost, message: "no PUBACK within 5 s") }
        return answer
    }

    /// Publishes without a wait for the broker's answer.
    func send(_ message: MQTTMessage) throws(MQTTError) { try connection.publish(message) }

    /// Milliseconds until the answer to a PINGREQ.
    func ping() throws(MQTTError) -> Double {
        let begin = SystemClock.boot.microseconds
        try connection.ask()
        guard try wait(until: { !connection.isAsking }) else {
            throw MQTTError(kind: .lost, message: "no answer to PINGREQ within 5 s")
        }
        return Double(SystemClock.boot.microseconds - begin) / 1_000
    }

    /// Waits for a message on a topic; nil after the time.
    func message(on topic: String, within milliseconds: Int64 = Bounds.answer) throws(MQTTError) -> MQTTMessage? {
        _ = try wait(milliseconds) { messages.contains { $0.topic == topic } }
        return messages.first { $0.topic == topic }
    }

    func disconnect() { connection.disconnect(flushingFor: 200) }

    /// Ends the connection without DISCONNECT, so that the broker publishes the will.
    func breakOff() { connection.breakOff() }
}
