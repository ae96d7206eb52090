import CallCore
import SignalingProtocol
import Testing

/// A cancel that overtakes its invite (docs/protocol.md, section 2).
struct FastCancelTests {
    let world = World()
    let alice: Phone
    let bob: Phone

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
        _ = world.lines()
    }

    @Test func aLaterInviteIsCancelledAndRingsNobody() throws {
        #expect(alice.cancel()?.code == .callNotFound)
        let call = try #require(alice.invite("bob", "carol")?.call)
        #expect(call.state == .ended)
        #expect(call.endReason == .cancelled)
        #expect(call.state(of: "bob") == .cancelled)
        #expect(call.state(of: "carol") == .cancelled)
        world.pass(seconds: 100)
        #expect(world.lines() == ["alice/phone callNotFound", "alice/phone ok 1"])
        let carol = world.phone("carol/phone")
        #expect(carol.names.isEmpty)
    }

    @Test(arguments: [(29_999, true), (30_000, false)])
    func isRememberedForThirtySeconds(_ wait: Int64, _ isCancelled: Bool) {
        alice.cancel()
        world.pass(wait)
        #expect((alice.invite("bob")?.call?.state == .ended) == isCancelled)
        #expect(bob.names == (isCancelled ? [] : [.invited]))
    }

    @Test func anotherDeviceOfTheUserMayCancel() {
        world.phone("alice/web").cancel()
        #expect(alice.invite("bob")?.call?.endReason == .cancelled)
    }

    @Test func anotherUsersCancelDoesNotCount() {
        bob.cancel()
        #expect(alice.invite("bob")?.call?.state == .ringing)
        #expect(bob.names == [.invited])
    }

    @Test func itHoldsInAdvancedModeToo() {
        alice.cancel()
        #expect(alice.invite("bob", mode: .advanced)?.call?.state == .ended)
        #expect(alice.invite("bob", callID: "next", mode: .advanced)?.call?.state == .ringing, "and leaves no claim")
    }

    @Test func bothInOneBatchInEitherOrder() {
        let invite = alice.up(.invite(.init(invitees: [bob.user], callID: callID)))
        let cancel = alice.up(.cancel(.init(callID: callID)))
        world.send([cancel, invite])
        #expect(world.stored(callID)?.endReason == .cancelled)
        #expect(world.lines() == ["alice/phone callNotFound", "alice/phone ok 1"])

        let other = CallID("d")!
        world.send([
            alice.up(.invite(.init(invitees: [bob.user], callID: other))), alice.up(.cancel(.init(callID: other))),
        ])
        #expect(world.stored(other)?.endReason == .cancelled)
        #expect(!bob.names.contains(.invited))
    }

    @Test func aCancelResentAfterTheInviteSucceeds() {
        let id = RequestID("x")!
        #expect(alice.cancel(id: id)?.code == .callNotFound)
        alice.invite("bob")
        #expect(alice.cancel(id: id)?.code == .invalidState, "nobody is pending any more")
        #expect(bob.names.isEmpty)
    }

    /// The user took the invite back before the service handled it: the invite must not answer another user's call
    /// instead.
    @Test func aCancelledInviteDoesNotMerge() {
        bob.invite("alice", callID: "b")
        alice.cancel("a")
        let outcome = alice.invite("bob", callID: "a") { $0.glare = .merge }
        #expect(outcome?.success?.merged == false)
        #expect(outcome?.call?.endReason == .cancelled)
        #expect(world.stored(CallID("b")!)?.state == .ringing)
    }

    @Test func theInvitersOtherDevicesDoNotRing() {
        let web = world.phone("alice/web")
        alice.cancel()
        alice.invite("bob")
        #expect(web.events.allSatisfy { $0.name == .created && $0.call.state == .ended })
    }
}
