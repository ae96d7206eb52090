import BellwireClientCore
import SignalingProtocol
import Testing
import ZegoCallProtocol

@testable import ZegoCallCompat

/// The notifications of a call, each told once.
struct CallLedgerTests {
    private static let (alice, bob, carol) = (UserID("alice")!, UserID("bob")!, UserID("carol")!)
    private static let phone = DeviceID("phone")!
    private static let callID = CallID("c1")!
    private static let call = ZegoCall(
        id: "c1", caller: .init(id: "alice", name: "Alice"),
        callees: [.init(id: "bob", name: "Bob"), .init(id: "carol", name: "Carol")], kind: .voice)

    private typealias States = (alice: MemberState, bob: MemberState, carol: MemberState)

    /// `reason` is the reason of bob's state.
    private static func snapshot(
        _ revision: Int, _ states: States, reason: String? = nil, device: String = "phone", ended: EndReason? = nil,
        by user: UserID? = nil, invitation: Int64 = 60_000
    ) -> CallSnapshot {
        func member(_ user: UserID, _ state: MemberState) -> MemberSnapshot {
            MemberSnapshot(
                userID: user, state: state, device: state.isPending ? nil : DeviceID(device)!,
                invitedBy: user == alice ? nil : alice, expiresAt: user == alice ? nil : invitation, updatedAt: 0,
                reason: user == bob ? reason : nil)
        }
        return CallSnapshot(
            callID: callID, revision: revision, mode: .advanced, state: ended == nil ? .ringing : .ended,
            inviter: alice, createdAt: 0, endReason: ended, endedBy: user, timeout: 60,
            extendedData: call.extendedData,
            members: [member(alice, states.alice), member(bob, states.bob), member(carol, states.carol)])
    }

    private static func callee() -> CallLedger { CallLedger(user: bob, device: phone) }

    private static func caller() -> CallLedger {
        var ledger = CallLedger(user: alice, device: phone)
        _ = ledger.started(call, callID)
        _ = ledger.received(snapshot(1, (.accepted, .inviting, .inviting)))
        return ledger
    }

    private static func talking() -> CallLedger {
        var ledger = callee()
        _ = ledger.received(snapshot(1, (.accepted, .inviting, .inviting)))
        _ = ledger.received(snapshot(3, (.accepted, .accepted, .inviting)))
        return ledger
    }

    private static let canceled = ToldNotification.canceled(callID: "c1", caller: "alice", callee: "bob")

    // MARK: The callee

    @Test func anInvitationIsToldOnce() {
        var ledger = Self.callee()
        #expect(ledger.received(Self.snapshot(1, (.accepted, .inviting, .inviting))) == [.invited(Self.call)])
        #expect(ledger.received(Self.snapshot(1, (.accepted, .inviting, .inviting))).isEmpty)
        #expect(ledger.received(Self.snapshot(2, (.accepted, .received, .inviting))).isEmpty)
    }

    @Test func aCancelIsToldOnceAndNoEndFollows() {
        var ledger = Self.callee()
        _ = ledger.received(Self.snapshot(1, (.accepted, .inviting, .inviting)))
        let over = Self.snapshot(3, (.accepted, .cancelled, .cancelled), ended: .cancelled)
        #expect(ledger.received(over) == [Self.canceled])
        #expect(ledger.received(over).isEmpty)
        #expect(ledger.gone(Self.callID).isEmpty)
    }

    @Test func aCancelOfWhatNeverRangIsNotTold() {
        var ledger = Self.callee()
        #expect(ledger.received(Self.snapshot(2, (.accepted, .cancelled, .cancelled), ended: .cancelled)).isEmpty)
        #expect(ledger.received(Self.snapshot(1, (.accepted, .inviting, .inviting))).isEmpty)
    }

    @Test func anAnswerOnAnotherDeviceStopsTheRinging() {
        var ledger = Self.callee()
        _ = ledger.received(Self.snapshot(1, (.accepted, .inviting, .inviting)))
        let elsewhere = Self.snapshot(2, (.accepted, .accepted, .inviting), device: "tablet")
        #expect(ledger.received(elsewhere, isElsewhere: true) == [Self.canceled])
    }

    @Test func aDeclineBesideTheAppStopsTheRinging() {
        var ledger = Self.callee()
        _ = ledger.received(Self.snapshot(1, (.accepted, .inviting, .inviting)))
        let declined = Self.snapshot(2, (.accepted, .rejected, .inviting), reason: "declined")
        #expect(ledger.received(declined, isElsewhere: true) == [Self.canceled])
    }

    @Test func anOwnDeclineIsNotTold() {
        var ledger = Self.callee()
        _ = ledger.received(Self.snapshot(1, (.accepted, .inviting, .inviting)))
        #expect(ledger.received(Self.snapshot(2, (.accepted, .rejected, .inviting), reason: "declined")).isEmpty)
    }

