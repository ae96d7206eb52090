import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// A coordinator gathers foreseeable facts before it decides. Decisions ask for other facts, and these queries are
/// counted (docs/decisions/0016).
@Suite struct QueryTests {
    private let world = World()
    private var queries: Int { world.service.counters[.lookups] }

    @Test(arguments: [CallMode.common, .advanced])
    func aPlainCallAsksForNothing(mode: CallMode) {
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        #expect(alice.invite("bob", mode: mode)?.call != nil)
        #expect(bob.accept()?.call != nil)
        if mode == .advanced { #expect(alice.request(.end(.init(callID: callID)))?.call != nil) }
        world.pass(seconds: 30)
        #expect(queries == 0)
    }

    @Test func aCallThatIsTakenBackAsksForNothing() {
        let alice = world.phone("alice/phone")
        _ = world.phone("bob/phone")
        alice.invite("bob") { $0.timeout = 5 }
        #expect(alice.cancel()?.call != nil)
        #expect(queries == 0)
    }

    @Test func aMergeAsksForTheOtherCall() {
        let (alice, bob) = (world.phone("alice/phone"), world.phone("bob/phone"))
        alice.invite("bob")
        #expect(bob.invite("alice", callID: "b") { $0.glare = .merge }?.success?.merged == true)
        #expect((1...2).contains(queries))
    }

    @Test func whoIsBusyIsAskedFor() {
        let (alice, carol) = (world.phone("alice/phone"), world.phone("carol/phone"))
        _ = world.phone("bob/phone")
        alice.invite("bob")
        #expect(carol.invite("bob", callID: "b") { $0.ifBusy = .reject }?.call?.endReason == .busy)
        #expect((1...2).contains(queries), "bob's calls, and their records")
    }
}
