import CallCore
import Coordinator
import SignalingProtocol
import Testing

/// An advanced call, message by message (docs/protocol.md, sections 2, 3 and 5).
struct AdvancedCallTests {
    let world = World()
    let alice: Phone
    let bob: Phone
    let carol: Phone

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
        carol = world.phone("carol/phone")
    }

    private func talk(_ change: (inout Request.Invite) -> Void = { _ in }) {
        alice.invite("bob", mode: .advanced, change: change)
        bob.accept()
        _ = world.lines()
    }

    /// Lets time pass while every phone but `silent` sends heartbeats.
    private func pass(seconds: Int, besides silent: Phone? = nil) {
        for _ in 0..<seconds / 10 {
            world.pass(seconds: 10)
            for phone in [alice, bob, carol] where phone !== silent { phone.heartbeat() }
        }
    }

    @Test func theCallGoesOnAfterTheAnswer() {
        talk()
        #expect(world.stored(callID)?.state == .active)
        pass(seconds: 600)
        #expect(world.stored(callID)?.state == .active)
        #expect(world.lines().isEmpty, "heartbeats have no answer")
    }

    @Test func addRingsTheNewcomerAndTellsTheOthers() throws {
        talk()
        let outcome = try #require(bob.add("carol", "dave")?.success)
        #expect(outcome.offline == userIDs("dave"))
        #expect(outcome.call.member(carol.user)?.invitedBy == bob.user)
        #expect(
            world.lines() == [
                "alice/phone call.userStateChanged 4", "carol call.invited 4", "dave call.invited 4",
                "bob/phone ok 4", "alice/phone call.userStateChanged 5", "bob/phone call.userStateChanged 5",
                "dave call.invited 5",
            ])
    }

    @Test func quitTellsTheOthersAndTheOneWhoQuit() {
        alice.invite("bob", "carol", mode: .advanced)
        bob.accept()
        carol.accept()
        _ = world.lines()
        #expect(carol.quit()?.call?.state == .active)
        let revision = world.stored(callID)!.revision
        #expect(
            world.lines() == [
                "alice/phone call.userStateChanged \(revision)", "bob/phone call.userStateChanged \(revision)",
                "carol/phone ok \(revision)",
            ])
        #expect(world.stored(callID)?.member(carol.user)?.state == .quit)
    }

    @Test func theLastButOneWhoQuitsEndsTheCall() {
        talk()
        #expect(bob.quit()?.call?.endReason == .quit)
        #expect(alice.names.last == .ended)
    }

    @Test func whoQuitMayStillTakeBackTheOwnInvitations() {
        alice.invite("bob", "carol", mode: .advanced) { $0.autoEnd = false }
        bob.accept()
        alice.quit()
        #expect(alice.cancel()?.call?.state(of: "carol") == .cancelled)
        #expect(carol.names.last == .cancelled)
    }

    @Test func endEndsTheCallForAllAndStatesStay() throws {
        alice.invite("bob", "carol", mode: .advanced)
        bob.accept()
        let outcome = try #require(bob.end()?.call)
        #expect(outcome.endReason == .hangup)
        #expect(outcome.endedBy == bob.user)
        #expect(outcome.state(of: "carol") == .received)
        #expect(alice.names.last == .ended)
        #expect(carol.names.last == .ended)
        #expect(carol.accept()?.error?.state == "received")
        #expect(carol.accept()?.code == .callEnded)
    }

    @Test func joinReturnsToTheCall() {
        alice.invite("bob", "carol", mode: .advanced)
        bob.accept()
        carol.reject()
        _ = world.lines()
        #expect(carol.join()?.call?.state(of: "carol") == .accepted)
        let revision = world.stored(callID)!.revision
        #expect(
            world.lines() == [
                "alice/phone call.userStateChanged \(revision)", "bob/phone call.userStateChanged \(revision)",
                "carol/phone ok \(revision)",
            ])
    }

    @Test func aStrangerJoinsOnlyACallForAnyone() {
        talk()
        #expect(carol.join()?.code == .callNotFound)
        alice.end()
        alice.invite("bob", callID: "open", mode: .advanced) { $0.joinPolicy = .anyone }
        #expect(carol.join("open")?.call?.member(carol.user)?.invitedBy == nil)
        #expect(alice.events.last?.changes.map(\.userID) == [carol.user])
    }

    @Test func joiningFromAnotherDeviceMovesTheCallAndOthersAreNotTold() {
        talk()
        let web = world.phone("bob/web")
        _ = world.lines()
        #expect(web.join()?.call?.member(bob.user)?.device == web.address.deviceID)
        let revision = world.stored(callID)!.revision
        #expect(world.lines() == ["bob/web ok \(revision)", "bob/phone call.handledElsewhere \(revision)"])
        #expect(web.join()?.call?.revision == revision, "asked again, nothing changes")
        alice.add("carol")
        #expect(web.names.last == .userStateChanged)
        #expect(bob.names.last == .handledElsewhere)
    }

    /// Found by a random world: the join changed nothing, so the service did not remember the join, and the duplicate
    /// of the join entered the call.
    @Test func aRepeatedJoinThatChangedNothingDoesNotBringOneBack() {
        alice.invite("bob", "carol", mode: .advanced)
        bob.accept()
        carol.accept()
        let join = Request.Body.join(.init(callID: callID))
        #expect(bob.request(join, id: RequestID("j")!)?.success != nil, "in the call already")
        bob.quit()
        #expect(bob.request(join, id: RequestID("j")!)?.success != nil)
        #expect(world.stored(callID)?.member(bob.user)?.state == .quit)
    }

    @Test func commonCallsKnowNoneOfThis() {
        alice.invite("bob", "carol")
        bob.accept()
        let outcomes = [bob.add("dave"), bob.join(), bob.quit(), bob.end()]
        #expect(outcomes.map { $0?.code } == [.wrongMode, .wrongMode, .wrongMode, .wrongMode])
        bob.heartbeat()
    }

    @Test func aFullCallTakesNobodyMore() {
        let names = (1...9).map { UserID("u\($0)")! }
        alice.request(.invite(.init(invitees: names, callID: callID, mode: .advanced)))
        #expect(alice.add("dave")?.code == .callFull)
        alice.cancel(invitees: ["u1"])
        #expect(alice.add("dave")?.success != nil)
    }

    @Test func theLimitOfMembersIsASetting() {
        var settings = ServiceSettings()
        settings.calls.maxMembers = 3
        let world = World(settings)
        let alice = world.phone("alice/phone")
        #expect(alice.invite("b", "c", "d")?.code == .callFull)
        #expect(alice.invite("b", "c")?.success != nil)
    }

    @Test func aSilentMemberQuitsAfterAMinute() throws {
        alice.invite("bob", "carol", mode: .advanced)
        bob.accept()
        carol.accept()
        pass(seconds: 50, besides: carol)
        world.pass(9_999)
        #expect(world.stored(callID)?.member(carol.user)?.state == .accepted)
        world.pass(1)
        let member = try #require(world.stored(callID)?.member(carol.user))
        #expect(member.state == .quit)
        #expect(member.reason == "heartbeatTimeout")
        #expect(alice.events.last?.actor == nil)
        #expect(alice.events.last?.changes.map(\.userID) == [carol.user])
        #expect(carol.names.last == .userStateChanged)
    }

    @Test func aHeartbeatCountsFromWhenItCame() {
        talk()
        world.pass(seconds: 59)
        bob.heartbeat()
        alice.heartbeat()
        world.pass(59_999)
        #expect(world.stored(callID)?.state == .active)
        world.pass(1)
        #expect(world.stored(callID)?.endReason == .heartbeatTimeout)
    }

    @Test(arguments: ["ack", "get", "add", "refused", "repeated"])
    func anythingAboutTheCallCountsAsAHeartbeat(_ message: String) {
        let id = RequestID("again")!
        alice.invite("bob", mode: .advanced)
        bob.accept(id: id)
        world.pass(seconds: 59)
        alice.heartbeat()
        switch message {
        case "ack": bob.ack(world.stored(callID)!.revision)
        case "get": bob.get()
        case "add": bob.add("dave")
        case "refused": bob.add("alice")
        default: bob.accept(id: id)
        }
        world.pass(seconds: 59)
        #expect(world.stored(callID)?.member(bob.user)?.state == .accepted)
    }

    @Test func anOutageOfTheServiceEndsNoCall() {
        talk()
        world.pass(seconds: 50)
        world.clock.now += 3_600_000
        world.restart()
        #expect(world.stored(callID)?.state == .active)
        world.pass(59_000)
        alice.heartbeat()
        bob.heartbeat()
        world.pass(seconds: 30)
        #expect(world.stored(callID)?.state == .active)
        world.pass(seconds: 40)
        #expect(world.stored(callID)?.endReason == .heartbeatTimeout)
    }

    @Test func heartbeatsOfOthersDoNotCount() {
        talk()
        let web = world.phone("bob/web")
        for _ in 0..<5 {
            world.pass(seconds: 15)
            alice.heartbeat()
            carol.heartbeat()
            web.heartbeat("other")
        }
        #expect(world.stored(callID)?.endReason == .heartbeatTimeout)
    }

    @Test func withoutAutoEndTheCallStaysForAMinuteWhenNobodyIsLive() {
        talk { $0.autoEnd = false }
        bob.quit()
        alice.quit()
        #expect(world.stored(callID)?.state == .active)
        world.pass(59_999)
        #expect(world.stored(callID)?.state == .active)
        world.pass(1)
        #expect(world.stored(callID)?.endReason == .quit)
    }

    @Test func withoutAutoEndSomebodyMayComeBackInTime() {
        talk { $0.autoEnd = false }
        bob.quit()
        alice.quit()
        world.pass(seconds: 59)
        #expect(bob.join()?.success != nil)
        for _ in 0..<3 {
            world.pass(seconds: 50)
            bob.heartbeat()
        }
        #expect(world.stored(callID)?.state == .active)
    }
}
