import CallCore
import SignalingProtocol
import Testing

/// Section 3 of the protocol: when an advanced call ends.
@Suite struct AdvancedCallTests {
    // "ends on `call.end` (`hangup`, `endedBy`)"; "the call ends for all; user states stay"

    @Test func theEndOfOneEndsTheCallForAllAndLeavesTheirStates() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        scene.pass(2 * seconds)
        try scene.end(by: bob)
        #expect(scene.call.state == .ended)
        #expect(scene.call.endReason == .hangup)
        #expect(scene.call.endedBy == bob)
        #expect(scene.call.endedAt == scene.now)
        #expect(scene.call.members.map(\.state) == [.accepted, .accepted, .inviting])
    }

    @Test func theReasonOfAnEndStandsWithTheMemberWhoEnded() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        try scene.ask(.end(.init(callID: scene.call.callID, reason: "done", extendedData: "x")), by: bob)
        #expect(scene.reason(bob) == "done")
        #expect(scene.call.member(bob)?.extendedData == "x")
        #expect(scene.state(bob) == .accepted)
    }

    @Test func theInviterMayEndAnAdvancedCallThatStillRings() throws {
        let scene = try Scene(.advanced)
        try scene.end(by: alice)
        #expect(scene.call.endReason == .hangup)
        #expect(scene.state(bob) == .inviting)
    }

    @Test func nothingComesDueInACallThatWasEnded() throws {
        let scene = try Scene(.advanced) { $0.notReceivedCheck = true }
        try scene.end(by: alice)
        let before = scene.call.snapshot
        scene.pass(3600 * seconds)
        #expect(scene.call.snapshot == before)
    }

    // "and, with `autoEnd`, as soon as nobody is accepted or accepted + pending < 2 (the last cause is the reason;
    // pending members become `cancelled`)."

    @Test func anAdvancedCallGoesOnAfterTheAnswer() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        #expect(scene.call.state == .active)
        #expect(scene.call.acceptedAt == scene.now)
    }

    @Test func theLastInviteesRejectEndsTheCall() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.reject(bob)
        #expect(scene.call.isLive)
        try scene.reject(carol, WellKnownReason.busy)
        #expect(scene.call.endReason == .busy)
        #expect(scene.state(alice) == .accepted)
    }

    @Test func theLastInvitationsExpiryEndsTheCall() throws {
        let scene = try Scene(.advanced) { $0.timeout = 20 }
        scene.pass(20 * seconds)
        #expect(scene.call.endReason == .timeout)
    }

    @Test func theCancelOfAllInviteesEndsTheCall() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.cancel()
        #expect(scene.call.endReason == .cancelled)
    }

    @Test func theLastButOneToQuitEndsTheCallForTheLast() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        try scene.quit(alice)
        #expect(scene.call.endReason == .quit)
        #expect(scene.state(bob) == .accepted)
        #expect(scene.state(alice) == .quit)
    }

    @Test func aQuitWithSomebodyPendingLeavesTheCallLive() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        try scene.quit(alice)
        #expect(scene.call.isLive)
        #expect(scene.state(carol) == .inviting)
    }

    @Test func whenNobodyIsAcceptedAnyMoreThePendingAreCancelled() throws {
        let scene = try Scene(.advanced, [bob, carol])
        scene.ack(bob)
        try scene.quit(alice)
        #expect(scene.call.endReason == .quit)
        #expect(scene.call.members.map(\.state) == [.quit, .cancelled, .cancelled])
        #expect(scene.reason(bob) == "quit")
        #expect(scene.call.revision == 3, "one change for all of it")
    }

    @Test func aQuitCarriesItsExtendedData() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        try scene.ask(.quit(.init(callID: scene.call.callID, extendedData: "bye")), by: bob)
        #expect(scene.call.member(bob)?.extendedData == "bye")
    }

    // "With `autoEnd: false` it stays until `call.end`, or until nobody is live for 60 s."

    @Test func withoutAutoEndTheCallStaysForOneAlone() throws {
        let scene = try Scene(.advanced) { $0.autoEnd = false }
        try scene.reject(bob)
        #expect(scene.call.isLive)
        for _ in 0..<60 {
            scene.pass(20 * seconds)
            scene.beat(alice)
        }
        #expect(scene.call.isLive)
        try scene.end(by: alice)
        #expect(scene.call.endReason == .hangup)
    }

    @Test func withoutAutoEndTheCallEndsAfterAMinuteWithNobodyLive() throws {
        let scene = try Scene(.advanced) { $0.autoEnd = false }
        try scene.accept(bob)
        try scene.quit(alice)
        try scene.quit(bob)
        scene.pass(60 * seconds - 1)
        #expect(scene.call.isLive)
        scene.pass(1)
        #expect(scene.call.state == .ended)
        #expect(scene.call.endReason == .quit)
        #expect(scene.call.endedBy == nil)
        #expect(scene.call.actor == nil)
    }

    @Test func somebodyWhoJoinsInTimeKeepsTheEmptyCall() throws {
        let scene = try Scene(.advanced) { $0.autoEnd = false }
        try scene.quit(alice)
        try scene.reject(bob)
        scene.pass(59 * seconds)
        try scene.join(bob)
        scene.pass(30 * seconds)
        #expect(scene.call.isLive)
        try scene.quit(bob)
        scene.pass(59 * seconds)
        #expect(scene.call.isLive, "the minute begins anew")
        scene.pass(1 * seconds)
        #expect(!scene.call.isLive)
    }

    @Test func aPendingInviteeKeepsTheCallWithoutAutoEnd() throws {
        let scene = try Scene(.advanced) {
            $0.autoEnd = false
            $0.timeout = 600
        }
        try scene.quit(alice)
        scene.pass(600 * seconds - 1)
        #expect(scene.call.isLive)
        scene.pass(1)
        #expect(scene.state(bob) == .timeout)
        scene.pass(60 * seconds)
        #expect(scene.call.endReason == .timeout)
    }

    @Test(arguments: [("declined", EndReason.rejected), ("busy", .busy)])
    func theEmptyCallEndsWithTheLastCause(reason: String, expected: EndReason) throws {
        let scene = try Scene(.advanced) { $0.autoEnd = false }
        try scene.quit(alice)
        try scene.reject(bob, reason)
        scene.pass(60 * seconds)
        #expect(scene.call.endReason == expected)
    }
}
