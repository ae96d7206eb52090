import BellwireClient
import SignalingProtocol
import Testing

@testable import ZIMCompat

/// The notices after a callback: the results of the request, and the news that came meanwhile.
@Suite struct AnswerNarrationTests {
    @Test func whatIsHeardOfACallWhileARequestIsOpenComesAfterItsCallback() {
        var scene = Scene.ringing(bob, others: [carol])
        scene.narration.asks(callID)
        scene.move(bob, to: .accepted, on: phone)
        let mine = scene.answer
        scene.move(carol, to: .accepted, on: phone)
        #expect(words(scene.event(.userStateChanged)) == [])
        #expect(
            words(scene.narration.answered(callID, with: mine)) == ["states bob:accepted", "states carol:accepted"])
    }

    @Test func whatIsHeardOfACallWhileARequestIsOpenIsToldWhenItIsRefused() {
        var scene = Scene.ringing(bob)
        scene.narration.asks(callID)
        scene.move(bob, to: .cancelled)
        #expect(words(scene.event(.cancelled)) == [])
        #expect(words(scene.narration.answered(callID, with: nil)) == ["cancelled"])
    }

    @Test func newsThatCameBeforeTheAnswerToAnInviteFollowIt() {
        var scene = Scene(alice)
        scene.narration.asks(callID)
        let created = scene.answer
        scene.move(bob, to: .received)
        #expect(words(scene.event(.userStateChanged)) == [])
        #expect(
            words(scene.narration.answered(callID, with: created, isInvite: true))
                == ["created", "states alice:accepted bob:inviting", "states bob:received"])
    }

    @Test func whatTheAnswersToTwoRequestsSayIsNotOverturnedByWhatCameBefore() {
        var scene = Scene.ringing(alice, others: [carol])
        scene.narration.asks(callID)
        scene.narration.asks(callID)
        scene.move(bob, to: .received)
        #expect(words(scene.event(.userStateChanged)) == [])
        scene.move(bob, to: .cancelled)
        #expect(words(scene.narration.answered(callID, with: scene.answer)) == ["states bob:cancelled"])
        #expect(words(scene.narration.answered(callID, with: nil)) == [])
    }

    // MARK: The end

    /// The response to the device's accept was lost, and another request of the device has the call as it is now.
    @Test func theEndThatAnotherMadeIsToldAfterALateAcceptance() {
        var scene = Scene.ringing(bob)
        scene.move(bob, to: .accepted, on: phone)
        scene.end(by: alice)
        #expect(words(scene.answered()) == ["states bob:accepted", "ended"])
    }

    @Test func theEndThatAnotherMadeIsToldOnceAlsoWhenItsEventCameBeforeTheAnswer() {
        var scene = Scene.ringing(bob)
        scene.narration.asks(callID)
        scene.move(bob, to: .accepted, on: phone)
        scene.end(by: alice)
        #expect(words(scene.event(.ended)) == [])
        #expect(words(scene.narration.answered(callID, with: scene.answer)) == ["states bob:accepted", "ended"])
    }

    @Test func theEndThatAnotherMadeIsToldAfterALateInvitationOfMore() {
        var scene = Scene.ringing(alice)
        scene.move(bob, to: .accepted, on: phone)
        _ = scene.event(.userStateChanged)
        scene.call.members.append(MemberSnapshot(userID: carol, state: .inviting, invitedBy: alice, updatedAt: 3))
        scene.end(by: bob)
        #expect(words(scene.answered()) == ["states carol:inviting", "ended"])
    }

    @Test func theEndThatAnotherMadeIsToldAfterALateJoin() {
        var scene = Scene.left(bob)
        scene.move(bob, to: .accepted, on: phone)
        scene.end(by: alice)
        #expect(words(scene.answered()) == ["states bob:accepted", "ended"])
    }

    @Test func whoEndsACallKnowsItFromTheCallback() {
        var scene = Scene.ringing(alice)
        scene.end(by: alice)
        #expect(words(scene.answered()) == [])
    }

    /// The call, which another client made, ends by its rule `autoEnd`.
    @Test func whoseQuittingEndsTheCallIsToldOfNothingButThat() {
        var scene = Scene.ringing(alice)
        scene.move(bob, to: .accepted, on: phone)
        _ = scene.event(.userStateChanged)
        scene.move(alice, to: .quit)
        (scene.call.state, scene.call.endedAt) = (.ended, scene.time)
        #expect(words(scene.answered()) == ["states alice:quit"])
    }

    // MARK: A call that is not followed

    @Test func whoJoinsAgainIsToldOfItselfAlone() {
        var scene = Scene.left(bob)
        scene.move(bob, to: .accepted, on: phone, extendedData: "again")
        #expect(words(scene.answered()) == ["states bob:accepted"])
    }

    @Test func whoTakesACallOverIsToldOfItselfAlone() {
        var scene = Scene.ringing(bob, others: [carol])
        scene.move(bob, to: .accepted, on: tablet)
        _ = scene.event(.handledElsewhere)
        scene.move(bob, to: .accepted, on: phone)
        #expect(words(scene.answered()) == ["states bob:accepted"])
        scene.move(carol, to: .accepted, on: tablet)
        #expect(words(scene.event(.userStateChanged)) == ["states carol:accepted"])
    }

    // MARK: A store that has lost writes

    @Test func newsOfAStoreThatHasLostWritesAreToldThoughTheirRevisionIsLower() {
        var scene = Scene.ringing(bob, others: [carol])
        scene.narration.asks(callID)
        scene.move(carol, to: .received)
        scene.move(bob, to: .accepted, on: phone)
        let mine = scene.answer
        scene.move(carol, to: .accepted, on: phone)
        scene.call.revision = mine.call.revision - 1
        #expect(words(scene.event(.userStateChanged)) == [])
        let told = scene.narration.answered(callID, with: mine)
        #expect(words(told) == ["states bob:accepted carol:received", "states carol:accepted"])
    }

    @Test func whatAStoreHasLostIsNotToldAfterItsAnswer() {
        var scene = Scene.ringing(bob, others: [carol])
        scene.narration.asks(callID)
        let before = scene.call
        scene.move(carol, to: .received)
        scene.move(carol, to: .accepted, on: phone)
        #expect(words(scene.event(.userStateChanged)) == [])
        scene.call = before
        scene.move(bob, to: .accepted, on: phone)
        #expect(words(scene.narration.answered(callID, with: scene.answer)) == ["states bob:accepted"])
    }

    @Test func aListOfCallsThatCameBeforeTheAnswerIsToldWhenItIsNewer() {
        var scene = Scene.ringing(alice, others: [carol])
        scene.narration.asks(callID)
        let mine = scene.answer
        scene.move(bob, to: .received)
        #expect(words(scene.snapshot()) == [])
        #expect(words(scene.narration.answered(callID, with: mine)) == ["states bob:received"])
    }
}
