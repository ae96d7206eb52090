import SignalingProtocol

/// When a connection is left because its broker delivers nothing, although it answers pings (docs/protocol.md, section
/// 1, Several brokers).
struct SilenceWatch: Sendable, Equatable {
    /// When the device sent, on this connection, the first request or presence after which no message has come; nil
    /// when there is none.
    var since: Int64?
    /// The number of connections in a row that were left because no message came any more; 0 again with the next
    /// message.
    var left = 0

    /// The wait for a message, in milliseconds.
    static let firstWait: Int64 = 8_000
    /// The longest wait, in milliseconds. The wait doubles with each connection that is left, because another broker
    /// does not help while no coordinator serves: all brokers are silent then.
    static let longestWait: Int64 = 64_000
    private static let waits = Backoff(first: firstWait, longest: longestWait)

    /// When to leave the connection.
    var deadline: Int64? { since.map { $0 + Self.waits.wait(after: left + 1) } }
}

extension ClientMachine {
    /// Notes that a request or presence was sent, which the service answers.
    mutating func awaitsAnswer(now: Int64) {
        if silence.since == nil { silence.since = now }
    }

    mutating func silenceDue(now: Int64) -> [Action] {
        guard case .subscribed = link, let deadline = silence.deadline, deadline <= now else { return [] }
        silence.left += 1
        silence.since = nil
        return [.renewSession]
    }
}
