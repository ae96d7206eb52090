import CallCore
import SignalingProtocol
import Testing

/// Section 3 of the protocol, heartbeat: "in advanced mode an accepted member from whom nothing about the call was
/// heard for 60 s (interval 20 s) becomes `quit`, reason `heartbeatTimeout`; the others are told."
@Suite struct HeartbeatTests {
    @Test func aMemberSilentForAMinuteBecomesQuit() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        try scene.accept(carol)
        scene.pass(40 * seconds)
        scene.beat(alice, carol)
        scene.pass(20 * seconds - 1)
        #expect(scene.state(bob) == .accepted)
        scene.pass(1)
        #expect(scene.state(bob) == .quit)
        #expect(scene.reason(bob) == "heartbeatTimeout")
        #expect(scene.call.isLive)
        #expect(scene.call.actor == nil)
    }

    @Test func theOthersAreToldOfASilentMember() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        try scene.accept(carol)
        let known = scene.call.revision
        scene.pass(59 * seconds)
        scene.beat(alice, carol)
        scene.pass(1 * seconds)
        for other in [alice, carol] {
            let event = try #require(scene.event(other, acked: known))
            #expect(event.name == .userStateChanged)
            #expect(event.changed == [bob])
            #expect(event.changes.first?.reason == "heartbeatTimeout")
        }
    }

    @Test func aMemberWhoBeatsEveryTwentySecondsStays() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        let revision = scene.call.revision
        for _ in 0..<180 {
            scene.pass(20 * seconds)
            scene.beat(alice, bob)
        }
        #expect(scene.call.isLive)
        #expect(scene.call.revision == revision)
    }

    @Test func silenceCountsFromTheLastThatWasHeard() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        scene.pass(50 * seconds)
        scene.beat(alice, bob)
        scene.pass(59 * seconds)
        scene.beat(alice)
        #expect(scene.state(bob) == .accepted)
        scene.pass(1 * seconds)
        #expect(scene.state(bob) == .quit)
    }

    @Test func silenceCountsFromTheAcceptAtTheEarliest() throws {
        let scene = try Scene(.advanced, [bob, carol]) { $0.timeout = 600 }
        scene.pass(50 * seconds)
        scene.beat(alice)
        try scene.accept(bob)
        scene.pass(59 * seconds)
        scene.beat(alice)
        #expect(scene.state(bob) == .accepted)
        scene.pass(1 * seconds)
        #expect(scene.state(bob) == .quit)
    }

    @Test func anothersAcceptDoesNotPutOffASilentMember() throws {
        let scene = try Scene(.advanced, [bob, carol]) { $0.timeout = 600 }
        scene.pass(50 * seconds)
        try scene.accept(bob)
        scene.pass(10 * seconds - 1)
        #expect(scene.state(alice) == .accepted)
        scene.pass(1)
        #expect(scene.state(alice) == .quit)
    }

    @Test func twoMembersWhoFallSilentTogetherAreOneChange() throws {
        let scene = try Scene(.advanced, [bob, carol])
        try scene.accept(bob)
        try scene.accept(carol)
        let revision = scene.call.revision
        scene.pass(30 * seconds)
        scene.beat(alice)
        scene.pass(30 * seconds)
        #expect(scene.state(bob) == .quit)
        #expect(scene.state(carol) == .quit)
        #expect(scene.call.revision == revision + 1)
        #expect(scene.call.endReason == .heartbeatTimeout)
        #expect(scene.state(alice) == .accepted)
    }

    @Test func aPendingMemberHasNoHeartbeat() throws {
        let scene = try Scene(.advanced, [bob, carol]) { $0.timeout = 600 }
        try scene.accept(bob)
        for _ in 0..<5 {
            scene.pass(50 * seconds)
            scene.beat(alice, bob)
        }
        #expect(scene.state(carol) == .inviting)
    }

    @Test func aCommonCallHasNoHeartbeat() throws {
        let scene = try Scene(.common, [bob, carol]) { $0.timeout = 600 }
        try scene.accept(bob)
        scene.pass(599 * seconds)
        #expect(scene.call.members.map(\.state) == [.accepted, .accepted, .inviting])
    }

    @Test func aSilentMemberMayJoinAgainAndIsHeardFromThenOn() throws {
        let scene = try Scene(.advanced, [bob, carol]) { $0.timeout = 600 }
        try scene.accept(bob)
        scene.pass(30 * seconds)
        scene.beat(alice)
        scene.pass(30 * seconds)
        #expect(scene.state(bob) == .quit)
        try scene.join(bob)
        #expect(scene.reason(bob) == nil)
        scene.beat(alice)
        scene.pass(59 * seconds)
        #expect(scene.state(bob) == .accepted)
    }

    @Test func withoutAutoEndTheCallOfSilentMembersEndsAMinuteLater() throws {
        let scene = try Scene(.advanced) { $0.autoEnd = false }
        try scene.accept(bob)
        scene.pass(60 * seconds)
        #expect(scene.call.members.map(\.state) == [.quit, .quit])
        #expect(scene.call.isLive)
        scene.pass(60 * seconds)
        #expect(scene.call.endReason == .heartbeatTimeout)
    }

    @Test func theTimeoutIsASetting() throws {
        var settings = CallSettings()
        settings.heartbeatTimeout = 3 * seconds
        let scene = try Scene(.advanced, settings: settings)
        scene.pass(3 * seconds)
        #expect(scene.state(alice) == .quit)
    }

    // "the clock starts anew when the service starts, or starts again, to listen to the broker, so that an outage of
    // the service ends no call."

    @Test func silenceWhileTheServiceWasAwayIsNotTheMembers() throws {
        let scene = try Scene(.advanced)
        try scene.accept(bob)
        scene.passUnserved(600 * seconds)
        scene.listeningSince = scene.now
        scene.serveDeadlines()
        #expect(scene.call.isLive)
        scene.pass(59 * seconds)
        scene.beat(alice, bob)
        scene.pass(59 * seconds)
        #expect(scene.call.isLive)
    }

    @Test func aMemberStillSilentAMinuteAfterTheServiceIsBackBecomesQuit() throws {
        let scene = try Scene(.advanced, [bob, carol]) { $0.timeout = 600 }
        try scene.accept(bob)
        scene.passUnserved(100 * seconds)
        scene.listeningSince = scene.now
        scene.serveDeadlines()
        scene.beat(alice)
        scene.pass(60 * seconds - 1)
        #expect(scene.state(bob) == .accepted)
        scene.pass(1)
        #expect(scene.state(bob) == .quit)
    }
}
