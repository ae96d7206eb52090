import CallCore
import SignalingProtocol
import Testing

/// Section 3 of the protocol: the states of a call, and when a common call ends.
@Suite struct CommonCallTests {
    // "Call: `ringing` (nobody but the inviter accepted) → `active` → `ended`"

    @Test func aNewCallRingsWithItsInviterAcceptedAndItsInviteesInviting() throws {
        let scene = try Scene(.common, [bob, carol])
        #expect(scene.call.state == .ringing)
        #expect(scene.call.revision == 1)
        #expect(scene.call.members.map(\.userID) == [alice, bob, carol])
        #expect(scene.call.members.map(\.state) == [.accepted, .inviting, .inviting])
        #expect(scene.call.members.map(\.invitedBy) == [nil, alice, alice])
        #expect(scene.call.member(alice)?.device == phone)
        #expect(scene.call.acceptedAt == nil)
    }

    @Test func aCallRingsOnAfterAReject() throws {
        let scene = try Scene(.common, [bob, carol])
        try scene.reject(bob)
        #expect(scene.call.state == .ringing)
    }

    @Test func theFirstAcceptWithOthersPendingMakesTheCallActive() throws {
        let scene = try Scene(.common, [bob, carol])
        scene.pass(3 * seconds)
        try scene.accept(bob)
        #expect(scene.call.state == .active)
        #expect(scene.call.acceptedAt == scene.now)
    }

    @Test func laterAcceptsDoNotMoveAcceptedAt() throws {
        let scene = try Scene(.common, [bob, carol, dave])
        try scene.accept(bob)
        let first = scene.call.acceptedAt
        scene.pass(1 * seconds)
        try scene.accept(carol)
        #expect(scene.call.acceptedAt == first)
    }

    @Test func theAcceptOfAOneToOneCallEndsItAsAnswered() throws {
        let scene = try Scene()
        scene.pass(4 * seconds)
        try scene.accept(bob)
        #expect(scene.call.state == .ended)
        #expect(scene.call.endReason == .answered)
        #expect(scene.call.endedAt == scene.now)
        #expect(scene.call.acceptedAt == scene.now)
        #expect(scene.call.endedBy == nil)
        #expect(scene.call.revision == 2)
    }

    // "**common**: ends when no member is pending: `answered` if any invitee accepted, else the last cause."

    @Test func aCommonCallLivesWhileSomebodyIsPending() throws {
        let scene = try Scene(.common, [bob, carol, dave])
        try scene.accept(bob)
        try scene.reject(carol)
        #expect(scene.call.isLive)
        try scene.reject(dave)
        #expect(!scene.call.isLive)
    }

    @Test func aCommonCallIsAnsweredWhenAnyInviteeAccepted() throws {
        let scene = try Scene(.common, [bob, carol])
        try scene.accept(bob)
        try scene.reject(carol, WellKnownReason.busy)
        #expect(scene.call.endReason == .answered)
    }

    @Test func aCommonCallThatAllRejectedEndsAsRejected() throws {
        let scene = try Scene(.common, [bob, carol])
        try scene.reject(bob, WellKnownReason.busy)
        try scene.reject(carol, "driving")
        #expect(scene.call.endReason == .rejected)
    }

    @Test func aRejectAsBusyEndsTheCallAsBusy() throws {
        let scene = try Scene()
        try scene.reject(bob, WellKnownReason.busy)
        #expect(scene.call.endReason == .busy)
    }

    @Test func aCommonCallThatTheInviterCancelledEndsAsCancelled() throws {
        let scene = try Scene(.common, [bob, carol])
        try scene.reject(bob)
        try scene.cancel()
        #expect(scene.call.endReason == .cancelled)
        #expect(scene.state(bob) == .rejected)
        #expect(scene.state(carol) == .cancelled)
        #expect(scene.reason(carol) == "cancelled")
    }

