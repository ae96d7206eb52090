import CallStore
import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// Profiles, registered users, and the history of calls (docs/protocol.md, section 2, Users and Queries).
struct UserTests {
    private func known(_ coordinators: Int = 1) -> World {
        var settings = ServiceSettings()
        settings.users = .known
        return World(coordinators: coordinators, settings)
    }

    @Test func aProfileIsShownToWhoIsCalledAndToWhoAsks() throws {
        let world = World(coordinators: 2)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        let updated = alice.request(.userUpdate(.init(name: "Alice", avatarURL: "https://x/a.png", extendedData: "e")))
        #expect(
            updated
                == .answer(
                    .user(
                        .init(
                            userID: alice.user, name: "Alice", avatarURL: "https://x/a.png", extendedData: "e",
                            isOnline: true))))
        alice.invite("bob")
        let member = try #require(bob.events.last?.call.member(alice.user))
        #expect([member.name, member.avatarURL] == ["Alice", "https://x/a.png"])
        #expect(bob.events.last?.call.member(bob.user)?.name == nil)
        let asked = bob.request(.userQuery(.init(userIDs: ["erin", "alice", "bob"].map { UserID($0)! })))
        #expect(
            asked
                == .answer(
                    .users(
                        [
                            .init(
                                userID: alice.user, name: "Alice", avatarURL: "https://x/a.png", extendedData: "e",
                                isOnline: true), .init(userID: bob.user, isOnline: true),
                        ], errors: [UserError(userID: UserID("erin")!, code: .userNotRegistered)])))
    }

    @Test func whatIsLeftOutStaysAndTheEmptyStringRemoves() {
        let world = World()
        let alice = world.phone("alice/phone")
        alice.request(.userUpdate(.init(name: "Alice", extendedData: "e")))
        let updated = alice.request(.userUpdate(.init(avatarURL: "u", extendedData: "")))
        #expect(
            updated == .answer(.user(.init(userID: alice.user, name: "Alice", avatarURL: "u", isOnline: true))))
    }

    @Test func theProfileIsTheOneOfTheTimeOfTheInvitation() {
        let world = World()
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        world.phone("carol/phone")
        alice.request(.userUpdate(.init(name: "Old")))
        alice.invite("bob", mode: .advanced)
        alice.request(.userUpdate(.init(name: "New")))
        bob.request(.userUpdate(.init(name: "Bob")))
        bob.reject()
        #expect(world.stored(CallID("c")!)?.member(alice.user)?.name == "Old")
        #expect(world.stored(CallID("c")!)?.member(bob.user)?.name == nil)
        alice.invite("carol", callID: "d", mode: .advanced)
        alice.add("bob", callID: "d")
        #expect(world.stored(CallID("d")!)?.member(alice.user)?.name == "New")
        #expect(world.stored(CallID("d")!)?.member(bob.user)?.name == "Bob")
    }

    @Test func registeredUsersOnlyMeansThatUnknownInviteesAreLeftOut() {
        let world = known(2)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        let outcome = alice.invite("erin", "bob", mode: .advanced, change: { _ in })
        let errors = [UserError(userID: UserID("erin")!, code: .userNotRegistered)]
        #expect(outcome?.success?.errors == errors)
        #expect(outcome?.success?.call.members.map(\.userID.string) == ["alice", "bob"])
        #expect(bob.names == [.invited])
        #expect(alice.add("erin")?.error?.code == .noInvitees)
        world.phone("carol/phone")
        #expect(alice.add("erin", "carol")?.success?.errors == errors)
        #expect(bob.invite("erin", "frank", callID: "d")?.error?.code == .noInvitees)
        #expect(world.stored(CallID("d")!) == nil)
        // A repeated request has the same outcome.
        let id = RequestID("again")!
        let first = bob.invite("erin", "alice", callID: "e", id: id)
        #expect(bob.invite("erin", "alice", callID: "e", id: id)?.success?.errors == first?.success?.errors)
        #expect(first?.success?.errors == errors)
    }

    @Test func oneBecomesKnownByAProfileAndStaysKnown() {
        let world = known()
        let alice = world.phone("alice/phone")
        world.stranger("erin/phone").request(.userUpdate(.init(name: "Erin")))
        #expect(alice.invite("erin")?.error == nil)
        let bob = world.phone("bob/phone")
        world.send([bob.presence(.offline(.logout), session: "s1")])
        world.pass(seconds: 3600)
        _ = world.memory.clean(limit: 100)
        #expect(alice.invite("bob", callID: "d")?.error == nil)
    }

    // MARK: call.query

    private func page(_ phone: Phone, _ count: Int? = nil, _ cursor: String? = nil) -> ([String], String)? {
        guard case .answer(.calls(let calls, let next))? = phone.request(.query(.init(count: count, cursor: cursor)))
        else { return nil }
        return (calls.map(\.callID.string), next)
    }

    @Test func aUsersCallsComeInPagesTheNewestFirst() throws {
        let world = World(coordinators: 3)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        for number in 1...5 {
            alice.invite(number == 2 ? "carol" : "bob", callID: "c\(number)")
            if number.isMultiple(of: 2) { alice.cancel("c\(number)") }
            world.pass(number == 3 ? 0 : 10)
        }
        // Two calls of the same millisecond stand by falling id.
        let all = ["c5", "c4", "c3", "c2", "c1"]
        let first = try #require(page(alice, 2))
        #expect(first.0 == Array(all[0..<2]))
        alice.invite("bob", callID: "newer")
        let second = try #require(page(alice, 2, first.1))
        #expect(second.0 == Array(all[2..<4]))
        let third = try #require(page(alice, 2, second.1))
        #expect(third.0 == ["c1"] && third.1 == "0")
        #expect(try #require(page(bob, nil, "0")).0 == ["newer", "c5", "c4", "c3", "c1"])
        #expect(try #require(page(world.phone("erin/phone"))) == ([], "0"))
    }

    @Test func aCursorThatIsNoneIsRefused() {
        let world = World()
        let alice = world.phone("alice/phone")
        for cursor in ["x", "1", "-1-c", "1-", "1-ü", "99999999999999999999-c", ""] {
            let outcome = alice.request(.query(.init(cursor: cursor)))
            #expect(outcome?.error?.code == .badRequest, "\(cursor)")
        }
    }

    @Test func aPageIsCutRatherThanTooLarge() throws {
        var settings = ServiceSettings()
        settings.limits.pair.burst = 50
        settings.quotas.pairInvitations = 50
        settings.limits.pairBytes.rate = 0
        settings.limits.calleeBytes.rate = 0
        settings.quotas.liveInvitations = 1_000
        let world = World(settings)
        let alice = world.phone("alice/phone")
        for number in 100...130 {
            alice.invite("a", "b", "c", "d", "e", "f", callID: "c\(number)") {
                $0.extendedData = String(repeating: "\u{1}", count: 2048)
            }
        }
        var seen: [String] = []
        var cursor: String? = nil
        var pages = 0
        while cursor != "0" {
            let (calls, next) = try #require(page(alice, 100, cursor))
            #expect(!calls.isEmpty)
            seen += calls
            cursor = next
            pages += 1
        }
        #expect(seen == (100...130).reversed().map { "c\($0)" })
        #expect(pages > 1)
    }
}

