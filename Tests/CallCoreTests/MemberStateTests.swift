import CallCore
import SignalingProtocol
import Testing

/// Section 3 of the protocol, the states of a member.
@Suite struct MemberStateTests {
    // "`received`: some device of the invitee acked the invitation."

    @Test func anAckOfTheInvitationMakesTheInviteeReceived() throws {
        let scene = try Scene()
        scene.passUnserved(40)
        #expect(scene.ack(bob))
        #expect(scene.state(bob) == .received)
        #expect(scene.call.revision == 2)
        #expect(scene.call.actor == bob)
        #expect(scene.call.updatedAt == scene.now)
    }

    @Test func aSecondAckChangesNothing() throws {
        let scene = try Scene()
        scene.ack(bob)
        let before = scene.call
        #expect(!scene.ack(bob))
        #expect(!scene.ack(bob, 1))
        #expect(scene.call == before)
    }

    @Test func anAckFromBeforeTheInvitationMakesNobodyReceived() throws {
        let scene = try Scene(.advanced, [carol])
        try scene.add([bob])
        #expect(!scene.ack(bob, 1))
        #expect(scene.state(bob) == .inviting)
        #expect(scene.ack(bob, 2))
    }

    @Test func anAckFromBeforeAReinvitationDoesNotMakeItReceived() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.reject(bob)
        let old = scene.call.revision
        try scene.add([bob])
        #expect(!scene.ack(bob, old))
        #expect(scene.state(bob) == .inviting)
        #expect(scene.ack(bob, scene.call.revision))
        #expect(scene.state(bob) == .received)
    }

    @Test func anAckAboveThePresentRevisionCountsAsThePresentOne() throws {
        let scene = try Scene()
        #expect(scene.ack(bob, 1_000_000))
        #expect(scene.state(bob) == .received)
    }

    @Test func anAckOfTheInviterOrOfAStrangerMovesNobody() throws {
        let scene = try Scene()
        #expect(!scene.ack(alice))
        #expect(!scene.ack(eve))
        #expect(scene.call.revision == 1)
    }

    @Test(arguments: ["accepted", "rejected", "cancelled", "timeout", "quit"])
    func anAckMovesNobodyWhoIsNotPendingAnyMore(state: String) throws {
        let scene = try Situation.invitee(mode: "advanced", call: "live", state: state)
        let before = scene.call
        #expect(!scene.ack(bob))
        #expect(scene.call == before)
    }

    @Test func anAckAfterTheCallWasEndedMovesNobody() throws {
        let scene = try Scene(.advanced)
        try scene.end(by: alice)
        #expect(!scene.ack(bob))
        #expect(scene.state(bob) == .inviting)
    }

    // "`notYetReceived`: with `notReceivedCheck`, no device acked within `notReceivedAfter` (5 s) of the invitation."

    @Test func anUnackedInvitationIsNotYetReceivedAfterFiveSeconds() throws {
        let scene = try Scene { $0.notReceivedCheck = true }
        scene.pass(5 * seconds - 1)
        #expect(scene.state(bob) == .inviting)
        scene.pass(1)
        #expect(scene.state(bob) == .notYetReceived)
        #expect(scene.call.revision == 2)
        #expect(scene.call.actor == nil)
    }

    @Test func theInviteSaysHowSoonAnInvitationIsNotYetReceived() throws {
        let scene = try Scene {
            $0.notReceivedCheck = true
            $0.notReceivedAfter = 12
        }
        scene.pass(12 * seconds - 1)
        #expect(scene.state(bob) == .inviting)
        scene.pass(1)
        #expect(scene.state(bob) == .notYetReceived)
    }

    @Test func theServicesSettingHoldsWhenTheInviteDoesNotSay() throws {
        var settings = CallSettings()
        settings.notReceivedAfter = 300
        let scene = try Scene(settings: settings) { $0.notReceivedCheck = true }
        scene.pass(300)
        #expect(scene.state(bob) == .notYetReceived)
    }

    @Test func withoutTheCheckAnInvitationStaysInviting() throws {
        let scene = try Scene { $0.notReceivedAfter = 1 }
        scene.pass(59 * seconds)
        #expect(scene.state(bob) == .inviting)
        #expect(scene.call.revision == 1)
    }

    @Test func aReceivedInvitationIsNeverNotYetReceived() throws {
        let scene = try Scene { $0.notReceivedCheck = true }
        scene.ack(bob)
        scene.pass(59 * seconds)
        #expect(scene.state(bob) == .received)
    }

    @Test func everyAddedMemberIsCheckedFromItsOwnInvitation() throws {
        let scene = try Scene(.advanced) { $0.notReceivedCheck = true }
        scene.pass(3 * seconds)
        try scene.add([carol])
        scene.pass(2 * seconds)
        #expect(scene.state(bob) == .notYetReceived)
        #expect(scene.state(carol) == .inviting)
        scene.pass(3 * seconds)
        #expect(scene.state(carol) == .notYetReceived)
    }

    @Test func twoInvitationsNotReceivedAreOneChange() throws {
        let scene = try Scene(.common, [bob, carol]) { $0.notReceivedCheck = true }
        scene.pass(5 * seconds)
        #expect(scene.call.revision == 2)
    }

    // "An ack before the invitation expires moves it on to `received`."

    @Test func lateAckOfTheInvitationMovesNotYetReceivedToReceived() throws {
        let scene = try Scene { $0.notReceivedCheck = true }
        scene.pass(59 * seconds)
        #expect(scene.state(bob) == .notYetReceived)
        #expect(scene.ack(bob))
        #expect(scene.state(bob) == .received)
    }

    // "`timeout`: still pending when the invitation expired. Expiry is fixed when the user is invited."

    @Test(arguments: ["inviting", "notYetReceived", "received"])
    func anInvitationStillPendingWhenItExpiresTimesOut(state: String) throws {
        let scene = try Scene { $0.notReceivedCheck = state == "notYetReceived" }
        if state == "received" { scene.ack(bob) }
        scene.pass(60 * seconds - 1)
        #expect(scene.state(bob)?.rawValue == state)
        scene.pass(1)
        #expect(scene.state(bob) == .timeout)
        #expect(scene.call.actor == nil)
        #expect(scene.call.endReason == .timeout)
    }

    @Test func anAckDoesNotMoveTheExpiry() throws {
        let scene = try Scene { $0.timeout = 10 }
        let expiry = scene.call.member(bob)?.expiresAt
        #expect(expiry == scene.now + 10 * seconds)
        scene.pass(9 * seconds)
        scene.ack(bob)
        #expect(scene.call.member(bob)?.expiresAt == expiry)
        scene.pass(1 * seconds)
        #expect(scene.state(bob) == .timeout)
    }

    @Test func anExpiryServedLateStillTimesOut() throws {
        let scene = try Scene { $0.notReceivedCheck = true }
        scene.passUnserved(90 * seconds)
        scene.serveDeadlines()
        #expect(scene.state(bob) == .timeout)
        #expect(scene.call.endedAt == scene.now)
    }

    @Test func anAddedMemberHasTheCallsTimeoutOrItsOwn() throws {
        let scene = try Scene(.advanced) { $0.timeout = 30 }
        scene.pass(5 * seconds)
        try scene.add([carol])
        try scene.ask(.add(.init(callID: scene.call.callID, invitees: [dave], timeout: 7)), by: alice)
        #expect(scene.call.member(carol)?.expiresAt == scene.now + 30 * seconds)
        #expect(scene.call.member(dave)?.expiresAt == scene.now + 7 * seconds)
    }

    // "A pending member may accept or reject from any pending state." The table has the rest of the sentence.

    @Test(arguments: ["inviting", "notYetReceived", "received"], [MemberState.accepted, .rejected])
    func aPendingMemberMayAnswerFromEveryPendingState(state: String, answer: MemberState) throws {
        let scene = try Situation.invitee(mode: "common", call: "live", state: state)
        if answer == .accepted { try scene.accept(bob, on: web) } else { try scene.reject(bob, on: web) }
        #expect(scene.state(bob) == answer)
        #expect(scene.call.member(bob)?.device == web)
    }

    @Test func anAnswerCarriesItsReasonAndExtendedData() throws {
        let scene = try Scene(.common, [bob, carol])
        let callID = scene.call.callID
        try scene.ask(.reject(.init(callID: callID, reason: "driving", extendedData: "{}")), by: bob)
        try scene.ask(.accept(.init(callID: callID, extendedData: "hello")), by: carol)
        #expect(scene.reason(bob) == "driving")
        #expect(scene.call.member(bob)?.extendedData == "{}")
        #expect(scene.reason(carol) == nil)
        #expect(scene.call.member(carol)?.extendedData == "hello")
    }
}
