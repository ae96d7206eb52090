import CallCore
import CallStore
import SignalingProtocol

private let clockWasSet: StaticString = """
    the clock of the store's machine was set: calls are not affected; signatures of webhooks, tokens and expiries of \
    pushes, and TURN credentials use the wall clock of the machine that makes them
    """

/// Logs changes of the store and of the brokers, each change once.
struct Notices {
    /// How long the store must answer before the log says so, in milliseconds, so that a failure that comes and goes is
    /// logged once.
    private static let answeringBeforeTold: Int64 = 2_000

    /// The log names a user at most once in this time, in milliseconds: the user who met limits most often.
    private static let limitedInterval: Int64 = 60_000
    /// The number of times that a user must meet limits before the log names the user.
    private static let limitedTimes = 10

    private let log: Log
    private var nextLimited: Int64 = 0
    private var toldFailure = false
    private var lastFailure: Int64 = 0
    /// The hazards in the store's settings that were logged last.
    private var toldHazards: [StoreHazard] = []
    private var knownClockSteps: Int?
    /// The brokers that are away, as logged last.
    private var toldAway: [BrokerName] = []

    init(_ log: Log) { self.log = log }

    mutating func tell(_ service: CallService, _ now: Int64) {
        tellFailure(service.storeFailure, now)
        let hazards = service.store.hazards
        for hazard in hazards where !toldHazards.contains(hazard) {
            log(.warning, "the store may lose calls", ["reason": hazard.description])
        }
        toldHazards = hazards
        let steps = service.store.clockSteps
        if let known = knownClockSteps, steps.count > known {
            log(.warning, clockWasSet, ["by": "\(steps.last) ms"])
            service.count(.storeClockSteps, steps.count - known)
        }
        knownClockSteps = steps.count
        tellAway(service.awayBrokers)
        if now >= nextLimited {
            nextLimited = now + Self.limitedInterval
            tellLimited(service.takeMostLimited())
        }
    }

    private func tellLimited(_ most: (user: UserID, limit: String, count: Int)?) {
        guard let most, most.count >= Self.limitedTimes else { return }
        log(
            .warning, "a user meets limits",
            ["user": most.user.string, "limit": most.limit, "times": "\(most.count)", "within": "60 s"])
    }

    private mutating func tellFailure(_ failure: String?, _ now: Int64) {
        if let failure {
            if !toldFailure { log(.error, "the store cannot answer", ["reason": failure]) }
            toldFailure = true
            lastFailure = now
        } else if toldFailure, now - lastFailure >= Self.answeringBeforeTold {
            log(.info, "the store answers again")
            toldFailure = false
        }
    }

    private mutating func tellAway(_ away: [BrokerName]) {
        guard away != toldAway else { return }
        for broker in away where !toldAway.contains(broker) {
            log(.warning, "no coordinator hears the broker: its devices count as offline", ["broker": broker])
        }
        for broker in toldAway where !away.contains(broker) {
            log(.info, "the broker is heard again: its devices are asked for their presence", ["broker": broker])
        }
        toldAway = away
    }
}
