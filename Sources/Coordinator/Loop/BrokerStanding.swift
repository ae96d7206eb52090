/// Where a coordinator stands with the broker: connected or not, in the share group or not. A machine of its own: what happened and the time
/// in, what is to be done out.
struct BrokerStanding {
    /// In milliseconds.
    private enum Bounds {
        static let connectTimeout: Int64 = 5_000
        static let drainTimeout: Int64 = 3_000
        static let backoff: ClosedRange<Int64> = 250...5_000
    }

    enum State: Equatable {
        /// No connection. Next: `connecting`, at `until`.
        case offline(until: Int64)
        /// The connection was asked for. Next: `subscribing`, or `offline`.
        case connecting(by: Int64)
        /// Next: `listening`, or `offline`.
        case subscribing(by: Int64)
        /// In the share group. Next: `leaving`, `draining`, `offline`.
        case listening
        /// The store is out of reach, and the broker was asked to hand the messages to others. What it was handed before is still
        /// answered. Next: `away`, `draining`, `offline`.
        case leaving(by: Int64)
        /// Not in the share group. Next: `subscribing` when the store answers, `draining`, `offline`.
        case away
        /// Asked to end: the broker was asked to hand the messages to others. Next: `ended`.
        case draining(by: Int64, hasLeft: Bool)
        case ended
    }

    private(set) var state = State.offline(until: 0)
    private var backoff = Bounds.backoff.lowerBound
    private let random: (ClosedRange<Int64>) -> Int64

    init(_ random: @escaping (ClosedRange<Int64>) -> Int64) { self.random = random }

    var isListening: Bool { state == .listening }
    var isDraining: Bool { if case .draining = state { true } else { false } }
    var hasLeft: Bool { if case .draining(_, hasLeft: true) = state { true } else { false } }
    var hasEnded: Bool { state == .ended }

    /// Whether what is published reaches anybody.
    var canPublish: Bool {
        switch state {
        case .subscribing, .listening, .leaving, .away, .draining: true
        case .offline, .connecting, .ended: false
        }
    }

    /// When something follows from time alone.
    var nextTick: Int64 {
        switch state {
        case .offline(let until): until
        case .connecting(let by), .subscribing(let by), .leaving(let by), .draining(let by, _): by + 1
        case .listening, .away, .ended: .max
        }
    }

    // MARK: What happened

    mutating func advance(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .offline(let until) where now >= until:
            state = .connecting(by: now + Bounds.connectTimeout)
            return [.connect]
        case .connecting(let by) where now > by, .subscribing(let by) where now > by, .leaving(let by) where now > by:
            return [.note(.brokerIsSilent), .disconnect] + lost(now)
        case .draining(let by, _) where now > by: return end()
        default: return []
        }
    }

    /// The broker has accepted the connection.
    mutating func connected(_ now: Int64) -> [CoordinatorLoop.Action] {
        guard case .connecting = state else { return [] }
        return subscribe(now)
    }

    /// The broker has answered all subscriptions, or all their ends.
    mutating func answered(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .subscribing:
            state = .listening
            backoff = Bounds.backoff.lowerBound
            return [.note(.listening)]
        case .leaving: state = .away
        case .draining(let by, _): state = .draining(by: by, hasLeft: true)
        default: break
        }
        return []
    }

    /// The connection goes with all that it had queued; the next attempt comes after a jittered backoff.
    mutating func lost(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .offline, .ended: return []
        case .draining: return end()
        case .connecting, .subscribing, .listening, .leaving, .away:
            state = .offline(until: now + random(backoff / 2...backoff))
            backoff = min(backoff * 2, Bounds.backoff.upperBound)
            return []
        }
    }

    /// The process stood still: what it received is stale.
    mutating func frozen(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .offline, .ended: return []
        case .connecting, .subscribing, .listening, .leaving, .away, .draining:
            return [.note(.frozen), .disconnect] + lost(now)
        }
    }

    /// Others may reach the store: the broker is asked to hand the messages to them.
    mutating func leave(because reason: String, _ now: Int64) -> [CoordinatorLoop.Action] {
        guard state == .listening else { return [] }
        state = .leaving(by: now + Bounds.connectTimeout)
        return [.note(.storeOutOfReach(reason)), .unsubscribe]
    }

    /// The store answers.
    mutating func comeBack(_ now: Int64) -> [CoordinatorLoop.Action] {
        guard state == .away else { return [] }
        return [.note(.storeWithinReach)] + subscribe(now)
    }

    private mutating func subscribe(_ now: Int64) -> [CoordinatorLoop.Action] {
        state = .subscribing(by: now + Bounds.connectTimeout)
        return [.subscribe]
    }

    /// To leave the share group and end.
    mutating func drain(_ now: Int64) -> [CoordinatorLoop.Action] {
        switch state {
        case .listening:
            state = .draining(by: now + Bounds.drainTimeout, hasLeft: false)
            return [.unsubscribe]
        case .leaving, .away:
            state = .draining(by: now + Bounds.drainTimeout, hasLeft: state == .away)
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
