import CallCore

/// The state of the connection to a broker, as `/readyz` shows it.
package enum BrokerStatus: String, Sendable {
    /// The connection or the subscriptions are under way.
    case connecting
    case serving
    /// The broker takes messages and has delivered none for some seconds.
    case suspected
    /// There is no connection; the coordinator connects again after a pause.
    case gone
}

/// The state of a coordinator at one broker: connected or not, in the share group or not. This state machine takes
/// events and the time, and returns actions.
struct BrokerStanding {
    /// The bounds, in milliseconds where no unit is given.
    private enum StandingBounds {
        static let connectTimeout: Int64 = 5_000
        static let drainTimeout: Int64 = 3_000
        static let backoff: ClosedRange<Int64> = 250...5_000
        static let canaryInterval: Int64 = 2_000
        /// The number of canaries without any message from the broker after which the broker is suspected, and after
        /// which the connection is given up.
        static let missedSuspected = 2
        static let missedMost = 3
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

    private let broker: BrokerIndex
    private(set) var state = BrokerState.offline(until: 0)
    private var backoff = StandingBounds.backoff.lowerBound
    private let random: (ClosedRange<Int64>) -> Int64
    /// The time at which the next canary is due, while the coordinator is in the share group.
    private var nextCanary = Int64.max
    /// The number of canaries that were published since the broker has delivered a message.
    private var missedCanaries = 0
    /// Whether the broker has ever delivered a canary. Only a broker that has delivered a canary is judged by its
    /// canaries, also on later connections: another broker may refuse canaries.
    private var hasCanary = false
    /// The time at which the broker last delivered a message.
    private var lastHeard = Int64.min / 2

    init(_ broker: BrokerIndex, _ random: @escaping (ClosedRange<Int64>) -> Int64) {
        self.broker = broker
        self.random = random
    }

    var isListening: Bool { state == .listening }
    var isDraining: Bool { if case .draining = state { true } else { false } }
    var hasLeft: Bool { if case .draining(_, hasLeft: true) = state { true } else { hasEnded } }
    var hasEnded: Bool { state == .ended }
    /// Whether the broker has taken canaries and delivered no message for some time.
    var isSuspected: Bool { isListening && hasCanary && missedCanaries >= StandingBounds.missedSuspected }

    /// The last time at which the broker showed that the broker delivers messages. For a broker that refuses canaries,
    /// the subscriptions that the broker holds show this.
    func lastHeard(_ now: Int64) -> Int64 { isListening && !hasCanary ? now : lastHeard }

    var status: BrokerStatus {
        switch state {
        case .offline, .ended: .gone
        case .connecting, .subscribing: .connecting
        case .listening, .leaving, .away, .draining: isSuspected ? .suspected : .serving
        }
    }

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
        case .listening: nextCanary
        case .away, .ended: .max
        }
    }

    // MARK: Events

    mutating func advance(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .offline(let until) where now >= until:
            state = .connecting(by: now + StandingBounds.connectTimeout)
            return [.connect(broker)]
        case .connecting(let by) where now > by, .subscribing(let by) where now > by, .leaving(let by) where now > by:
            return [.note(.brokerIsSilent, broker), .disconnect(broker)] + lost(now)
        case .listening where now >= nextCanary: return sendCanary(now)
        case .draining(let by, _) where now > by:
            end()
            return []
        default: return []
        }
    }

    /// Publishes a canary, or gives the connection up when the broker has delivered none of the last canaries and no
    /// other message.
    private mutating func sendCanary(_ now: Int64) -> [CoordinatorLoop.Action] {
        if hasCanary, missedCanaries >= StandingBounds.missedMost {
            return [.note(.brokerDeliversNothing, broker), .disconnect(broker)] + lost(now)
        }
        missedCanaries += 1
        nextCanary = now + StandingBounds.canaryInterval
        return [.sendCanary(broker)]
    }

    /// Notes that the broker has delivered a message.
    mutating func heard(isCanary: Bool, _ now: Int64) {
        missedCanaries = 0
        lastHeard = now
        if isCanary { hasCanary = true }
    }

    /// Subscribes, after the broker has accepted the connection.
    mutating func connected(_ now: Int64) -> [CoordinatorLoop.Action] {
        guard case .connecting = state else { return [] }
        missedCanaries = 0
        return subscribe(now)
    }

    /// Handles that the broker has answered all subscribe or unsubscribe requests.
    mutating func answered(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .subscribing:
            state = .listening
            backoff = StandingBounds.backoff.lowerBound
            nextCanary = now
            return [.note(.listening, broker)]
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
        case .offline, .ended: break
        case .draining: end()
        case .connecting, .subscribing, .listening, .leaving, .away:
            state = .offline(until: now + random(backoff / 2...backoff))
            backoff = min(backoff * 2, StandingBounds.backoff.upperBound)
        }
        return []
    }

    /// Gives the connection up after the process was frozen, because the received messages are stale.
    mutating func frozen(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .offline, .ended: return []
        case .connecting, .subscribing, .listening, .leaving, .away, .draining:
            return [.note(.frozen, broker), .disconnect(broker)] + lost(now)
        }
    }

    /// Leaves the share group, so that the broker gives the messages to coordinators that may reach the store.
    mutating func leave(because reason: String, _ now: Int64) -> [CoordinatorLoop.Action] {
        guard state == .listening else { return [] }
        state = .leaving(by: now + StandingBounds.connectTimeout)
        return [.note(.storeOutOfReach(reason), broker), .unsubscribe(broker)]
    }

    /// Returns to the share group, once the store answers.
    mutating func comeBack(_ now: Int64) -> [CoordinatorLoop.Action] {
        guard state == .away else { return [] }
        return [.note(.storeWithinReach, broker)] + subscribe(now)
    }

    private mutating func subscribe(_ now: Int64) -> [CoordinatorLoop.Action] {
        state = .subscribing(by: now + StandingBounds.connectTimeout)
        return [.subscribe(broker)]
    }

    /// Leaves the share group, and then ends.
    mutating func drain(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .listening:
            state = .draining(by: now + StandingBounds.drainTimeout, hasLeft: false)
            return [.unsubscribe(broker)]
        case .leaving, .away:
            state = .draining(by: now + StandingBounds.drainTimeout, hasLeft: state == .away)
        case .draining, .ended: break
        case .connecting, .subscribing:
            end()
            return [.disconnect(broker)]
        case .offline: end()
        }
        return []
    }

    mutating func end() { state = .ended }
}
