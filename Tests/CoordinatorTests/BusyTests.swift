import CallCore
import Coordinator
import SignalingProtocol
import Testing

/// `ifBusy: reject` and `alreadyInCall` (docs/protocol.md, section 3).
struct BusyTests {
    let world = World()
    let alice: Phone
    let bob: Phone
    let carol: Phone

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
        carol = world.phone("carol/phone")
        _ = world.lines()
    }

    private func rejectBusy(_ invite: inout Request.Invite) { invite.ifBusy = .reject }

    @Test func oneWhoIsBeingCalledIsBusy() throws {
        alice.invite("bob", callID: "a")
        _ = world.lines()
        let call = try #require(carol.invite("bob", callID: "c", change: rejectBusy)?.call)
        #expect(call.state == .ended)
        #expect(call.endReason == .busy)
        #expect(call.member(bob.user)?.state == .rejected)
        #expect(call.member(bob.user)?.reason == "busy")
        #expect(world.lines() == ["carol/phone ok 1"])
        world.pass(seconds: 70)
        #expect(!bob.events.contains { $0.callID == CallID("c") }, "a busy invitee gets no event at all")
    }

    @Test func oneWhoIsCallingIsBusy() {
        alice.invite("bob", callID: "a")
        #expect(carol.invite("alice", callID: "c", change: rejectBusy)?.call?.endReason == .busy)
    }

    @Test func oneWhoIsInAnAdvancedCallIsBusy() {
        alice.invite("bob", callID: "a", mode: .advanced)
        bob.accept("a")
        #expect(carol.invite("bob", callID: "c", change: rejectBusy)?.call?.endReason == .busy)
    }

    @Test func oneWhoseCommonCallWasAnsweredIsFree() {
        alice.invite("bob", callID: "a")
        bob.accept("a")
        #expect(carol.invite("bob", callID: "c", change: rejectBusy)?.call?.state == .ringing)
    }

    @Test func oneWhoRejectedIsFreeThoughTheCallGoesOn() {
        alice.invite("bob", "dave", callID: "a")
        bob.reject("a")
        #expect(carol.invite("bob", callID: "c", change: rejectBusy)?.call?.state == .ringing)
    }

    @Test func onlyTheBusyOnesAreRejected() {
        alice.invite("dave", callID: "a")
        let call = carol.invite("bob", "dave", callID: "c", change: rejectBusy)?.call
        #expect(call?.state == .ringing)
        #expect(call?.state(of: "bob") == .inviting)
        #expect(call?.state(of: "dave") == .rejected)
        #expect(bob.names == [.invited])
    }

    @Test func withoutTheFlagABusyInviteeRings() {
        alice.invite("bob", callID: "a")
        #expect(carol.invite("bob", callID: "c")?.call?.state == .ringing)
        #expect(bob.names == [.invited, .invited])
    }

    @Test func nobodyInAnAdvancedCallMayInviteOrAcceptAnother() {
        alice.invite("bob", callID: "a", mode: .advanced)
        bob.accept("a")
        for mode in CallMode.allCases {
            let error = bob.invite("carol", callID: "x-\(mode)", mode: mode)?.error
            #expect(error?.code == .alreadyInCall)
            #expect(error?.callID == CallID("a"))
        }
        carol.invite("bob", callID: "c", mode: .advanced)
        #expect(bob.accept("c")?.error?.callID == CallID("a"))
        #expect(bob.join("c")?.error?.callID == CallID("a"))
        #expect(bob.reject("c")?.success != nil)
    }

    @Test func aCommonCallMayBeAcceptedWithinAnAdvancedOne() {
        alice.invite("bob", callID: "a", mode: .advanced)
        bob.accept("a")
        carol.invite("bob", callID: "c")
        #expect(bob.accept("c")?.call?.endReason == .answered)
    }

    @Test(arguments: ["quit", "end", "heartbeat", "otherQuits"])
    func whoeverLeftMayInviteAgain(_ way: String) {
        alice.invite("bob", callID: "a", mode: .advanced)
        bob.accept("a")
        switch way {
        case "quit": bob.quit("a")
        case "end": alice.end("a")
        case "otherQuits": alice.quit("a")
        default: world.pass(seconds: 61)
        }
        #expect(bob.invite("carol", callID: "x", mode: .advanced)?.call?.state == .ringing)
        #expect(bob.cancel("x")?.success != nil)
        #expect(bob.invite("carol", callID: "y", mode: .advanced)?.call?.state == .ringing)
    }

    @Test func theCallerOfARingingAdvancedCallIsInIt() {
        alice.invite("bob", callID: "a", mode: .advanced)
        #expect(alice.invite("carol", callID: "x")?.error?.callID == CallID("a"))
        #expect(bob.invite("carol", callID: "y", mode: .advanced)?.success != nil, "an invitee is not")
    }

    @Test func withoutTheLimitAUserMayBeInManyCalls() {
        var settings = ServiceSettings()
        settings.calls.oneActiveCall = false
        let world = World(settings)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob", callID: "a", mode: .advanced)
        bob.accept("a")
        #expect(alice.invite("bob", callID: "b", mode: .advanced)?.success != nil)
        #expect(bob.accept("b")?.call?.state == .active)
    }

    @Test func acceptingTwoCallsAtOnceOnTwoCoordinatorsSucceedsForOne() throws {
        var faulty: FaultyStore!
        let world = World(
            coordinators: 2,
            store: { memory in
                faulty = FaultyStore(memory)
                return faulty
            })
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        let carol = world.phone("carol/phone")
        let web = world.phone("bob/web")
        alice.invite("bob", callID: "a", mode: .advanced)
        carol.invite("bob", callID: "c", mode: .advanced)
        world.route = { _ in 0 }
        faulty.beforeCommit = { _ in
            faulty.beforeCommit = nil
            world.send([web.up(.accept(.init(callID: CallID("c")!)))], to: 1)
        }
        let error = bob.accept("a")?.error
        #expect(error?.code == .alreadyInCall)
        #expect(error?.callID == CallID("c"))
        #expect(world.stored(CallID("a")!)?.state == .ringing)
        #expect(world.stored(CallID("c")!)?.state == .active)
    }

    @Test func twoAdvancedInvitesInOneBatchSucceedForOne() {
        world.send([
            alice.up(.invite(.init(invitees: [bob.user], callID: CallID("x")!, mode: .advanced))),
            alice.up(.invite(.init(invitees: [carol.user], callID: CallID("y")!, mode: .advanced))),
        ])
        #expect(alice.responses.map { $0.outcome.code } == [nil, .alreadyInCall])
        #expect(carol.names.isEmpty)
    }
}
