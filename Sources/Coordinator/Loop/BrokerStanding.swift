/// The state of a coordinator at the broker: connected or not, in the share group or not. This state machine takes
/// events and the time, and returns actions.
struct BrokerStanding {
    /// The bounds, in milliseconds.
    private enum StandingBounds {
        static let connectTimeout: Int64 = 5_000
        static let drainTimeout: Int64 = 3_000
        static let backoff: ClosedRange<Int64> = 250...5_000
    }

    enum BrokerState: Equatable {
        /// No connection exists. Next: `connecting`, at `until`.
        case offline(until: Int64)
        /// The connection was requested. Next: `subscribing`, or `offline`.
        case connecting(by: Int64)
        /// The subscriptions were sent. Next: `listening`, or `offline`.
        case subscribing(by: Int64)
        /// The coordinator is in the share group. Next: `leaving`, `draining`, `offline`.
        case listening
        /// The store is out of reach, and the broker was asked to give the messages to other coordinators. Messages
        /// that came before are still answered. Next: `away`, `draining`, `offline`.
        case leaving(by: Int64)
        /// The coordinator is not in the share group. Next: `subscribing` when the store answers, `draining`,
        /// `offline`.
        case away
        /// The coordinator was asked to end, and the broker to give the messages to other coordinators. Next: `ended`.
        case draining(by: Int64, hasLeft: Bool)
        case ended
    }

    private(set) var state = BrokerState.offline(until: 0)
    private var backoff = StandingBounds.backoff.lowerBound
    private let random: (ClosedRange<Int64>) -> Int64

    init(_ random: @escaping (ClosedRange<Int64>) -> Int64) { self.random = random }

    var isListening: Bool { state == .listening }
    var isDraining: Bool { if case .draining = state { true } else { false } }
    var hasLeft: Bool { if case .draining(_, hasLeft: true) = state { true } else { false } }
    var hasEnded: Bool { state == .ended }

    /// Whether the broker can take outbound messages.
    var canPublish: Bool {
        switch state {
        case .subscribing, .listening, .leaving, .away, .draining: true
        case .offline, .connecting, .ended: false
        }
    }

    /// The time when the state changes without a further event.
    var nextTick: Int64 {
        switch state {
        case .offline(let until): until
        case .connecting(let by), .subscribing(let by), .leaving(let by), .draining(let by, _): by + 1
        case .listening, .away, .ended: .max
        }
    }

    // MARK: Events

    mutating func advance(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .offline(let until) where now >= until:
            state = .connecting(by: now + StandingBounds.connectTimeout)
            return [.connect]
        case .connecting(let by) where now > by, .subscribing(let by) where now > by, .leaving(let by) where now > by:
            return [.note(.brokerIsSilent), .disconnect] + lost(now)
        case .draining(let by, _) where now > by: return end()
        default: return []
        }
    }

    /// Handles that the broker has accepted the connection.
    mutating func connected(_ now: Int64) -> [CoordinatorLoop.Action] {
        guard case .connecting = state else { return [] }
        return subscribe(now)
    }

    /// Handles that the broker has answered all subscribe or unsubscribe requests.
    mutating func answered(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .subscribing:
            state = .listening
            backoff = StandingBounds.backoff.lowerBound
            return [.note(.listening)]
        case .leaving: state = .away
        case .draining(let by, _): state = .draining(by: by, hasLeft: true)
        default: break
        }
        return []
    }

    /// Handles the loss of the connection and of all messages in its queue; the next attempt comes after a jittered
    /// backoff.
    mutating func lost(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .offline, .ended: return []
        case .draining: return end()
        case .connecting, .subscribing, .listening, .leaving, .away:
            state = .offline(until: now + random(backoff / 2...backoff))
            backoff = min(backoff * 2, StandingBounds.backoff.upperBound)
            return []
        }
    }

    /// Handles that the process stood still and its received messages are stale.
    mutating func frozen(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .offline, .ended: return []
        case .connecting, .subscribing, .listening, .leaving, .away, .draining:
            return [.note(.frozen), .disconnect] + lost(now)
        }
    }

    /// Leaves the share group, so that the broker gives the messages to coordinators that may reach the store.
    mutating func leave(because reason: String, _ now: Int64) -> [CoordinatorLoop.Action] {
        guard state == .listening else { return [] }
        state = .leaving(by: now + StandingBounds.connectTimeout)
        return [.note(.storeOutOfReach(reason)), .unsubscribe]
    }

    /// Returns to the share group, once the store answers.
    mutating func comeBack(_ now: Int64) -> [CoordinatorLoop.Action] {
        guard state == .away else { return [] }
        return [.note(.storeWithinReach)] + subscribe(now)
    }

    private mutating func subscribe(_ now: Int64) -> [CoordinatorLoop.Action] {
        state = .subscribing(by: now + StandingBounds.connectTimeout)
        return [.subscribe]
    }

    /// Leaves the share group, and then ends.
    mutating func drain(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .listening:
            state = .draining(by: now + StandingBounds.drainTimeout, hasLeft: false)
            return [.unsubscribe]
        case .leaving, .away:
            state = .draining(by: now + StandingBounds.drainTimeout, hasLeft: state == .away)
            return []
        case .draining, .ended: return []
        case .offline, .connecting, .subscribing: return end()
        }
    }

    mutating func end() -> [CoordinatorLoop.Action] {
        state = .ended
        return [.end]
    }
}
