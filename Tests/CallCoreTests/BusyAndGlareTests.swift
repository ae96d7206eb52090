import CallCore
import SignalingProtocol
import Testing

/// Section 3 of the protocol: busy, glare, and the single active call. The coordinator learns busy invitees and
/// crossing invitations from the store; the machine decides all that follows.
@Suite struct BusyAndGlareTests {
    // "**Busy**: with `ifBusy: reject` an invitee who is calling, being called or in another live call is `rejected` at
    // once, reason `busy`, and does not ring."

    @Test func aBusyInviteeIsRejectedAtOnceAndTheOthersRing() throws {
        let scene = try Scene(.common, [bob, carol], busy: [bob]) { $0.ifBusy = .reject }
        #expect(scene.state(bob) == .rejected)
        #expect(scene.reason(bob) == "busy")
        #expect(scene.state(carol) == .inviting)
        #expect(scene.call.isLive)
        #expect(scene.call.revision == 1)
    }

    // "invitees who are rejected as busy get no event at all"

    @Test(arguments: [phone, web])
    func aBusyInviteeIsOwedNothing(device: DeviceID) throws {
        let scene = try Scene(.advanced, [bob, carol], busy: [bob]) { $0.ifBusy = .reject }
        #expect(scene.delivery(bob, on: device) == nil)
        try scene.accept(carol)
        #expect(scene.delivery(bob, on: device) == nil)
        try scene.end(by: carol)
        #expect(scene.delivery(bob, on: device) == nil)
    }

    // "If all invitees were busy, the call is `ended` with `endReason` `busy`."

    @Test(arguments: CallMode.allCases)
    func aCallWhoseInviteesAreAllBusyEndsAtOnce(mode: CallMode) throws {
        let scene = try Scene(mode, [bob, carol], busy: [bob, carol]) { $0.ifBusy = .reject }
        #expect(scene.call.state == .ended)
        #expect(scene.call.endReason == .busy)
        #expect(scene.call.endedAt == scene.now)
    }

    @Test func withIfBusyRingABusyInviteeRings() throws {
        let scene = try Scene(.common, [bob], busy: [bob])
        #expect(scene.state(bob) == .inviting)
        #expect(scene.delivery(bob) == .invited)
    }

    // "**Glare**: … becomes A's `call.accept` of that invitation … The response carries that call and `"merged":true`."

    @Test func aMergedInviteIsAnAcceptWhoseOutcomeIsRemembered() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        let key = RequestKey(device: DeviceAddress(userID: bob, deviceID: phone), requestID: RequestID("glare")!)
        scene.machine.remember(RequestOutcome(key: key, type: "call.invite", merged: true))
        #expect(scene.call.outcome(of: key)?.merged == true)
        #expect(scene.call.state == .active)
    }

    // "a `call.cancel` of the alias ends it"

    @Test func aCancelOfTheMergedIdEndsAnAdvancedCall() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        try scene.machine.mergedCancelRequested(.init(callID: CallID("bobs")!), acting(bob, scene))
        #expect(scene.call.endReason == .hangup)
        #expect(scene.call.endedBy == bob)
    }

    @Test func aCancelOfTheMergedIdComesTooLateForACommonCall() throws {
        let scene = try Scene(.common)
        try scene.accept(bob)
        let before = scene.call
        do throws(SignalingError) {
            try scene.machine.mergedCancelRequested(.init(callID: CallID("bobs")!), acting(bob, scene))
            Issue.record("the call had ended with the answer")
        } catch {
            #expect(error.code == .invalidState)
            #expect(error.state == "accepted")
        }
        #expect(scene.call == before)
    }

    @Test func aCancelOfTheMergedIdByAStrangerFindsNothing() throws {
        let scene = try Scene(.advanced)
        do throws(SignalingError) {
            try scene.machine.mergedCancelRequested(.init(callID: CallID("eves")!), acting(eve, scene))
            Issue.record("a stranger cancelled")
        } catch {
            #expect(error.code == .callNotFound)
        }
    }

    // "A user is accepted in at most one live advanced call (configurable): `alreadyInCall`."

    @Test func whoIsInAnAdvancedCallCannotAcceptOrJoinAnother() throws {
        let other = CallID("other")!
        let scene = try Scene(.advanced) { $0.joinPolicy = .anyone }
        for body in [Request.Body.accept, .join] {
            let error = scene.refusal(body, by: bob, activeElsewhere: other)
            #expect(error?.code == .alreadyInCall)
            #expect(error?.callID == other)
        }
        #expect(scene.refusal(.join, by: eve, activeElsewhere: other)?.code == .alreadyInCall)
    }

    @Test(arguments: CallMode.allCases)
    func whoIsInAnAdvancedCallCannotInvite(mode: CallMode) throws {
        do throws(SignalingError) {
            _ = try Scene(mode, activeElsewhere: CallID("other")!)
            Issue.record("the invite was served")
        } catch {
            #expect(error.code == .alreadyInCall)
            #expect(error.callID == CallID("other")!)
        }
    }

    @Test func anAcceptOfACommonCallIsNoSecondActiveCall() throws {
        let scene = try Scene(.common)
        #expect(scene.refusal(.accept, by: bob, activeElsewhere: CallID("other")!) == nil)
    }

    @Test func aMoveToAnotherDeviceIsNoSecondActiveCall() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        #expect(scene.refusal(.join, by: bob, on: web, activeElsewhere: scene.call.callID) == nil)
        #expect(scene.call.member(bob)?.device == web)
    }

    @Test func whoIsInAnAdvancedCallMayStillReject() throws {
        let scene = try Scene(.advanced)
        #expect(scene.refusal(.reject, by: bob, activeElsewhere: CallID("other")!) == nil)
    }

    @Test func theOneActiveCallIsASetting() throws {
        var settings = CallSettings()
        settings.oneActiveCall = false
        let scene = try Scene(.advanced, settings: settings, activeElsewhere: CallID("other")!)
        #expect(scene.refusal(.accept, by: bob, activeElsewhere: CallID("other")!) == nil)
    }

    private func acting(_ user: UserID, _ scene: Scene) -> CallMachine.Acting {
        let key = RequestKey(device: DeviceAddress(userID: user, deviceID: phone), requestID: RequestID("c")!)
        return CallMachine.Acting(key: key, now: scene.now)
    }
}
