@testable import BellwireSimulator
import HistoryChecker
import SignalingProtocol
import Testing

/// Whole deployments in virtual time.
struct SimulatorTests {
    /// Networks and stores take their time, coordinators meet each other between load and commit, and no fault happens:
    /// then nothing may go wrong. Few seeds, since `scripts/test` simulates many in a faster build. Seed 431 found a
    /// merge that was none; seed 20508 found a call that its pusher had let go and taken again at once.
    @Test(arguments: [1, 2, 3, 431, 20508] as [UInt64])
    func withoutFaultsNothingGoesWrong(_ seed: UInt64) {
        let result = Simulator(isLite: true).run(seed: seed)
        #expect(result.calls > 0)
        #expect(result.violations.isEmpty, "\(result.violations[0])")
    }

    /// Whatever goes wrong, no call is lost and every device is told in the end. The last seeds found faults
    /// (docs/simulation.md).
    @Test(arguments: [1, 2, 39, 88, 615] as [UInt64])
    func withFaultsNothingIsLost(_ seed: UInt64) {
        let result = Simulator().run(seed: seed)
        #expect(result.violations.isEmpty, "\(result.violations[0])")
    }

    /// A sleeping phone is rung, told to stop, and told of missed calls; `PushWatch` checks every push.
    @Test func sleepingPhonesArePushed() {
        let result = Simulator(isLite: true).run(seed: 3)
        for kind in PushKind.allCases { #expect(result.pushes[kind] ?? 0 > 0, "\(kind)") }
        #expect(result.violations.isEmpty)
        #expect(Simulator(isLite: true).run(seed: 4).pushes.isEmpty)
    }

    /// The room of a call that is over is closed once, and a member who has left is removed (`SimulatedMediaServer`).
    @Test func roomsAreClosed() throws {
        let seeds = (1...40 as ClosedRange<UInt64>).filter { Plan.drawn(seed: $0, isLite: true).hasRooms }.prefix(4)
        let results = seeds.map { Simulator(isLite: true).run(seed: $0) }
        for result in results { #expect(result.violations.isEmpty, "\(result.violations)") }
        #expect(results.map(\.rooms.deleted).reduce(0, +) > 10)
        #expect(results.map(\.rooms.removed).reduce(0, +) > 0)
    }

    @Test(arguments: Exhaustive.worlds)
    func whateverHappensInASmallWorldIsRight(_ world: String) {
        let result = Exhaustive(world: world, clock: { 0 }).search(depth: 3, for: 1)
        #expect(result.depth == 3)
        #expect(result.states > 100)
        #expect(result.rests > 0)
        #expect(result.violation == nil, "\(result.path)")
    }

    @Test(arguments: [true, false])
    func theSameSeedIsTheSameWorld(isLite: Bool) {
        let (simulator, seed) = (Simulator(isLite: isLite), 7 as UInt64)
        let first = simulator.run(seed: seed)
        let again = simulator.run(seed: seed)
        #expect(first.fingerprint == again.fingerprint)
        #expect(first.virtualTime == again.virtualTime)
        #expect(first.fingerprint != simulator.run(seed: seed + 1).fingerprint)
    }

    /// With such a world, the cost of calls can be compared with a tree that had nothing but calls.
    @Test func aWorldOfCallsOnlyIsTheSameButForWebhooksAndPushes() throws {
        let seed = try #require((1...50 as ClosedRange<UInt64>).first { Plan.drawn(seed: $0, isLite: false).hasPushes })
        let (whole, calls) = (
            Plan.drawn(seed: seed, isLite: false), Plan.drawn(seed: seed, isLite: false, callsOnly: true)
        )
        #expect(!calls.hasPushes && !calls.hasWebhooks && !calls.hasRooms)
        let invites = [whole, calls].map { plan in
            plan.acts.compactMap { act in if case .invite(let invite) = act.what { invite.callID } else { nil } }
        }
        #expect(!invites[1].isEmpty && invites[0] == invites[1])
        #expect(Simulator(callsOnly: true).run(seed: seed).pushes.isEmpty)
    }

    @Test func theTraceIsWhatTheFingerprintIsMadeOf() {
        let lines = Simulator(isLite: true).trace(seed: 3)
        #expect(lines.count > 100)
        #expect(lines == Simulator(isLite: true).trace(seed: 3))
    }
}
