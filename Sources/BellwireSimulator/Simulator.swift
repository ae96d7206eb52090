import CallCore
import HistoryChecker
import SignalingProtocol

/// Plays worlds from seeds (docs/simulation.md).
package struct Simulator {
    package struct Result: Sendable {
        package let seed: UInt64
        package let violations: [Violation]
        /// A hash of all entries of the history: the same for the same seed, in every run.
        package let fingerprint: UInt64
        /// The milliseconds that passed in the world.
        package let virtualTime: Int64
        package let calls: Int
        /// The number of injected faults by kind.
        package let faults: [String: Int]
        /// How often workers handed a push to a provider, by kind.
        package let pushes: [PushKind: Int]
        /// How many rooms the media server deleted, and how many participants the server removed.
        package let rooms: (deleted: Int, removed: Int)
    }

    /// Whether the worlds have no faults: networks and stores take their time, but no part fails.
    package let isLite: Bool

    /// Whether the worlds have neither webhooks nor pushes nor a media server.
    package let callsOnly: Bool

    package init(isLite: Bool = false, callsOnly: Bool = false) {
        self.isLite = isLite
        self.callsOnly = callsOnly
    }

    private func plan(_ seed: UInt64) -> Plan { Plan.drawn(seed: seed, isLite: isLite, callsOnly: callsOnly) }

    package func run(seed: UInt64) -> Result {
        result(seed, World(plan(seed)).play())
    }

    private func result(_ seed: UInt64, _ verdict: Verdict) -> Result {
        Result(
            seed: seed, violations: verdict.violations, fingerprint: verdict.fingerprint,
            virtualTime: verdict.virtualTime, calls: verdict.calls, faults: verdict.faults, pushes: verdict.pushes,
            rooms: verdict.rooms)
    }

    /// Returns the history of a world, line by line.
    package func trace(seed: UInt64) -> [String] {
        let world = World(plan(seed), keepsLines: true)
        _ = world.play()
        return world.lines
    }

    /// A failure, told by the smallest world in which the simulator has found the failure.
    package struct Story: Sendable {
        package let violations: [Violation]
        package let acts: Int
        package let plannedActs: Int
        /// The faults that remain possible in this world, in words.
        package let faults: String
        /// The history of this world, line by line.
        package let lines: [String]
    }

    /// Makes a failing world smaller. First kinds of faults are removed one after the other, and then planned acts, in
    /// larger and then smaller parts, as long as a violation of the same kind remains.
    package func minimised(seed: UInt64, attempts: Int = 400) -> Story {
        var plan = plan(seed)
        var best = World(plan).play().violations
        let kind = best.first?.kind
        var rest = attempts
        func stillFails(_ plan: Plan, leaving left: Set<Int>) -> Bool {
            guard rest > 0 else { return false }
            rest -= 1
            let violations = World(plan, leaving: left).play().violations
            guard violations.contains(where: { $0.kind == kind }) else { return false }
            best = violations
            return true
        }
        for calmer in FaultMix.calmer {
            var candidate = plan
            calmer(&candidate.mix)
            if candidate.mix != plan.mix, stillFails(candidate, leaving: []) { plan = candidate }
        }
        var left: Set<Int> = []
        var size = max(1, plan.acts.count / 2)
        while size >= 1, rest > 0 {
            var isSmaller = false
            let kept = plan.acts.map(\.number).filter { !left.contains($0) }
            for part in stride(from: 0, to: kept.count, by: size) {
                let candidate = left.union(kept[part..<min(part + size, kept.count)])
                guard stillFails(plan, leaving: candidate) else { continue }
                left = candidate
                isSmaller = true
            }
            if !isSmaller { size /= 2 }
        }
        let world = World(plan, leaving: left, keepsLines: true)
        _ = world.play()
        return Story(
            violations: best.filter { $0.kind == kind }, acts: plan.acts.count - left.count,
            plannedActs: plan.acts.count, faults: plan.mix.summary, lines: world.lines)
    }
}