    @Test func aCommonCallThatNobodyAnsweredEndsAsTimeout() throws {
        let scene = try Scene(.common, [bob, carol])
        try scene.reject(bob)
        scene.pass(60 * seconds)
        #expect(scene.call.endReason == .timeout)
        #expect(scene.elapsed == 60 * seconds)
    }

    @Test func aGroupCallThatExpiresAfterAnAcceptIsAnswered() throws {
        let scene = try Scene(.common, [bob, carol])
        try scene.accept(bob)
        scene.pass(60 * seconds)
        #expect(scene.state(carol) == .timeout)
        #expect(scene.call.endReason == .answered)
    }

    // "`call.cancel` … those become `cancelled`; not-pending ones are listed in `errors`"

    @Test func aPartialCancelLeavesTheOthersRinging() throws {
        let scene = try Scene(.common, [bob, carol])
        #expect(try scene.cancel([bob]) == [])
        #expect(scene.state(bob) == .cancelled)
        #expect(scene.state(carol) == .inviting)
        #expect(scene.call.isLive)
    }

    @Test func aCancelListsThoseWhomItCouldNotCancelAndWhy() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        try scene.add([dave], by: bob)
        let errors = try scene.cancel([bob, carol, dave, eve])
        #expect(
            errors == [
                UserError(userID: bob, code: .invalidState), UserError(userID: dave, code: .notInviter),
                UserError(userID: eve, code: .callNotFound),
            ])
        #expect(scene.state(carol) == .cancelled)
        #expect(scene.state(dave) == .inviting)
    }

    @Test func aCancelOfNobodyInParticularCancelsOnlyOnesOwnInvitees() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        try scene.add([dave], by: bob)
        #expect(try scene.cancel() == [])
        #expect(scene.state(carol) == .cancelled)
        #expect(scene.state(dave) == .inviting)
        try scene.cancel(by: bob)
        #expect(scene.state(dave) == .cancelled)
    }

    @Test func aCancelOfOthersInviteesAloneIsNotInviter() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        try scene.add([dave], by: bob)
        #expect(scene.refusal(.cancel([carol]), by: bob)?.code == .notInviter)
        #expect(scene.refusal(.cancel([alice]), by: alice)?.code == .notInviter)
    }

    @Test(arguments: [[eve], [eve, dave]])
    func aCancelThatNamesNobodyOfOnesOwnInviteesIsNotInviter(named: [UserID]) throws {
        let scene = try Scene(.advanced, [bob])
        try scene.accept(bob)
        try scene.add([dave], by: bob)
        #expect(scene.refusal(.cancel(named), by: alice)?.code == .notInviter)
    }

    @Test func anInviterWhoseInviteesWereAllInvitedAnewByAnotherIsNotInviter() throws {
        let scene = try Scene(.advanced, [bob]) {
            $0.autoEnd = false
            $0.joinPolicy = .anyone
        }
        try scene.join(eve)
        try scene.reject(bob)
        try scene.add([bob], by: eve)
        #expect(scene.refusal(.cancel, by: alice)?.code == .notInviter)
        #expect(scene.state(bob) == .inviting)
    }

    @Test func aCancelThatNamesNobodyPendingTellsTheState() throws {
        let scene = try Scene(.common, [bob, carol])
        try scene.accept(bob)
        let error = scene.refusal(.cancel([bob]), by: alice)
        #expect(error?.code == .invalidState)
        #expect(error?.state == "accepted")
    }

    @Test func aCancelCarriesItsExtendedData() throws {
        let scene = try Scene()
        try scene.ask(.cancel(.init(callID: scene.call.callID, extendedData: "sorry")), by: alice)
        #expect(scene.call.member(bob)?.extendedData == "sorry")
    }

    @Test func theInviteesOwnAnswersToACancelledCallAreRefusedWithItsState() throws {
        let scene = try Scene()
        try scene.cancel()
        let error = scene.refusal(.accept, by: bob)
        #expect(error?.code == .callEnded)
        #expect(error?.state == "cancelled")
    }
}
