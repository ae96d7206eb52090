import CallCore

/// The state of a coordinator at all brokers. Each broker has a state of its own; the coordinator serves while it is in
/// the share group of at least one broker.
struct BrokerStandings {
    private var standings: [BrokerStanding]

    init(_ count: Int, _ random: @escaping (ClosedRange<Int64>) -> Int64) {
        standings = (0..<count).map { BrokerStanding($0, random) }
    }

    var count: Int { standings.count }

    subscript(broker: BrokerIndex) -> BrokerStanding { standings[broker] }

    var isListening: Bool { standings.contains(where: \.isListening) }
    var isDraining: Bool { standings.contains(where: \.isDraining) }
    /// Whether the coordinator has left the share groups of all brokers.
    var hasLeft: Bool { standings.allSatisfy(\.hasLeft) }
    var hasEnded: Bool { standings.allSatisfy(\.hasEnded) }
    var canPublish: Bool { standings.contains(where: \.canPublish) }
    var nextTick: Int64 { standings.lazy.map(\.nextTick).min() ?? .max }

    /// The first broker that can take a message for another coordinator, which publishes the message at `broker`.
    func relay(to broker: BrokerIndex) -> BrokerIndex? {
        standings.indices.first { $0 != broker && standings[$0].isListening }
    }

    // MARK: Events at one broker

    mutating func connected(_ broker: BrokerIndex, _ now: Int64) -> [CoordinatorLoop.Action] {
        standings[broker].connected(now)
    }

    mutating func answered(_ broker: BrokerIndex, _ now: Int64) -> [CoordinatorLoop.Action] {
        standings[broker].answered(now)
    }

    mutating func lost(_ broker: BrokerIndex, _ now: Int64) -> [CoordinatorLoop.Action] {
        standings[broker].lost(now)
    }

    mutating func heard(_ broker: BrokerIndex, isCanary: Bool, _ now: Int64) {
        standings[broker].heard(isCanary: isCanary, now)
    }

    /// Returns the brokers that have delivered a message since `since`, and how many milliseconds ago; nil while the
    /// coordinator listens at no broker that delivers messages.
    func heard(since: Int64, _ now: Int64) -> [(broker: BrokerIndex, age: Int64)]? {
        guard standings.contains(where: { $0.isListening && !$0.isSuspected }) else { return nil }
        return standings.enumerated().map { ($0.offset, now - $0.element.lastHeard(now)) }
            .filter { now - $0.age >= since }
    }

    // MARK: Events at all brokers

    mutating func advance(_ now: Int64) -> [CoordinatorLoop.Action] { atAll { $0.advance(now) } }

    mutating func frozen(_ now: Int64) -> [CoordinatorLoop.Action] { atAll { $0.frozen(now) } }

    mutating func leave(because reason: String, _ now: Int64) -> [CoordinatorLoop.Action] {
        atAll { $0.leave(because: reason, now) }
    }

    mutating func comeBack(_ now: Int64) -> [CoordinatorLoop.Action] { atAll { $0.comeBack(now) } }

    mutating func drain(_ now: Int64) -> [CoordinatorLoop.Action] { atAll { $0.drain(now) } }

    mutating func end() { for broker in standings.indices { standings[broker].end() } }

    private mutating func atAll(
        _ event: (inout BrokerStanding) -> [CoordinatorLoop.Action]
    ) -> [CoordinatorLoop.Action] {
        // The usual answer is empty, so that no array is allocated in most turns.
        var actions: [CoordinatorLoop.Action] = []
        for broker in standings.indices {
            let more = event(&standings[broker])
            if !more.isEmpty { actions += more }
        }
        return actions
    }
}