    @Test func anInvitationThatExpiredIsToldToNobody() {
        var (callee, caller) = (Self.callee(), Self.caller())
        _ = callee.received(Self.snapshot(1, (.accepted, .inviting, .inviting)))
        let over = Self.snapshot(2, (.accepted, .timeout, .timeout), ended: .timeout)
        #expect(callee.received(over).isEmpty)
        #expect(caller.received(over).isEmpty)
    }

    @Test func anEndWhileItRingsIsAnEnd() {
        var ledger = Self.callee()
        _ = ledger.received(Self.snapshot(1, (.accepted, .inviting, .inviting)))
        let over = Self.snapshot(2, (.accepted, .inviting, .inviting), ended: .hangup, by: Self.alice)
        #expect(ledger.received(over) == [.ended(callID: "c1", by: "alice")])
    }

    @Test func anAppThatWasRestartedInACallHearsItsEnd() {
        var ledger = Self.callee()
        #expect(ledger.received(Self.snapshot(5, (.accepted, .accepted, .accepted))).isEmpty)
        let over = Self.snapshot(6, (.accepted, .accepted, .accepted), ended: .hangup, by: Self.carol)
        #expect(ledger.received(over) == [.ended(callID: "c1", by: "carol")])
    }

    // MARK: The caller

    @Test func theCallerIsToldOfAnswers() {
        var ledger = Self.caller()
        #expect(
            ledger.received(Self.snapshot(2, (.accepted, .accepted, .received)))
                == [.accepted(callID: "c1", callee: "bob")])
        #expect(
            ledger.received(Self.snapshot(3, (.accepted, .accepted, .rejected)))
                == [.declined(callID: "c1", callee: "carol", .declined)])
        #expect(ledger.received(Self.snapshot(4, (.accepted, .accepted, .rejected))).isEmpty)
    }

    @Test func theCalleeIsNotToldOfOthersAnswers() {
        var ledger = Self.talking()
        #expect(ledger.received(Self.snapshot(4, (.accepted, .accepted, .accepted))).isEmpty)
    }

    @Test func aDeclineIsNotFollowedByAnEnd() {
        var ledger = Self.caller()
        let over = Self.snapshot(2, (.accepted, .rejected, .cancelled), reason: "busy", ended: .busy)
        #expect(ledger.received(over) == [.declined(callID: "c1", callee: "bob", .busy)])
    }

    @Test func anAnswerThatComesBeforeTheResponseIsTold() {
        var ledger = CallLedger(user: Self.alice, device: Self.phone)
        _ = ledger.started(Self.call, Self.callID)
        #expect(
            ledger.received(Self.snapshot(2, (.accepted, .accepted, .inviting)))
                == [.accepted(callID: "c1", callee: "bob")])
    }

    @Test func aCallOfThisIDIsNotStartedTwice() {
        var ledger = Self.caller()
        let isNew = ledger.started(Self.call, Self.callID)
        #expect(!isNew)
    }

    @Test func theOtherDevicesOfTheCallerAreToldNothing() {
        var ledger = CallLedger(user: Self.alice, device: DeviceID("tablet")!)
        #expect(ledger.received(Self.snapshot(1, (.accepted, .inviting, .inviting))).isEmpty)
        #expect(ledger.received(Self.snapshot(2, (.accepted, .accepted, .inviting))).isEmpty)
    }

    // MARK: Another invitation

    /// Another device of the caller makes the `call.add`.
    @Test(arguments: [MemberState.rejected, .timeout, .quit, .cancelled])
    func whoIsInvitedAgainRingsAgain(_ state: MemberState) {
        var ledger = Self.callee()
        _ = ledger.received(Self.snapshot(1, (.accepted, .inviting, .inviting)))
        _ = ledger.received(Self.snapshot(2, (.accepted, state, .accepted), reason: "declined"))
        let again = Self.snapshot(3, (.accepted, .inviting, .accepted), invitation: 90_000)
        #expect(ledger.received(again) == [.invited(Self.call)])
        #expect(ledger.received(again).isEmpty)
        #expect(ledger.received(Self.snapshot(4, (.accepted, .received, .accepted), invitation: 90_000)).isEmpty)
        #expect(
            ledger.received(Self.snapshot(5, (.accepted, .cancelled, .accepted), invitation: 90_000))
                == [Self.canceled])
    }

    @Test func anInvitationThatWasAnsweredDoesNotRingAgain() {
        var declined = Self.callee()
        _ = declined.received(Self.snapshot(1, (.accepted, .inviting, .inviting)))
        _ = declined.received(Self.snapshot(2, (.accepted, .rejected, .inviting), reason: "declined"))
        #expect(declined.received(Self.snapshot(1, (.accepted, .received, .inviting))).isEmpty)
        var talking = Self.talking()
        #expect(talking.received(Self.snapshot(2, (.accepted, .received, .inviting))).isEmpty)
        #expect(talking.calls[Self.callID]?.phase == .taken)
    }

    // MARK: A store that has lost writes

    @Test func newsUnderALowerRevisionAreTold() {
        var caller = Self.caller()
        _ = caller.received(Self.snapshot(5, (.accepted, .received, .received)))
        #expect(
            caller.received(Self.snapshot(3, (.accepted, .accepted, .received)))
                == [.accepted(callID: "c1", callee: "bob")])
        #expect(
            caller.received(Self.snapshot(2, (.accepted, .accepted, .accepted), ended: .hangup, by: Self.bob))
                == [.accepted(callID: "c1", callee: "carol"), .ended(callID: "c1", by: "bob")])
    }

    @Test func whatWasStoppedRingsAgainWhenItStandsAfterAll() {
        var ledger = Self.callee()
        _ = ledger.received(Self.snapshot(2, (.accepted, .inviting, .inviting)))
        #expect(ledger.gone(Self.callID) == [Self.canceled])
        #expect(ledger.received(Self.snapshot(1, (.accepted, .inviting, .inviting))) == [.invited(Self.call)])
    }

    // MARK: The end

    @Test func anEndIsToldToTheOthersOnce() {
        var ledger = Self.talking()
        let over = Self.snapshot(4, (.accepted, .accepted, .cancelled), ended: .hangup, by: Self.alice)
        #expect(ledger.received(over) == [.ended(callID: "c1", by: "alice")])
        #expect(ledger.received(over).isEmpty)
    }

    @Test func anOwnEndIsNotToldButOneOfTheBackendIs() {
        let over = Self.snapshot(4, (.accepted, .accepted, .cancelled), ended: .hangup, by: Self.bob)
        var own = Self.talking()
        own.ending(Self.callID)
        #expect(own.received(over).isEmpty)
        var backends = Self.talking()
        #expect(backends.received(over) == [.ended(callID: "c1", by: "bob")])
    }

    @Test func theOthersEndIsToldAlsoWhileAnOwnOneIsUnderWay() {
        var ledger = Self.talking()
        ledger.ending(Self.callID)
        let over = Self.snapshot(4, (.accepted, .accepted, .cancelled), ended: .hangup, by: Self.alice)
        #expect(ledger.received(over) == [.ended(callID: "c1", by: "alice")])
    }

    @Test func aPartyThatFellSilentIsToldOnceAndNoEndFollows() {
        var ledger = Self.caller()
        _ = ledger.received(Self.snapshot(2, (.accepted, .accepted, .rejected)))
        let over = Self.snapshot(
            3, (.accepted, .quit, .rejected), reason: "heartbeatTimeout", ended: .heartbeatTimeout)
        #expect(ledger.received(over) == [.timedOut(callID: "c1", user: "bob")])
        #expect(ledger.received(over).isEmpty)
    }

    @Test func whoFellSilentIsToldNothing() {
        var ledger = Self.talking()
        let over = Self.snapshot(4, (.accepted, .quit, .rejected), reason: "heartbeatTimeout", ended: .heartbeatTimeout)
        #expect(ledger.received(over).isEmpty)
    }

    @Test func aPartyThatLeftAloneEndsTheCallOfTwo() {
        var ledger = Self.caller()
        _ = ledger.received(Self.snapshot(2, (.accepted, .accepted, .rejected)))
        #expect(
            ledger.received(Self.snapshot(3, (.accepted, .quit, .rejected), ended: .quit))
                == [.ended(callID: "c1", by: "bob")])
    }

    @Test func aCallOfWhichNothingIsKnownStopsRingingOrEnds() {
        var ringing = Self.callee()
        _ = ringing.received(Self.snapshot(1, (.accepted, .inviting, .inviting)))
        #expect(ringing.gone(Self.callID) == [Self.canceled])
        var talking = Self.talking()
        #expect(talking.gone(Self.callID) == [.ended(callID: "c1", by: "alice")])
        #expect(talking.gone(Self.callID).isEmpty)
    }

    @Test func callsThatAreOverAreForgottenBeforeThoseThatLive() {
        var ledger = Self.talking()
        for number in 1...(2 * CallLedger.most) {
            let callID = CallID("over-\(number)")!
            _ = ledger.started(Self.call, callID)
            _ = ledger.gone(callID)
        }
        #expect(ledger.calls.count <= CallLedger.most)
        #expect(ledger.calls[Self.callID]?.phase == .taken)
    }
}
