import CallCore
import SignalingProtocol
import Testing

/// Section 3 of the protocol, caller lost.
@Suite struct CallerLostTests {
    // "while nobody has accepted, the inviting device going offline cancels the invitation: at once on `logout`"

    @Test(arguments: CallMode.allCases)
    func aLogoutOfTheInvitingDeviceCancelsARingingCallAtOnce(mode: CallMode) throws {
        let scene = try Scene(mode, [bob, carol])
        scene.ack(bob)
        let changed = scene.goOffline(alice, .logout)
        #expect(changed)
        #expect(scene.call.state == .ended)
        #expect(scene.call.endReason == .callerLost)
        #expect(scene.state(bob) == .cancelled)
        #expect(scene.state(carol) == .cancelled)
        #expect(scene.call.revision == 3)
    }

    // "after a grace of 10 s (configurable) without coming back on `lost`. Members become `cancelled`, reason
    // `callerLost`."

    @Test(arguments: CallMode.allCases)
    func aLostInvitingDeviceCancelsTheCallAfterTheGrace(mode: CallMode) throws {
        let scene = try Scene(mode)
        scene.pass(2 * seconds)
        scene.goOffline(alice, .lost)
        #expect(scene.call.revision == 1, "nobody sees the grace")
        scene.pass(10 * seconds - 1)
        #expect(scene.call.isLive)
        scene.pass(1)
        #expect(scene.call.endReason == .callerLost)
        #expect(scene.state(bob) == .cancelled)
        #expect(scene.reason(bob) == "callerLost")
        #expect(scene.call.actor == nil)
        #expect(scene.call.endedAt == scene.now)
    }

    @Test func theGraceIsASetting() throws {
        var settings = CallSettings()
        settings.callerGrace = 500
        let scene = try Scene(settings: settings)
        scene.goOffline(alice, .lost)
        scene.pass(500)
        #expect(scene.call.endReason == .callerLost)
    }

    @Test func anInviterWhoComesBackInTimeKeepsTheCall() throws {
        let scene = try Scene()
        scene.goOffline(alice, .lost)
        scene.pass(9 * seconds)
        scene.comeOnline(alice)
        scene.pass(50 * seconds)
        #expect(scene.call.isLive)
        #expect(scene.call.revision == 1)
    }

    @Test func theGraceBeginsAnewWithEachLoss() throws {
        let scene = try Scene()
        scene.goOffline(alice, .lost)
        scene.pass(9 * seconds)
        scene.comeOnline(alice)
        scene.goOffline(alice, .lost)
        scene.pass(9 * seconds)
        #expect(scene.call.isLive)
        scene.pass(1 * seconds)
        #expect(scene.call.endReason == .callerLost)
    }

    @Test func aSecondWillDoesNotProlongTheGrace() throws {
        let scene = try Scene()
        scene.goOffline(alice, .lost)
        scene.pass(9 * seconds)
        let changed = scene.goOffline(alice, .lost)
        #expect(!changed)
        scene.pass(1 * seconds)
        #expect(scene.call.endReason == .callerLost)
    }

    @Test func aLogoutWithinTheGraceCancelsAtOnce() throws {
        let scene = try Scene()
        scene.goOffline(alice, .lost)
        scene.pass(1 * seconds)
        scene.goOffline(alice, .logout)
        #expect(scene.call.endReason == .callerLost)
    }

    @Test func anInviterWhoIsOnlineWhenTheGraceEndsKeepsTheCall() throws {
        let scene = try Scene()
        scene.goOffline(alice, .lost)
        scene.isInviterOnline = true
        scene.pass(10 * seconds)
        #expect(scene.call.isLive)
        #expect(scene.call.revision == 1)
    }

    @Test func anotherDeviceOfTheInviterNeitherLosesNorKeepsTheCall() throws {
        let scene = try Scene()
        let changed = scene.goOffline(alice, .logout, on: web)
        #expect(!changed)
        #expect(scene.call.isLive)
        scene.goOffline(alice, .lost)
        scene.comeOnline(alice, on: web)
        scene.pass(10 * seconds)
        #expect(scene.call.endReason == .callerLost)
    }

    @Test func aLostInviterWhoTakesTheCallOnAnotherDeviceIsBack() throws {
        let scene = try Scene(.advanced)
        scene.goOffline(alice, .lost)
        try scene.join(alice, on: web)
        scene.pass(20 * seconds)
        #expect(scene.call.isLive)
        #expect(scene.state(bob) == .inviting)
    }

    @Test(arguments: CallMode.allCases)
    func onceSomebodyAcceptedTheInvitersLossCancelsNothing(mode: CallMode) throws {
        let scene = try Scene(mode, [bob, carol])
        try scene.accept(bob)
        scene.goOffline(alice, .logout)
        #expect(scene.state(carol) == .inviting)
        scene.goOffline(alice, .lost)
        scene.pass(20 * seconds)
        #expect(scene.call.isLive)
    }

    @Test func anAcceptWithinTheGraceKeepsTheCall() throws {
        let scene = try Scene(.common, [bob, carol])
        scene.goOffline(alice, .lost)
        scene.pass(9 * seconds)
        try scene.accept(bob)
        scene.pass(20 * seconds)
        #expect(scene.state(carol) == .inviting)
    }

    @Test func anInviteesLossCancelsNothing() throws {
        let scene = try Scene()
        let lost = scene.goOffline(bob, .lost)
        let gone = scene.goOffline(bob, .logout)
        #expect(!lost && !gone)
        #expect(scene.call.isLive)
    }

    @Test func theInvitersLossAfterTheEndChangesNothing() throws {
        let scene = try Scene()
        try scene.reject(bob)
        let before = scene.call
        let changed = scene.goOffline(alice, .logout)
        #expect(!changed)
        #expect(scene.call == before)
    }

    @Test func withoutAutoEndTheInvitationsAreCancelledAndTheCallStays() throws {
        let scene = try Scene(.advanced) { $0.autoEnd = false }
        scene.goOffline(alice, .logout)
        #expect(scene.state(bob) == .cancelled)
        #expect(scene.call.isLive)
        #expect(scene.state(alice) == .accepted)
    }

    // `revision` grows only with a visible change (section 4).

    @Test func theGraceOfACallThatNobodyIsInvitedToAnyMoreChangesNothing() throws {
        let scene = try Scene(.advanced) { $0.autoEnd = false }
        scene.goOffline(alice, .lost)
        try scene.reject(bob)
        let before = scene.call.snapshot
        scene.pass(10 * seconds)
        #expect(scene.call.snapshot == before)
    }

    // "(If that message is itself lost, the invitation's timeout, or in advanced mode the heartbeat, bounds the
    // ringing.)"

    @Test func withoutTheMessageTheTimeoutBoundsTheRinging() throws {
        let scene = try Scene { $0.timeout = 30 }
        scene.pass(30 * seconds)
        #expect(scene.call.endReason == .timeout)
    }

    @Test func withoutTheMessageTheHeartbeatBoundsTheRingingOfAnAdvancedCall() throws {
        let scene = try Scene(.advanced) { $0.timeout = 600 }
        scene.pass(60 * seconds)
        #expect(scene.state(bob) == .cancelled)
        #expect(scene.call.endReason == .heartbeatTimeout)
    }
}
