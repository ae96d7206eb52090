import BellwireClient
import Foundation
import SignalingProtocol
import Testing

@testable import ZIMCompat

/// Two devices of the same user; the narration is that of the phone.
@Suite struct OtherDeviceNarrationTests {
    @Test(arguments: [CallMode.common, .advanced])
    func anInvitationThatAnotherDeviceAcceptsIsOverHere(mode: CallMode) {
        var scene = Scene.ringing(bob, mode: mode, others: [carol])
        scene.move(bob, to: .accepted, on: tablet)
        #expect(words(scene.event(.handledElsewhere)) == ["over here"])
        scene.move(carol, to: .accepted, on: tablet)
        #expect(words(scene.event(.userStateChanged)) == [])
        scene.end(by: alice)
        #expect(words(scene.event(.ended)) == [])
    }

    @Test(arguments: [CallMode.common, .advanced])
    func anInvitationThatIsDeclinedOnAnotherDeviceIsOverHere(mode: CallMode) {
        var scene = Scene.ringing(bob, mode: mode)
        scene.move(bob, to: .rejected, on: tablet, extendedData: "busy")
        if mode == .common { scene.end(by: nil) }
        #expect(words(scene.event(.handledElsewhere)) == ["over here"])
        #expect(words(scene.snapshot()) == [])
    }

    /// The button of a notification answers for the device, and not by a request of the app.
    @Test func anInvitationThatIsDeclinedBesideTheAppIsOverHere() {
        var scene = Scene.ringing(bob)
        scene.move(bob, to: .rejected, on: phone)
        #expect(words(scene.event(.handledElsewhere)) == ["over here"])
    }

    @Test func whatWasAnsweredElsewhereWhileThisDeviceWasOutOfReachIsOverHere() {
        var welcomed = Scene.ringing(bob)
        welcomed.move(bob, to: .accepted, on: tablet)
        #expect(words(welcomed.snapshot()) == ["over here"])
        var asked = Scene.ringing(bob)
        asked.move(bob, to: .accepted, on: tablet)
        asked.move(bob, to: .quit)
        #expect(words(asked.narration.vanished(callID, asked.call)) == ["over here"])
        var ended = Scene.ringing(bob)
        ended.move(bob, to: .accepted, on: tablet)
        ended.end(by: alice)
        #expect(words(ended.narration.vanished(callID, ended.call)) == ["over here"])
    }

    @Test func aDeviceWhoseCallIsTakenOverIsToldAndHearsNoMore() {
        var scene = Scene.ringing(bob, others: [carol])
        scene.move(bob, to: .accepted, on: phone)
        _ = scene.answered()
        scene.move(bob, to: .accepted, on: tablet)
        #expect(words(scene.event(.handledElsewhere)) == ["over here"])
        scene.move(carol, to: .accepted, on: tablet)
        #expect(words(scene.event(.userStateChanged)) == [])
        scene.move(bob, to: .accepted, on: phone)
        #expect(words(scene.answered()) == ["states bob:accepted"])
    }

    @Test func aDeviceThatAnswersTooLateIsToldAfterItsCallback() {
        var scene = Scene.ringing(bob)
        scene.narration.asks(callID)
        scene.move(bob, to: .accepted, on: tablet)
        #expect(words(scene.event(.handledElsewhere)) == [])
        #expect(words(scene.narration.answered(callID, with: nil)) == ["over here"])
    }

    @Test func whoActsFromADeviceThatIsNotInTheCallIsToldOfTheOthersAndFollowsNothing() {
        var scene = Scene(alice)
        scene.call.members[0].device = tablet
        scene.move(bob, to: .cancelled)
        #expect(words(scene.answered()) == ["states bob:cancelled"])
        #expect(!scene.narration.follows(callID))
    }

    @Test(arguments: [MemberState.accepted, .rejected])
    func theDeviceThatAnswersIsToldOfItself(state: MemberState) {
        var scene = Scene.ringing(bob)
        scene.move(bob, to: state, on: phone)
        #expect(words(scene.answered()) == ["states bob:\(state)"])
    }

    @Test func aDeviceInTheCallHearsOfAllThatTheUsersOtherDeviceDoes() {
        var scene = Scene.ringing(alice, others: [carol])
        scene.move(bob, to: .cancelled)
        #expect(words(scene.event(.userStateChanged)) == ["states bob:cancelled"])
        scene.end(by: alice)
        #expect(words(scene.event(.ended)) == ["ended"])
    }

    /// Another device of the user quit, or the service heard nothing of this device.
    @Test func whoQuitWithoutAskingForItIsToldThatTheCallIsOver() {
        var scene = Scene.ringing(alice, others: [carol])
        scene.move(alice, to: .quit)
        #expect(words(scene.event(.userStateChanged)) == ["states alice:quit", "over here"])
        var ended = Scene.ringing(alice)
        ended.move(alice, to: .quit)
        ended.end(by: nil)
        #expect(words(ended.narration.vanished(callID, ended.call)) == ["states alice:quit", "ended"])
    }

    @Test func whoIsInvitedAgainAfterAnAnswerElsewhereIsToldAgain() {
        var scene = Scene.ringing(bob)
        scene.move(bob, to: .accepted, on: tablet)
        _ = scene.event(.handledElsewhere)
        scene.move(bob, to: .inviting)
        #expect(words(scene.event(.invited)) == ["received"])
    }

    @Test func aCallThatGoesOnElsewhereIsNotTold() {
        var scene = Scene(bob)
        scene.move(bob, to: .accepted, on: tablet)
        #expect(words(scene.snapshot()) == [])
        #expect(words(scene.event(.handledElsewhere)) == [])
    }

    @Test func whatEndsACallHereNamesTheUserAndWhatTheUserSaid() {
        var scene = Scene.ringing(bob)
        scene.move(bob, to: .rejected, on: tablet, extendedData: "busy")
        let own = scene.call.member(bob)!
        let ended = ZIMCallInvitationEndedInfo(scene.call, by: own)
        #expect(ended.caller == "alice" && ended.operatedUserID == "bob" && ended.extendedData == "busy")
        #expect(ended.mode == .advanced && ended.endTime == scene.time)
        let cancelled = ZIMCallInvitationCancelledInfo(scene.call, by: own)
        #expect(cancelled.inviter == "alice" && cancelled.extendedData.isEmpty)
    }
}

extension ZIMTests {
    @Test(arguments: [(ZIMCallInvitationMode.advanced, "ended by bob"), (.general, "cancelled")])
    func anAppIsToldOfAnAnswerElsewhereByWhatEndsACall(mode: ZIMCallInvitationMode, word: String) async {
        let app = App()
        var scene = Scene(bob, mode: mode == .advanced ? .advanced : .common)
        app.service.welcomes(with: [scene.call])
        _ = await app.online("bob")
        await app.log.wait(for: "received from alice")
        scene.move(bob, to: .accepted, on: tablet)
        app.service.sends(.event(.handledElsewhere, scene.call))
        await app.log.wait(for: word)
        #expect(app.log.lines.suffix(2) == ["received from alice", word])
    }
}
