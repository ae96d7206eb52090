import BellwireClient
import SignalingProtocol
import Testing

@testable import ZIMCompat

@Suite struct NarrationTests {
    @Test func anInviterIsToldOfItsCallAndOfAllMembers() {
        var scene = Scene(alice)
        #expect(words(scene.answered(isInvite: true)) == ["created", "states alice:accepted bob:inviting"])
    }

    @Test func anInviteeIsToldOnceThoughWelcomeAndEventBothSaySo() {
        var scene = Scene(bob)
        #expect(words(scene.snapshot()) == ["received"])
        #expect(words(scene.event(.invited)) == [])
    }

    @Test func thatAnInviteeReceivedItIsToldToTheOthersAndNotToItself() {
        var inviter = Scene.ringing(alice)
        inviter.move(bob, to: .received)
        #expect(words(inviter.event(.userStateChanged)) == ["states bob:received"])
        var invitee = Scene.ringing(bob)
        invitee.move(bob, to: .received)
        #expect(words(invitee.event(.userStateChanged)) == [])
    }

    @Test func aChangeThatTwoEventsNameIsToldOnce() {
        var scene = Scene.ringing(alice, others: [carol])
        scene.move(bob, to: .received)
        _ = scene.event(.userStateChanged)
        scene.move(carol, to: .received)
        #expect(words(scene.event(.userStateChanged)) == ["states carol:received"])
        #expect(words(scene.snapshot()) == [])
    }

    @Test(arguments: [MemberState.accepted, .rejected])
    func whoAnswersIsToldOfItselfAfterTheCallback(state: MemberState) {
        var scene = Scene.ringing(bob)
        scene.move(bob, to: state, on: phone, extendedData: "mine")
        guard case .states(_, let members, _)? = scene.answered().first else {
            Issue.record("nothing was told")
            return
        }
        #expect(members.map(\.userID) == [bob])
        #expect(members.first?.extendedData == "mine")
    }

    @Test(arguments: [CallMode.common, .advanced])
    func aCancelledInviteeIsToldOfThatAlone(mode: CallMode) {
        var scene = Scene.ringing(bob, mode: mode, others: [carol])
        scene.move(bob, to: .cancelled, extendedData: "why")
        scene.move(carol, to: .cancelled, extendedData: "why")
        if mode == .common { scene.end(by: nil) }
        let notices = scene.event(.cancelled)
        #expect(words(notices) == ["cancelled"])
        #expect(words(scene.event(.userStateChanged)) == [])
        guard case .cancelled(let call, let own)? = notices.first else { return }
        let info = ZIMCallInvitationCancelledInfo(call, own: own)
        #expect(info.inviter == "alice" && info.extendedData == "why")
    }

    @Test func whoCancelsIsToldOfTheStates() {
        var scene = Scene.ringing(alice, mode: .common)
        scene.move(bob, to: .cancelled)
        scene.end(by: nil)
        #expect(words(scene.answered()) == ["states bob:cancelled"])
    }

    @Test func anInvitationThatTimesOutIsToldToTheInviteeAndTheOthers() {
        var invitee = Scene.ringing(bob)
        invitee.move(bob, to: .timeout)
        #expect(words(invitee.event(.timeout)) == ["timeout"])
        var inviter = Scene.ringing(alice)
        inviter.move(bob, to: .timeout)
        #expect(words(inviter.event(.userStateChanged)) == ["states bob:timeout"])
    }

    @Test func aTimeoutThatTheDeviceSawItselfIsToldOnce() {
        var invitee = Scene.ringing(bob)
        #expect(words(invitee.narration.received(.invitationExpired(invitee.call))) == ["timeout"])
        invitee.move(bob, to: .timeout)
        #expect(words(invitee.event(.timeout)) == [])
        var inviter = Scene.ringing(alice)
        #expect(words(inviter.narration.received(.invitationExpired(inviter.call))) == ["states bob:timeout"])
        inviter.move(bob, to: .timeout)
        #expect(words(inviter.event(.userStateChanged)) == [])
    }

    @Test func theEndIsToldAfterWhatWasMissed() {
        var scene = Scene.ringing(bob, others: [carol])
        scene.move(bob, to: .accepted, on: phone)
        _ = scene.answered()
        scene.move(carol, to: .rejected)
        scene.end(by: alice)
        #expect(words(scene.event(.ended)) == ["states carol:rejected", "ended"])
    }

    @Test func whoIsPendingAtTheEndIsToldOfTheEnd() {
        var scene = Scene.ringing(bob)
        scene.end(by: alice)
        #expect(words(scene.event(.ended)) == ["ended"])
    }

    @Test func theEndOfACommonCallIsNotTold() {
        var scene = Scene.ringing(alice, mode: .common)
        scene.move(bob, to: .accepted, on: phone)
        scene.end(by: nil)
        #expect(words(scene.event(.userStateChanged)) == ["states bob:accepted"])
    }

    @Test func whoIsInvitedOnceMoreIsToldAgain() {
        var scene = Scene.ringing(bob)
        scene.move(bob, to: .rejected, on: phone)
        _ = scene.answered()
        scene.move(bob, to: .inviting)
        scene.call.members[1].expiresAt = 180_001
        #expect(words(scene.event(.invited)) == ["received"])
    }

    @Test func aCallThatIsOverBeforeItRangIsNotTold() {
        var scene = Scene(bob)
        scene.move(bob, to: .cancelled)
        #expect(words(scene.event(.cancelled)) == [])
    }

    @Test func aCallOfWhichTheServiceKnowsHowItEndedIsToldSo() {
        var scene = Scene.ringing(bob, others: [carol])
        scene.move(bob, to: .accepted, on: phone)
        _ = scene.answered()
        scene.move(carol, to: .timeout)
        scene.end(by: alice)
        #expect(words(scene.narration.vanished(callID, scene.call)) == ["states carol:timeout", "ended"])
    }

    @Test func aCallThatIsGoneStopsRingingAlsoWhenNobodyKnowsWhy() {
        var invitee = Scene.ringing(bob)
        #expect(words(invitee.narration.vanished(callID, nil)) == ["cancelled"])
        #expect(words(invitee.narration.vanished(callID, nil)) == [])
        var inviter = Scene.ringing(alice, mode: .common)
        #expect(words(inviter.narration.vanished(callID, nil)) == ["states bob:cancelled"])
        var member = Scene.ringing(alice)
        #expect(words(member.narration.vanished(callID, nil)) == ["ended"])
    }

    @Test func aCallThatWasGivenUpIsNotTold() {
        var scene = Scene(alice)
        scene.narration.asks(callID)
        scene.narration.abandon(callID)
        #expect(words(scene.snapshot()) == [])
        #expect(words(scene.narration.answered(callID, with: nil)) == [])
        scene.move(bob, to: .received)
        #expect(words(scene.event(.userStateChanged)) == [])
    }

    @Test func theInvitersOtherDeviceIsToldOfTheCall() {
        var scene = Scene(alice)
        scene.call.members[0].device = tablet
        #expect(words(scene.event(.created)) == ["created"])
    }
}
