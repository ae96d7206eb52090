import CallCore
import SignalingProtocol
import Testing

/// Section 5 of the protocol: the content of an event, for how long the event is owed, and in which session.
@Suite struct OwedContentTests {
    // "Always with the current `call` and `revision`."; "`time` … is when that revision was made"

    @Test func anEventCarriesTheCallAsItIsNow() throws {
        let scene = try Scene()
        scene.pass(2 * seconds)
        scene.ack(bob)
        let made = scene.now
        scene.pass(3 * seconds)
        let event = try #require(scene.event(bob, on: web))
        #expect(event.revision == 2)
        #expect(event.call == scene.call.snapshot)
        #expect(event.time == made)
        #expect(event.actor == bob)
    }

    @Test func aTimersChangeHasNoActor() throws {
        let scene = try Scene(.common, [bob, carol]) { $0.notReceivedCheck = true }
        scene.pass(5 * seconds)
        #expect(scene.event(alice, acked: 1)?.actor == nil)
        scene.pass(55 * seconds)
        #expect(scene.event(bob)?.name == .timeout)
        #expect(scene.event(bob)?.actor == nil)
    }

    // "a device that missed three changes gets one event that brings it up to date"

    @Test func oneEventBringsADeviceUpToDateAfterThreeMissedChanges() throws {
        let scene = try Scene(.common, [bob, carol, dave])
        scene.ack(bob)
        try scene.reject(carol)
        try scene.accept(dave)
        let event = try #require(scene.event(alice, acked: 1))
        #expect(event.name == .userStateChanged)
        #expect(event.revision == 4)
        #expect(event.changed == [bob, carol, dave])
        #expect(event.changes.map(\.state) == [.received, .rejected, .accepted])
        #expect(scene.event(alice, acked: 3)?.changed == [dave])
        #expect(scene.delivery(alice, acked: 4) == nil)
    }

