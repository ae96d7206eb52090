import CallStore
import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// The limits of a device, of a pair of users and of an invitee (docs/protocol.md, section 2, Rate limits).
struct LimitTests {
    private func world(_ change: (inout RateLimits) -> Void) -> World {
        var settings = ServiceSettings()
        change(&settings.limits)
        return World(settings)
    }

    @Test func whoInvitesAnotherTooOftenIsToldToWait() {
        let world = world { $0.pair = .init(rate: 1, burst: 2) }
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        for id in ["a", "b"] { #expect(alice.invite("bob", callID: id)?.call != nil) }
        let refused = alice.invite("bob", callID: "c")?.error
        #expect(refused?.code == .rateLimited)
        #expect(refused?.retryAfter == 1000)
        #expect(alice.invite("carol", callID: "d")?.call != nil, "others may be invited")
        #expect(world.phone("erin/phone").invite("bob", callID: "e")?.call != nil, "and others may invite")
        world.pass(1000)
        #expect(alice.invite("bob", callID: "c")?.call != nil)
        #expect(bob.events.filter { $0.name == .invited }.map(\.callID.string).suffix(2) == ["e", "c"])
    }

    @Test func whoIsInvitedTooOftenIsLeftInPeace() {
        let world = world { $0.callee = .init(rate: 1, burst: 3) }
        world.phone("bob/phone")
        for number in 0..<3 {
            #expect(world.phone("u\(number)/phone").invite("bob", callID: "c\(number)")?.call != nil)
        }
        let late = world.phone("late/phone")
        #expect(late.invite("bob", callID: "late")?.code == .rateLimited)
        // In a group call the other invitees ring.
        let group = late.invite("bob", "carol", callID: "group")?.success
        #expect(group?.errors == [UserError(userID: UserID("bob")!, code: .rateLimited)])
        #expect(group?.call.members.map(\.userID) == userIDs("late", "carol"))
    }

    @Test func anAdditionIsAnInvitation() {
        let world = world { $0.pair = .init(rate: 1, burst: 1) }
        let alice = world.phone("alice/phone")
        let carol = world.phone("carol/phone")
        alice.invite("carol", mode: .advanced)
        carol.accept()
        #expect(alice.add("bob")?.call?.state(of: "bob") == .inviting)
        alice.cancel("c", invitees: ["bob"])
        #expect(alice.add("bob")?.code == .rateLimited)
        #expect(alice.add("bob", "erin")?.success?.errors == [UserError(userID: UserID("bob")!, code: .rateLimited)])
        // A stranger does not learn that the call exists.
        let erin = world.phone("mallory/phone")
        #expect(erin.add("bob")?.code == .callNotFound)
        #expect(erin.add("bob")?.code == .callNotFound)
    }

    @Test func aResendOfWhatSucceededIsNotHeldAgainstTheLimit() {
        let world = world { $0.pair = .init(rate: 1, burst: 1) }
        let alice = world.phone("alice/phone")
        let id = RequestID("same")!
        #expect(alice.invite("bob", id: id)?.call != nil)
        #expect(alice.invite("bob", id: id)?.call != nil)
    }

    @Test func aDeviceThatFloodsIsAnsweredAndKeepsNobodyElseFromAnything() {
        let world = world { $0.device = .init(rate: 10, burst: 5) }
        let mallory = world.phone("mallory/phone")
        let second = world.phone("mallory/web")
        for _ in 0..<5 { world.send("bellwire/v1/up/mallory/phone", "garbage") }
        let before = world.published.count
        world.send("bellwire/v1/up/mallory/phone", "garbage")
        guard case .error(let error)? = world.published[before...].first?.message else {
            Issue.record("nothing goes unanswered")
            return
        }
        #expect(error.code == .rateLimited && error.retryAfter == 100)
        #expect(mallory.get("x")?.code == .rateLimited)
        mallory.heartbeat()
        mallory.ack(1)
        #expect(world.service.counters[.messagesRefused, ErrorCode.rateLimited.rawValue] == 3)
        #expect(second.get("x")?.code == .callNotFound, "the user's other device is free")
        world.pass(1000)
        #expect(mallory.get("x")?.code == .callNotFound)
    }

    @Test func aDeviceThatFlapsIsWelcomedWhenItRests() {
        let world = world { $0.presence = .init(rate: 1, burst: 3) }
        let phone = world.phone("alice/phone")
        for number in 0..<1_000 {
            world.send([phone.presence(number % 2 == 0 ? .offline(.lost) : .online, session: "s\(number)")])
        }
        #expect(phone.welcomes.count <= 3)
        world.pass(5_000)
        phone.comeOnline(as: "after")
        #expect(phone.welcomes.last?.session == "after")
    }

    /// The limits do not count an invitation that is not made.
    @Test func whoIsInTheCallAlreadyIsNotInvitedAgain() {
        let world = world { $0.pair = .init(rate: 1, burst: 3) }
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob", mode: .advanced)
        bob.accept()
        for number in 0..<5 { #expect(alice.add("bob", "u\(number)")?.success?.errors.count == 1) }
        alice.request(.end(.init(callID: callID)))
        for number in 0..<2 { #expect(alice.invite("bob", callID: "c\(number)")?.call != nil) }
        #expect(alice.invite("bob", callID: "d")?.code == .rateLimited)
    }

    @Test func whomNobodyKnowsIsNotInvited() {
        var settings = ServiceSettings()
        settings.users = .known
        settings.limits.pair = .init(rate: 1, burst: 2)
        let world = World(settings)
        let alice = world.phone("alice/phone")
        for number in 0..<5 {
            world.phone("u\(number)/phone")
            let outcome = alice.invite("bob", "u\(number)", callID: "c\(number)")
            #expect(outcome?.success?.errors.map(\.code) == [.userNotRegistered])
        }
        world.phone("bob/phone")
        for number in 0..<2 { #expect(alice.invite("bob", callID: "d\(number)")?.call != nil) }
    }

    /// To put a list right, the service loads all that the list holds. The service therefore must not check a list of
    /// live calls each time.
    @Test func aListInWhichNothingIsWrongIsNotPutRightEachTime() {
        var front: FaultyStore?
        let world = World {
            front = FaultyStore($0)
            return front!
        }
        let bob = world.phone("bob/phone")
        for number in 0..<51 {
            world.phone("u\(number)/phone").invite("bob", callID: "c\(number)") { $0.timeout = 120 }
        }
        for _ in 0..<5 {
            world.pass(1000)
            bob.republishPresence()
        }
        #expect(bob.welcomes.last?.calls.count == 50)
        #expect(front?.tidied == [bob.user])
        world.pass(seconds: 10)
        bob.republishPresence()
        #expect(front?.tidied == [bob.user, bob.user])
    }

    @Test func theUserWhoMeetsLimitsMostOftenIsNamed() {
        let world = world { $0.invitations = .init(rate: 1, burst: 1) }
        let (alice, mallory) = (world.phone("alice/phone"), world.phone("mallory/phone"))
        for id in 0..<3 { alice.invite("bob", callID: "a\(id)") }
        for id in 0..<9 { mallory.invite("bob", callID: "m\(id)") }
        let most = world.service.takeMostLimited()
        #expect(most?.user == mallory.user && most?.limit == "invitations")
        #expect(most?.count == 8)
        #expect(world.service.takeMostLimited() == nil, "counting begins anew")
    }

    /// The user is named also for invitations to another user, which the service counts while it decides a request.
    @Test func aUserWhoInvitesAnotherTooOftenIsNamed() {
        let world = world { $0.pair = .init(rate: 1, burst: 2) }
        let mallory = world.phone("mallory/phone")
        for id in 0..<5 { mallory.invite("bob", callID: "m\(id)") }
        let most = world.service.takeMostLimited()
        #expect(most?.user == mallory.user && most?.limit == "pair" && most?.count == 3)
    }
}
