import CallCore
import Coordinator
import SignalingProtocol
import Testing

/// "A repeated request that succeeded changes nothing, however late it comes, and gets the same outcome. A
/// request that was refused is judged again." (docs/protocol.md, section 2).
struct IdempotencyTests {
    let world = World()
    let alice: Phone
    let bob: Phone

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
        _ = world.lines()
    }

    private let id = RequestID("again")!

    @Test func aResentInviteRingsOnce() {
        let first = alice.invite("bob", "carol", id: id)
        #expect(first?.success?.offline == userIDs("carol"))
        _ = world.lines()
        let carol = world.phone("carol/phone")
        _ = world.lines()
        let second = alice.invite("bob", "carol", id: id)
        #expect(second?.success?.offline == [carol.user], "the outcome is that of the first time")
        #expect(second?.call?.revision == 3, "the call is as it is now")
        #expect(world.lines() == ["alice/phone ok 3"])
    }

    @Test func aResentInviteIsKnownAfterTheCallEnded() {
        alice.invite("bob", id: id)
        bob.accept()
        world.pass(seconds: 3600)
        _ = world.lines()
        #expect(alice.invite("bob", id: id)?.call?.state == .ended)
        #expect(world.lines().count == 1)
    }

    @Test func withoutACallIDAResendIsTheSameCall() throws {
        let invite = Request.Body.invite(.init(invitees: [bob.user]))
        let first = try #require(alice.request(invite, id: id)?.call)
        let second = try #require(alice.request(invite, id: id)?.call)
        #expect(first.callID == second.callID)
        #expect(first.callID.string.count == 32)
        #expect(first.callID.string.allSatisfy { "0123456789abcdef".contains($0) })
        #expect(bob.names == [.invited])
    }

    @Test func derivedCallIDsDifferByUserDeviceAndRequest() {
        let web = world.phone("alice/web")
        let carol = world.phone("carol/phone")
        let invite = Request.Body.invite(.init(invitees: [bob.user]))
        let ids = [
            alice.request(invite, id: id), alice.request(invite, id: RequestID("other")!), web.request(invite, id: id),
            carol.request(invite, id: id),
        ].compactMap { $0?.call?.callID }
        #expect(Set(ids).count == 4)
    }

    @Test func aDerivedCallIDIsTheSameAtEveryCoordinator() {
        let other = World(coordinators: 2)
        let phone = other.phone("alice/phone")
        let invite = Request.Body.invite(.init(invitees: [bob.user]))
        #expect(phone.request(invite, id: id)?.call?.callID == alice.request(invite, id: id)?.call?.callID)
    }

    @Test func aRepeatedAcceptSucceedsAgain() {
        alice.invite("bob", mode: .advanced)
        let first = bob.accept(id: id)
        _ = world.lines()
        #expect(bob.accept(id: id) == first)
        #expect(world.lines() == ["bob/phone ok 3"])
        #expect(bob.accept()?.code == .invalidState, "another request is judged by itself")
    }

    @Test func aRepeatedRequestWithErrorsHasTheSameErrors() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", "carol")
        carol.reject()
        let cancel = Request.Body.cancel(.init(callID: callID, invitees: [bob.user, carol.user]))
        let first = alice.request(cancel, id: id)
        #expect(first?.success?.errors == [UserError(userID: carol.user, code: .invalidState)])
        #expect(alice.request(cancel, id: id) == first)
    }

    /// A backend that uses the same Idempotency-Key for all its requests sends these.
    @Test func anIDThatWasUsedForAnotherRequestDoesNotPassForIt() {
        alice.invite("bob", id: id, mode: .advanced)
        #expect(alice.cancel(id: id)?.code == .badRequest, "the invite's")
        #expect(bob.accept(id: id)?.success != nil, "another device's ids are others")
        let end = bob.request(.end(.init(callID: callID)), id: id)
        #expect(end?.code == .badRequest && end?.error?.message.contains("call.accept") ?? false)
        #expect(world.stored(callID)?.state == .active)
    }

    /// A backend that uses the same Idempotency-Key for two orders sends these.
    @Test(arguments: ["c", nil])
    func anInviteWithOtherContentDoesNotPassForTheFirst(_ name: String?) {
        func invite(_ users: String..., change: (inout Request.Invite) -> Void = { _ in }) -> Response.Outcome? {
            var invite = Request.Invite(invitees: users.map { UserID($0)! }, callID: name.map { CallID($0)! })
            change(&invite)
            return alice.request(.invite(invite), id: id)
        }
        let call = invite("bob")?.call?.callID
        _ = world.lines()
        for other in [
            invite("carol"), invite("bob", "carol"), invite("bob") { $0.mode = .advanced },
            invite("bob") { $0.extendedData = "" }, invite("bob") { $0.timeout = 61 },
            invite("bob") { $0.push = .init(title: "t") },
        ] {
            #expect(other?.code == .badRequest && other?.error?.isIDUsed ?? false)
        }
        #expect(world.lines().allSatisfy { $0.contains("badRequest") }, "nothing is done")
        #expect(call != nil && invite("bob")?.call?.callID == call, "the first one is answered as before")
    }

    @Test func anotherRequestOfTheSameTypeDoesNotPassForTheFirst() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", "carol", mode: .advanced)
        bob.accept()
        func add(_ user: String) -> Response.Outcome? {
            alice.request(.add(.init(callID: callID, invitees: userIDs(user))), id: id)
        }
        #expect(add("dave")?.success != nil)
        #expect(add("erin")?.code == .badRequest)
        #expect(add("dave")?.success?.offline == userIDs("dave"))
        let reject = RequestID("reject")!
        #expect(carol.request(.reject(.init(callID: callID, reason: "busy")), id: reject)?.success != nil)
        #expect(carol.request(.reject(.init(callID: callID)), id: reject)?.code == .badRequest)
        #expect(carol.request(.reject(.init(callID: callID, reason: "busy")), id: reject)?.success != nil)
        let cancel = RequestID("cancel")!
        #expect(alice.cancel(id: cancel, invitees: ["dave"])?.success != nil)
        #expect(alice.cancel(id: cancel)?.code == .badRequest)
        let end = RequestID("end")!
        #expect(alice.request(.end(.init(callID: callID, reason: "one")), id: end)?.success != nil)
        #expect(alice.request(.end(.init(callID: callID, reason: "two")), id: end)?.code == .badRequest)
        #expect(world.stored(callID)?.member(UserID("erin")!) == nil)
    }

    @Test func anotherInviteIsKnownAsSuchAlsoAfterManyOtherRequests() {
        alice.invite("bob", id: id, mode: .advanced)
        bob.accept()
        for round in 0..<20 {
            if round % 2 == 0 { alice.add("carol") } else { alice.cancel(invitees: ["carol"]) }
        }
        #expect(alice.invite("dave", id: id, mode: .advanced)?.code == .badRequest)
        #expect(alice.invite("bob", id: id, mode: .advanced)?.success != nil)
    }

    @Test func anotherInviteDoesNotPassForOneThatWasMerged() {
        bob.invite("alice", callID: "b", mode: .advanced)
        func merge(_ data: String) -> Response.Outcome? {
            alice.invite("bob", callID: "a", id: id) {
                $0.glare = .merge
                $0.extendedData = data
            }
        }
        #expect(merge("one")?.success?.merged == true)
        #expect(merge("two")?.code == .badRequest)
        #expect(merge("one")?.success?.merged == true)
    }

    /// The invite that is committed first is the request of this id; the service judges the other invite again.
    @Test func ofTwoInvitesInOneBatchTheFirstCounts() {
        let invites = ["bob", "carol", "bob"].map { user in
            alice.up(.invite(.init(invitees: userIDs(user), callID: callID)), id: id)
        }
        world.send(invites)
        #expect(world.lines().filter { $0 == "alice/phone ok 1" }.count == 2)
        #expect(world.events(to: "carol").isEmpty)
    }

    @Test func aRefusedRequestMayComeAgainWithOtherContent() {
        #expect(alice.cancel(id: id, invitees: ["bob"])?.code == .callNotFound)
        #expect(alice.invite("alice", callID: "e", id: id)?.code == .badRequest)
        #expect(alice.invite("bob", callID: "e", id: id)?.success != nil)
    }

    @Test func aRefusedRequestIsJudgedAgain() {
        #expect(bob.accept(id: id)?.code == .callNotFound)
        alice.invite("bob")
        #expect(bob.accept(id: id)?.call?.state == .ended)
    }

    @Test(arguments: [(15, true), (16, false)])
    func sixteenRequestsOfADeviceAreRemembered(_ others: Int, _ isRemembered: Bool) {
        let add = Request.Body.add(.init(callID: callID, invitees: userIDs("dave")))
        alice.invite("bob", mode: .advanced)
        #expect(alice.request(add, id: id)?.success?.offline == userIDs("dave"))
        for round in 0..<others {
            if round % 2 == 0 { alice.add("carol") } else { alice.cancel(invitees: ["carol"]) }
        }
        let again = alice.request(add, id: id)
        #expect((again?.success != nil) == isRemembered)
        if !isRemembered { #expect(again?.code == .noInvitees, "judged again, and Dave is in the call") }
    }

    @Test func anInviteIsKnownAlsoAfterManyOtherRequests() {
        alice.invite("bob", id: id, mode: .advanced)
        bob.accept()
        for round in 0..<20 {
            if round % 2 == 0 { alice.add("carol") } else { alice.cancel(invitees: ["carol"]) }
        }
        let revision = world.stored(callID)?.revision
        let again = alice.invite("bob", id: id, mode: .advanced)
        #expect(again?.call?.revision == revision)
        #expect(world.stored(callID)?.revision == revision)
    }

    @Test func aRequestRepeatedWithinOneBatchIsAnsweredTwiceAndDoneOnce() {
        let invite = alice.up(.invite(.init(invitees: [bob.user], callID: callID)), id: id)
        world.send([invite, invite, invite])
        #expect(world.lines().filter { $0 == "alice/phone ok 1" }.count == 3)
        #expect(world.events(to: "bob").count == 1)
    }

    @Test func theSameRequestIDOfAnotherDeviceIsAnotherRequest() {
        let web = world.phone("alice/web")
        alice.invite("bob", id: id)
        #expect(web.invite("bob", id: id)?.code == .callExists)
        #expect(bob.invite("alice", id: id)?.code == .callExists)
    }

    @Test func anotherInviteUnderAUsedIDIsRefused() {
        alice.invite("bob")
        #expect(alice.invite("bob")?.code == .callExists)
        #expect(alice.invite("carol")?.code == .callExists)
        bob.accept()
        #expect(alice.invite("bob")?.code == .callExists, "also once it ended")
    }

    @Test func aBadInviteIsBadAlsoUnderAUsedID() {
        alice.invite("bob")
        #expect(alice.invite("alice")?.code == .badRequest, "fields are checked before the call")
    }

    @Test func aResendAtAnotherCoordinatorIsTheSameRequest() {
        let world = World(coordinators: 3)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        for _ in 0..<5 { #expect(alice.invite("bob", id: id)?.success != nil) }
        for _ in 0..<5 { #expect(bob.accept(id: RequestID("a1")!)?.call?.state == .ended) }
        #expect(world.events(to: "bob").count == 1)
    }
}
