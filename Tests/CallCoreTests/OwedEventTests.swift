import CallCore
import SignalingProtocol
import Testing

/// Section 5 of the protocol: which event a device is owed.
@Suite struct OwedEventTests {
    // "1. its user is pending, and this device has not acked the invitation's revision or a later one → `call.invited`"

    @Test(arguments: ["inviting", "notYetReceived", "received"])
    func aPendingUsersDeviceIsOwedTheInvitationUntilItAcksIt(state: String) throws {
        let scene = try Situation.invitee(mode: "common", call: "live", state: state)
        #expect(scene.delivery(bob, on: phone) == .invited)
        #expect(scene.delivery(bob, on: web) == .invited)
        #expect(scene.delivery(bob, on: phone, acked: 1) != .invited)
        #expect(scene.delivery(bob, on: phone, acked: scene.call.revision) == nil)
    }

    @Test func anAckFromBeforeTheInvitationDoesNotCountForIt() throws {
        let scene = try Scene(.advanced)
        try scene.add([carol])
        #expect(scene.delivery(carol, acked: 1) == .invited)
        #expect(scene.delivery(carol, acked: 2) == nil)
    }

    @Test func aReinvitationIsOwedAgain() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.reject(bob, on: phone)
        let known = scene.call.revision
        #expect(scene.delivery(bob, on: phone, acked: known) == nil)
        try scene.add([bob])
        #expect(scene.delivery(bob, on: phone, acked: known) == .invited)
        #expect(scene.delivery(bob, on: web, acked: known) == .invited)
    }

    // "so that a broker never delivers an invitation that is over": the service does not either.

    @Test func anInvitationThatExpiredIsNotOwedWhileNobodyServedItsExpiry() throws {
        let scene = try Scene { $0.timeout = 10 }
        scene.passUnserved(10 * seconds - 1)
        #expect(scene.delivery(bob) == .invited)
        scene.passUnserved(1)
        #expect(scene.delivery(bob) != .invited)
    }

    // "2. its user accepted, rejected or joined on another device → `call.handledElsewhere`, once acked nothing more"

    @Test(arguments: ["accept", "reject", "join"])
    func theUsersOtherDevicesAreOwedHandledElsewhereOnce(act: String) throws {
        let scene = try Scene(.advanced, [bob, carol])
        switch act {
        case "accept": try scene.accept(bob, on: phone)
        case "reject": try scene.reject(bob, on: phone)
        default: try scene.join(bob, on: phone)
        }
        let handled = scene.call.revision
        #expect(scene.delivery(bob, on: phone, acked: handled) == nil)
        #expect(scene.delivery(bob, on: web) == .handledElsewhere)
        #expect(scene.delivery(bob, on: web, acked: 1) == .handledElsewhere)
        #expect(scene.delivery(bob, on: web, acked: handled) == nil)
        try scene.accept(carol)
        #expect(scene.delivery(bob, on: web, acked: handled) == nil, "nothing more, whatever others do")
        try scene.end(by: alice)
        #expect(scene.delivery(bob, on: web, acked: handled) == nil, "not even the end")
        #expect(scene.delivery(bob, on: web) == .handledElsewhere, "and never the invitation")
    }

    @Test func theOtherDevicesOfAUserWhoAnsweredACommonCallAreOwedHandledElsewhere() throws {
        let scene = try Scene()
        try scene.accept(bob, on: phone)
        #expect(!scene.call.isLive)
        #expect(scene.delivery(bob, on: web) == .handledElsewhere)
    }

    @Test func aMoveToAnotherDeviceIsOwedToTheDeviceThatHadTheCall() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob, on: phone)
        let known = scene.call.revision
        try scene.join(bob, on: web)
        #expect(scene.delivery(bob, on: phone, acked: known) == .handledElsewhere)
        #expect(scene.delivery(bob, on: web, acked: scene.call.revision) == nil)
    }

    // "the inviter's other devices get `call.created` likewise"

    @Test func theInvitersOtherDevicesAreOwedCreatedOnce() throws {
        let scene = try Scene(.common, [bob, carol])
        #expect(scene.delivery(alice, on: web) == .created)
        #expect(scene.delivery(alice, on: web, acked: 1) == nil)
        #expect(scene.delivery(alice, on: phone, acked: 1) == nil)
        try scene.accept(bob)
        #expect(scene.delivery(alice, on: web, acked: 1) == nil)
        #expect(scene.delivery(alice, on: web) == .created)
    }

    @Test func theInvitersOtherDevicesAreOwedHandledElsewhereWhenTheCallMovesToOneOfThem() throws {
        let scene = try Scene(.advanced)
        try scene.join(alice, on: web)
        #expect(scene.delivery(alice, on: phone, acked: 1) == .handledElsewhere)
        #expect(scene.delivery(alice, on: tablet, acked: 1) == .handledElsewhere)
    }

    // "3. its user became `cancelled` or `timeout` since → that"

    @Test(arguments: [(0, EventName?.some(.cancelled)), (1, .cancelled), (2, nil)])
    func aCancelledUsersDevicesAreOwedTheCancel(acked: Int, expected: EventName?) throws {
        let scene = try Scene()
        try scene.cancel()
        #expect(scene.delivery(bob, on: phone, acked: acked) == expected)
        #expect(scene.delivery(bob, on: web, acked: acked) == expected)
    }

    @Test(arguments: [(0, EventName?.some(.timeout)), (1, .timeout), (2, nil)])
    func theDevicesOfAUserWhoseInvitationExpiredAreOwedTheTimeout(acked: Int, expected: EventName?) throws {
        let scene = try Scene()
        scene.pass(60 * seconds)
        #expect(scene.delivery(bob, acked: acked) == expected)
    }

    @Test func aPendingUserWhoIsCancelledByTheEndOfTheCallIsOwedTheCancel() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.quit(alice)
        #expect(scene.delivery(bob, acked: 1) == .cancelled)
    }

    @Test func aCancelledUserIsOwedNothingOfTheCallThatGoesOn() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.cancel([bob])
        let known = scene.call.revision
        try scene.accept(carol)
        try scene.end(by: carol)
        #expect(scene.delivery(bob, acked: known) == nil)
    }

    // "4. the (advanced) call ended since → `call.ended`": to "every live member"

    @Test func everyLiveMemberIsOwedTheEndOfAnAdvancedCall() throws {
        let scene = try Scene(.advanced, [bob, carol, dave])
        try scene.accept(bob)
        try scene.reject(dave)
        let known = scene.call.revision
        try scene.end(by: bob)
        #expect(scene.delivery(alice, acked: known) == .ended)
        #expect(scene.delivery(carol, acked: known) == .ended)
        #expect(scene.delivery(carol) == .ended, "a member still pending does not ring any more")
        #expect(scene.delivery(dave, acked: known) == nil)
        #expect(scene.delivery(bob, acked: known + 1) == nil)
        #expect(scene.delivery(alice, acked: known + 1) == nil)
    }

    @Test func theLastMemberIsOwedTheEndWhenTheOtherQuit() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        let known = scene.call.revision
        try scene.quit(bob)
        #expect(scene.delivery(alice, acked: known) == .ended)
        #expect(scene.delivery(bob, acked: known) == .userStateChanged, "the one who quit is told of that")
    }

    @Test func theEndOfACommonCallIsAStateChange() throws {
        let scene = try Scene()
        try scene.accept(bob)
        let event = try #require(scene.event(alice, acked: 1))
        #expect(event.name == .userStateChanged)
        #expect(event.call.state == .ended)
        #expect(event.call.endReason == .answered)
        #expect(event.changed == [bob])
    }

    // "5. anything else changed since → `call.userStateChanged`": "every live member, when another member's state
    // changed (also `received`, `notYetReceived`, added, joined); and the member who quit"

    @Test(arguments: ["received", "notYetReceived", "accepted", "rejected", "cancelled", "timeout", "quit"])
    func everyLiveMemberIsOwedAnothersChange(state: String) throws {
        let scene = try Situation.invitee(mode: "advanced", call: "live", state: state)
        let event = try #require(scene.event(alice, acked: scene.call.member(bob)!.changedRevision - 1))
        #expect(event.name == .userStateChanged)
        #expect(event.changed.contains(bob))
        #expect(event.call.member(bob)?.state.rawValue == state)
    }

    @Test func addedAndJoinedMembersAreChangesForTheOthers() throws {
        let scene = try Scene(.advanced) { $0.joinPolicy = .anyone }
        try scene.accept(bob)
        let known = scene.call.revision
        try scene.add([carol])
        try scene.join(eve)
        #expect(scene.event(bob, acked: known)?.changed == [carol, eve])
        #expect(scene.event(alice, acked: known + 1)?.changed == [eve])
    }

    @Test func aPendingMemberWhoAckedIsOwedOthersChanges() throws {
        let scene = try Scene(.common, [bob, carol])
        scene.ack(bob)
        let known = scene.call.revision
        try scene.reject(carol)
        #expect(scene.event(bob, acked: known)?.name == .userStateChanged)
        #expect(scene.event(bob, acked: known)?.changed == [carol])
    }

    @Test func onesOwnReceivedIsNothingThatOneIsOwed() throws {
        let scene = try Scene()
        scene.ack(bob)
        #expect(scene.delivery(bob, on: phone, acked: 1) == nil)
        #expect(scene.delivery(bob, on: web) == .invited, "another device has yet to ring")
    }

    @Test func theOneWhoQuitIsToldAndThenNothingMore() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        let known = scene.call.revision
        try scene.ask(.quit, by: bob, on: web)
        #expect(scene.event(bob, on: phone, acked: known)?.changed == [bob])
        try scene.accept(carol)
        #expect(scene.delivery(bob, on: phone, acked: known + 1) == nil)
    }

    @Test func aStrangerIsOwedNothing() throws {
        let scene = try Scene(.advanced) { $0.joinPolicy = .anyone }
        #expect(scene.delivery(eve) == nil)
        try scene.end(by: alice)
        #expect(scene.delivery(eve) == nil)
    }
}
