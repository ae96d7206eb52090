import CallCore
import HistoryChecker

/// Plays worlds from seeds (docs/simulation.md).
public struct Simulator {
    public struct Result: Sendable {
        public let seed: UInt64
        public let violations: [Violation]
        /// Of everything that was seen: the same for the same seed, in every run.
        public let fingerprint: UInt64
        /// Milliseconds that passed in the world.
        public let virtualTime: Int64
        public let calls: Int
        /// What was injected, by kind.
        public let faults: [String: Int]
    }

    /// Lite: networks and stores take their time, and nothing fails.
    public let isLite: Bool

    public init(isLite: Bool = false) { self.isLite = isLite }

    public func run(seed: UInt64) -> Result {
        result(seed, World(Plan.drawn(seed: seed, isLite: isLite)).play())
    }

    private func result(_ seed: UInt64, _ verdict: Verdict) -> Result {
        Result(
            seed: seed, violations: verdict.violations, fingerprint: verdict.fingerprint,
            virtualTime: verdict.virtualTime, calls: verdict.calls, faults: verdict.faults)
    }

    /// Everything that was seen in a world, line by line.
    public func trace(seed: UInt64) -> [String] {
        let world = World(Plan.drawn(seed: seed, isLite: isLite), keepsLines: true)
        _ = world.play()
        return world.lines
    }

    /// The story of a failure with as little around it as still makes it happen: planned acts are left out one after the
    /// other, in larger and then smaller parts, as long as a violation of the same kind remains.
    public func minimised(seed: UInt64, attempts: Int = 400) -> (violations: [Violation], acts: Int, of: Int) {
        let plan = Plan.drawn(seed: seed, isLite: isLite)
        let first = World(plan).play()
        guard let kind = first.violations.first?.kind else { return ([], plan.acts.count, plan.acts.count) }
        var left: Set<Int> = []
        var best = first.violations
        var rest = attempts
        var size = max(1, plan.acts.count / 2)
        while size >= 1, rest > 0 {
            var isSmaller = false
            let kept = plan.acts.map(\.number).filter { !left.contains($0) }
            for part in stride(from: 0, to: kept.count, by: size) where rest > 0 {
                rest -= 1
                let candidate = left.union(kept[part..<min(part + size, kept.count)])
                let verdict = World(plan, leaving: candidate).play()
                guard verdict.violations.contains(where: { $0.kind == kind }) else { continue }
                left = candidate
                best = verdict.violations
                isSmaller = true
            }
            if !isSmaller { size /= 2 }
        }
        return (best.filter { $0.kind == kind }, plan.acts.count - left.count, plan.acts.count)
    }
}
