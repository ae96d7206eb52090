import SignalingProtocol

/// When a connection is left because its broker delivers nothing, although it answers pings (docs/protocol.md, section
/// 1, Several brokers).
///
/// All brokers are silent while no coordinator serves, and another broker does not help then. So the waits double with
/// each connection that is left, and a device without a request waits longer: such devices are many, and no person
/// waits.
struct SilenceWatch: Sendable, Equatable {
    /// When the device sent, on this connection, the first request after which no message has come; nil when there is
    /// none.
    var request: Int64?
    /// The same of presence.
    var presence: Int64?
    /// The number of connections in a row that were left because no message came any more; 0 again with the next
    /// message.
    var left = 0

    /// The first wait for a message after a request, and the bound of the wait, in milliseconds.
    static let firstWait: Int64 = 8_000
    static let longestWait: Int64 = 64_000
    /// The same after presence, in milliseconds.
    static let firstPresenceWait: Int64 = 64_000
    static let longestPresenceWait: Int64 = 1_024_000
    /// A timer that fires later than this has stood still with the device, in milliseconds: messages may have come
    /// meanwhile that the device has not read.
    static let lateTimer: Int64 = 2_000

    private static let waits = Backoff(first: firstWait, longest: longestWait)
    private static let presenceWaits = Backoff(first: firstPresenceWait, longest: longestPresenceWait)

    /// The time at which the device leaves the silent connection.
    var deadline: Int64? {
        let afterRequest = request.map { $0 + Self.waits.wait(after: left + 1) }
        let afterPresence = presence.map { $0 + Self.presenceWaits.wait(after: left + 1) }
        guard let afterRequest, let afterPresence else { return afterRequest ?? afterPresence }
        return min(afterRequest, afterPresence)
    }

    /// Begins anew, on another connection.
    mutating func restart() { (request, presence) = (nil, nil) }
}

extension ClientMachine {
    /// Notes that a request was sent.
    mutating func awaitsResponse(now: Int64) { silence.request = silence.request ?? now }

    /// Notes that presence was sent, which the service answers with a welcome.
    mutating func awaitsWelcome(now: Int64) { silence.presence = silence.presence ?? now }

    mutating func silenceDue(now: Int64) -> [Action] {
        guard case .subscribed = link, let deadline = silence.deadline, deadline <= now else { return [] }
        guard now - deadline <= SilenceWatch.lateTimer else {
            if silence.request != nil { silence.request = now }
            if silence.presence != nil { silence.presence = now }
            return []
        }
        silence.left += 1
        silence.restart()
        return [.renewSession]
    }
}