/// Rate limits (section 2).
struct RateLimitTests {
    @Test func beyondTheBurstARequestIsRefusedUntilItsTime() throws {
        var settings = ServiceSettings()
        settings.limits.requests = .init(rate: 10, burst: 3)
        let world = World(settings)
        let alice = world.phone("alice/phone")
        let web = world.phone("alice/web")
        let bob = world.phone("bob/phone")
        for phone in [alice, web, alice] { #expect(phone.get("c")?.error?.code == .callNotFound) }
        let refusal = try #require(web.get("c")?.error)
        #expect(refusal.code == .rateLimited)
        #expect(refusal.retryAfter == 100)
        #expect(bob.get("c")?.error?.code == .callNotFound)
        world.pass(99)
        #expect(alice.get("c")?.error?.retryAfter == 1)
        world.pass(1)
        #expect(alice.get("c")?.error?.code == .callNotFound)
        #expect(alice.get("c")?.error?.code == .rateLimited)
        world.pass(seconds: 10)
        #expect(
            (0..<4).map { _ in alice.get("c")?.error?.code } == [
                .callNotFound, .callNotFound, .callNotFound, .rateLimited,
            ])
    }

    @Test func nothingOfARefusedRequestIsDone() {
        var settings = ServiceSettings()
        settings.limits.requests = .init(rate: 1, burst: 1)
        settings.limits.invitations = .init(rate: 1, burst: 1)
        settings.limits.messages = .init(rate: 1, burst: 1)
        let world = World(settings)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        #expect(alice.invite("carol", callID: "x")?.call != nil)
        #expect(alice.get("x")?.call != nil, "invitations are another class")
        #expect(alice.get("x")?.error?.code == .rateLimited)
        #expect(alice.invite("bob")?.error?.code == .rateLimited)
        #expect(world.stored(CallID("c")!) == nil && bob.events.isEmpty)
        // Peer messages belong to another class; acks belong to none.
        let message = Request.Message(to: bob.user, data: JSONText("1")!)
        #expect(alice.request(.message(message))?.error == nil)
        #expect(alice.request(.message(message))?.error?.code == .rateLimited)
        #expect(alice.receipts.count == 1)
    }

    @Test func aClockThatIsSetBackKeepsNobodyWaiting() {
        var limits = RateLimits()
        limits.requests = .init(rate: 10, burst: 3)
        var limiter = RateLimiter(limits)
        let alice = UserID("alice")!
        #expect(limiter.admit(.requests(alice), now: 100_000) == nil)
        #expect(limiter.admit(.requests(alice), now: 40_000) == nil)
        #expect(limiter.admit(.requests(alice), now: 40_000) == nil)
        #expect(limiter.admit(.requests(alice), now: 40_000) == nil)
        #expect(limiter.admit(.requests(alice), now: 40_000) == 100)
    }

    @Test func zeroMeansWithoutLimitAndMemoryIsBounded() {
        var limits = RateLimits()
        limits.requests = .init(rate: 0, burst: 0)
        limits.signals = .init(rate: 1, burst: 1)
        var limiter = RateLimiter(limits)
        for _ in 0..<10_000 { #expect(limiter.admit(.requests(UserID("a")!), now: 0) == nil) }
        for number in 0...RateLimiter.capacity + 10 {
            #expect(limiter.admit(.signals(UserID("u\(number)")!), now: 0) == nil)
        }
        #expect(limiter.admit(.signals(UserID("u1")!), now: 0) == 1000)
        // A user whom the limiter could not count is counted once other users have rested.
        let last = UserID("u\(RateLimiter.capacity + 10)")!
        #expect(limiter.admit(.signals(last), now: 0) == nil)
        #expect(limiter.admit(.signals(last), now: 1000) == nil)
        #expect(limiter.admit(.signals(last), now: 1000) == 1000)
    }
}
