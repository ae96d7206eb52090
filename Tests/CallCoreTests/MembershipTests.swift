import CallCore
import SignalingProtocol
import Testing

/// Section 2 of the protocol: `call.add`, `call.join` and the limits of a call.
@Suite struct MembershipTests {
    // "new pending members; a user who left before (`quit`, `rejected`, `timeout`, `cancelled`) may be invited again"

    @Test func anAddedUserIsANewPendingMemberInvitedByWhoAdded() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        scene.pass(1 * seconds)
        try scene.ask(.add(.init(callID: scene.call.callID, invitees: [carol], extendedData: "come")), by: bob)
        let added = try #require(scene.call.member(carol))
        #expect(added.state == .inviting)
        #expect(added.invitedBy == bob)
        #expect(added.expiresAt == scene.now + 60 * seconds)
        #expect(added.extendedData == "come")
        #expect(scene.call.members.map(\.userID) == [alice, bob, carol])
    }

    @Test(arguments: ["quit", "rejected", "timeout", "cancelled", "busy"])
    func aUserWhoLeftMayBeInvitedAgain(state: String) throws {
        let scene = try Situation.invitee(mode: "advanced", call: "live", state: state)
        let order = scene.call.members.map(\.userID)
        try scene.add([bob])
        let bobs = try #require(scene.call.member(bob))
        #expect(bobs.state == .inviting)
        #expect(bobs.device == nil && bobs.handledRevision == 0, "no device has taken this invitation")
        #expect(bobs.reason == nil)
        #expect(bobs.expiresAt == scene.now + Milliseconds(scene.call.timeout) * seconds)
        #expect(scene.call.members.map(\.userID) == order, "everybody keeps the place")
        #expect(scene.ack(bob))
    }

    // "an invitee who is live already, or oneself, is listed in `errors` as `invalidState`. When all invitees fail,
    // the request fails with `noInvitees`."

    @Test func addingOneselfOrALiveMemberIsAPerUserError() throws {
        let scene = try Scene(.advanced)
        let errors = try scene.add([alice, bob, carol])
        #expect(
            errors == [UserError(userID: alice, code: .invalidState), UserError(userID: bob, code: .invalidState)])
        #expect(scene.state(carol) == .inviting)
    }

    @Test func anAddOfWhichEveryInviteeFailsIsRefused() throws {
        let scene = try Scene(.advanced)
        #expect(scene.refusal(.add([alice, bob]), by: alice)?.code == .noInvitees)
    }

    // "`callFull` counts live members: an invite fails when 1 + its invitees are more than the limit."

    @Test func anInviteOfMoreUsersThanACallMayHaveIsRefused() throws {
        var settings = CallSettings()
        settings.maxMembers = 3
        _ = try Scene(.common, [bob, carol], settings: settings)
        #expect(throws: SignalingError.self) { try Scene(.common, [bob, carol, dave], settings: settings) }
        do {
            _ = try Scene(.common, [bob, carol, dave], settings: settings)
        } catch {
            #expect(error.code == .callFull)
        }
    }

    @Test func anAddBeyondTheLimitIsRefusedAndThoseWhoLeftDoNotCount() throws {
        var settings = CallSettings()
        settings.maxMembers = 3
        let scene = try Scene(.advanced, [bob, carol], settings: settings)
        #expect(scene.refusal(.add([dave]), by: alice)?.code == .callFull)
        try scene.reject(bob)
        try scene.add([dave])
        #expect(scene.refusal(.add([bob]), by: alice)?.code == .callFull)
    }

    @Test func aJoinBeyondTheLimitIsRefusedButAPendingMembersIsNot() throws {
        var settings = CallSettings()
        settings.maxMembers = 3
        let scene = try Scene(.advanced, [bob, carol], settings: settings) { $0.joinPolicy = .anyone }
        #expect(scene.refusal(.join, by: eve)?.code == .callFull)
        try scene.join(bob)
        try scene.quit(bob)
        try scene.add([dave])
        #expect(scene.refusal(.join, by: bob)?.code == .callFull)
    }

    @Test func addingAndLeavingDoesNotGrowACallWithoutEnd() throws {
        var settings = CallSettings()
        settings.maxMembers = 3
        let scene = try Scene(.advanced, [bob], settings: settings)
        try scene.accept(bob)
        var refused: SignalingError?
        for number in 0..<100 {
            let guest = UserID("guest-\(number)")!
            refused = scene.refusal(.add([guest]), by: alice)
            if refused != nil { break }
            try scene.reject(guest)
        }
        #expect(refused?.code == .callFull)
        #expect(scene.call.members.count <= settings.maxMembersEver)
        #expect(scene.refusal(.add([UserID("guest-0")!]), by: alice) == nil, "a known guest may come again")
    }

    // "a past or pending invitee, or anyone under `joinPolicy: anyone`"

    @Test func aStrangerWhoJoinsIsAMemberWhomNobodyInvited() throws {
        let scene = try Scene(.advanced) { $0.joinPolicy = .anyone }
        try scene.join(eve, on: web)
        let eves = try #require(scene.call.member(eve))
        #expect(eves.state == .accepted)
        #expect(eves.device == web)
        #expect(eves.invitedBy == nil)
        #expect(eves.expiresAt == nil)
        #expect(scene.call.state == .active)
        #expect(scene.call.acceptedAt == scene.now)
    }

    @Test func aJoinKeepsItsExtendedData() throws {
        let scene = try Scene(.advanced)
        try scene.ask(.join(.init(callID: scene.call.callID, extendedData: "late")), by: bob)
        #expect(scene.call.member(bob)?.extendedData == "late")
    }

    // "for an accepted user it moves the call to this device"

    @Test func aJoinOfAnAcceptedUserMovesTheCallToThatDevice() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        let before = try #require(scene.call.member(bob))
        scene.pass(5 * seconds)
        try scene.join(bob, on: tablet)
        let after = try #require(scene.call.member(bob))
        #expect(after.device == tablet)
        #expect(after.state == .accepted)
        #expect(after.changedRevision == before.changedRevision, "others are not told")
        #expect(scene.call.revision == 3)
        #expect(scene.refusal(.accept, by: bob, on: phone)?.code == .answeredElsewhere)
    }

    @Test func theInviterMayMoveTheCallToAnotherDeviceWhileItRings() throws {
        let scene = try Scene(.advanced)
        try scene.join(alice, on: web)
        #expect(scene.call.member(alice)?.device == web)
        #expect(scene.call.state == .ringing)
        #expect(scene.call.acceptedAt == nil)
        scene.goOffline(alice, .logout, on: phone)
        #expect(scene.call.isLive, "the first device no longer counts")
        scene.goOffline(alice, .logout, on: web)
        #expect(scene.call.endReason == .callerLost)
    }

    @Test func theInviterAmongTheInviteesIsRefused() throws {
        #expect(throws: SignalingError.self) { try Scene(.common, [bob, alice]) }
        do { _ = try Scene(.common, [alice]) } catch { #expect(error.code == .badRequest) }
    }

    // "A `call.invite` … that is handled later is answered `ok` and rings nobody: its call has the `state` `ended` and
    // the `endReason` `cancelled`, and all its invitees are `cancelled`."

    @Test(arguments: CallMode.allCases)
    func anInviteThatWasCancelledBeforeItCameMakesACancelledCallThatRingsNobody(mode: CallMode) throws {
        let scene = try Scene(mode, [bob, carol], busy: [bob], isCancelled: true) {
            $0.ifBusy = .reject
            $0.autoEnd = false
        }
        #expect(scene.call.state == .ended)
        #expect(scene.call.endReason == .cancelled)
        #expect(scene.call.members.map(\.state) == [.accepted, .cancelled, .cancelled])
        #expect(scene.delivery(bob) == nil)
        #expect(scene.delivery(carol) == nil)
        #expect(scene.call.revision == 1)
    }
}