    @Test func twoChangesOfOneMemberAreOneEntryWithTheLatest() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        try scene.quit(bob)
        #expect(scene.event(alice, acked: 1)?.changed == [bob])
        #expect(scene.event(alice, acked: 1)?.changes.first?.state == .quit)
    }

    // "and never rings for a call that is over"

    @Test(arguments: ["cancel", "reject", "timeout", "end", "quit", "accept", "logout"])
    func noDeviceRingsForACallThatIsOver(how: String) throws {
        let scene = try Scene(.advanced)
        switch how {
        case "cancel": try scene.cancel()
        case "reject": try scene.reject(bob)
        case "timeout": scene.pass(60 * seconds)
        case "end": try scene.end(by: alice)
        case "quit": try scene.quit(alice)
        case "logout": scene.goOffline(alice, .logout)
        default:
            try scene.accept(bob)
            try scene.end(by: bob)
        }
        for acked in 0...scene.call.revision {
            for device in [phone, web] {
                #expect(scene.delivery(bob, on: device, acked: acked) != .invited)
            }
        }
    }

    // "In `call.userStateChanged`, `changes` has every other member whose state changed since the revision that the
    // device acked, and the own entry only when the user quit. In all other events, `changes` has every member changed
    // since, the own one included."

    @Test func aStateChangeLeavesTheOwnEntryOutUnlessTheUserQuit() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        #expect(scene.event(bob, acked: 0)?.changed == [alice, carol])
        try scene.quit(bob)
        #expect(scene.event(bob, acked: 2)?.changed == [bob])
    }

    @Test func allOtherEventsReportTheOwnEntryToo() throws {
        let scene = try Scene(.advanced, [bob, carol])
        #expect(scene.event(bob)?.changed == [alice, bob, carol])
        #expect(scene.event(alice, on: web)?.changed == [alice, bob, carol])
        try scene.cancel([bob])
        #expect(scene.event(bob, acked: 1)?.changed == [bob])
        try scene.accept(carol)
        #expect(scene.event(carol, on: web, acked: 2)?.changed == [carol])
        try scene.ask(.end(.init(callID: scene.call.callID, reason: "done")), by: carol)
        #expect(scene.event(alice, acked: 3)?.changed == [carol])
    }

    @Test func aChangeCarriesDeviceReasonAndExtendedData() throws {
        let scene = try Scene(.common, [bob, carol])
        let body = Request.Reject(callID: scene.call.callID, reason: "driving", extendedData: "{}")
        try scene.ask(.reject(body), by: bob, on: web)
        let change = MemberChange(userID: bob, state: .rejected, device: web, reason: "driving", extendedData: "{}")
        #expect(scene.event(alice, acked: 1)?.changes == [change])
    }

    // "for an accepted user it moves the call to this device and other members are not told"

    @Test func aMoveToAnotherDeviceIsNotToldToTheOthers() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob, on: phone)
        let known = scene.call.revision
        try scene.join(bob, on: web)
        #expect(scene.delivery(alice, acked: known) == nil)
        try scene.add([carol])
        #expect(scene.event(alice, acked: known)?.changed == [carol])
    }

    // "`call.invited`, and no other event, carries `"expiresIn"` (ms left, computed at each send)."

    @Test func anInvitationTellsHowLongItStillLastsAtEachSend() throws {
        let scene = try Scene { $0.timeout = 30 }
        #expect(scene.event(bob)?.expiresIn == 30_000)
        scene.pass(12_345)
        #expect(scene.event(bob)?.expiresIn == 17_655)
        #expect(scene.event(alice, on: web)?.expiresIn == nil)
    }

    // "`call.cancelled`, `call.timeout` … carry `"missed":true` when the user never responded on any device"

    @Test(arguments: ["cancel", "timeout"])
    func aCallThatNobodyRespondedToIsMissed(how: String) throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(carol)
        if how == "cancel" { try scene.cancel([bob]) } else { scene.pass(59 * seconds) }
        scene.beat(alice, carol)
        scene.pass(1 * seconds)
        let event = try #require(scene.event(bob))
        #expect(event.name == (how == "cancel" ? .cancelled : .timeout))
        #expect(event.missed)
    }

    @Test func aReceivedInvitationThatNobodyAnsweredIsMissed() throws {
        let scene = try Scene()
        scene.ack(bob)
        try scene.cancel()
        #expect(scene.event(bob)?.missed == true)
    }

    @Test(arguments: ["reject", "quit"])
    func aCallThatTheUserRespondedToBeforeIsNotMissed(how: String) throws {
        let scene = try Scene(.advanced, [bob, carol])
        if how == "quit" { try scene.accept(bob, on: web) }
        if how == "quit" { try scene.quit(bob) } else { try scene.reject(bob, on: web) }
        try scene.add([bob])
        try scene.cancel([bob])
        #expect(scene.event(bob, on: phone)?.name == .cancelled)
        #expect(scene.event(bob, on: phone)?.missed == false)
    }

    @Test func aUserRejectedAsBusyAndInvitedAgainMayStillMissTheCall() throws {
        let scene = try Scene(.advanced, [bob, carol], busy: [bob]) { $0.ifBusy = .reject }
        try scene.add([bob])
        try scene.cancel([bob])
        #expect(scene.event(bob)?.missed == true)
    }

    @Test func onlyTheEndOfAnInvitationCanBeMissed() throws {
        let scene = try Scene(.advanced, [bob, carol])
        #expect(scene.event(bob)?.missed == false)
        try scene.accept(carol)
        #expect(scene.event(bob, acked: 1)?.name == .userStateChanged)
        #expect(scene.event(bob, acked: 1)?.missed == false)
    }

    // "to a user who was pending until then, `call.ended` carry `"missed":true`"

    @Test func aCallThatEndedWhileTheUserWasPendingIsMissed() throws {
        let scene = try Scene(.advanced, [bob, carol])
        scene.ack(bob)
        try scene.accept(carol)
        try scene.end(by: alice)
        #expect(scene.event(bob, acked: 2)?.name == .ended)
        #expect(scene.event(bob, acked: 2)?.missed == true)
        #expect(scene.event(carol, acked: 3)?.name == .ended)
        #expect(scene.event(carol, acked: 3)?.missed == false, "carol took part in it")
    }

    @Test func theEndOfACallThatTheUserRespondedToBeforeIsNotMissed() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.reject(bob, on: web)
        try scene.add([bob])
        try scene.end(by: alice)
        #expect(scene.event(bob, on: phone)?.name == .ended)
        #expect(scene.event(bob, on: phone)?.missed == false)
    }

    // "Owed are live calls and those ended within the last 60 s"

    @Test func anEndedCallIsOwedForAMinute() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        try scene.end(by: bob)
        scene.pass(60 * seconds - 1)
        #expect(scene.delivery(alice, acked: 2) == .ended)
        scene.pass(1)
        #expect(scene.delivery(alice, acked: 2) == nil)
        #expect(scene.delivery(alice) == nil)
    }

    @Test func howLongAnEndedCallIsOwedIsASetting() throws {
        var settings = CallSettings()
        settings.endedRetention = 2 * seconds
        let scene = try Scene(settings: settings)
        try scene.cancel()
        scene.pass(2 * seconds - 1)
        #expect(scene.delivery(bob) == .cancelled)
        scene.pass(1)
        #expect(scene.delivery(bob) == nil)
    }

    // "A session begins at revision 0 (so a restarted app is told again of a call that still rings). Calls over before
    // the session began are not owed to it."

    @Test func aSessionThatBeginsWhileTheCallRingsIsOwedTheInvitation() throws {
        let scene = try Scene()
        scene.ack(bob)
        scene.pass(20 * seconds)
        #expect(scene.delivery(bob, acked: 0, online: scene.now) == .invited)
    }

    @Test func aSessionIsOwedCallsThatEndedSinceItBeganAndNoneBefore() throws {
        let scene = try Scene()
        scene.pass(5 * seconds)
        try scene.cancel()
        #expect(scene.delivery(bob, online: scene.now - 1) == .cancelled)
        #expect(scene.delivery(bob, online: scene.now) == .cancelled)
        #expect(scene.delivery(bob, online: scene.now + 1) == nil)
        #expect(scene.delivery(bob) == .cancelled, "a device without presence has no session that could be too young")
    }

    @Test func anAcceptedDeviceThatRestartedIsBroughtUpToDate() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        scene.pass(5 * seconds)
        let event = try #require(scene.event(bob, acked: 0))
        #expect(event.name == .userStateChanged)
        #expect(event.changed == [alice, carol])
    }
}
