import CallStore
import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// How much a user may make the service hold (docs/protocol.md, section 2, Rate limits).
struct QuotaTests {
    /// Makes as many invitations of alice as may be live, at two coordinators in turn. No phone is there to ring.
    private func full(_ change: (Phone) -> Void = { _ in }) -> (World, Phone) {
        let world = World(coordinators: 2)
        let alice = world.phone("alice/phone")
        for number in 0..<100 {
            #expect(alice.invite("u\(number)", callID: "c\(number)") { $0.timeout = 60 }?.call != nil)
        }
        // The pause ends the effect of the rate limit, which this test is not about.
        world.pass(1_000)
        return (world, alice)
    }

    @Test func noMoreThanAHundredInvitationsOfAUserAreLive() {
        let (world, alice) = full()
        let refused = alice.invite("bob")?.error
        #expect(refused?.code == .rateLimited)
        #expect(refused?.retryAfter == 5_000)
        #expect(world.stored(callID) == nil)
        #expect(world.phone("carol/phone").invite("bob", callID: "other")?.call != nil, "others have theirs")
        #expect(world.services.map { $0.counters[.limited, "liveInvitations"] }.reduce(0, +) == 1)
    }

    @Test(arguments: ["cancelled", "accepted", "rejected"])
    func anInvitationThatIsAnsweredOrTakenBackMakesRoom(how: String) {
        let (world, alice) = full()
        switch how {
        case "cancelled": alice.cancel("c0")
        case "accepted": world.phone("u0/phone").accept("c0")
        default: world.phone("u0/phone").reject("c0")
        }
        #expect(alice.invite("bob")?.call != nil)
        #expect(alice.invite("carol", callID: "d")?.code == .rateLimited)
    }

    @Test func anInvitationThatExpiresMakesRoom() {
        let (world, alice) = full()
        world.pass(seconds: 59)
        #expect(alice.invite("bob")?.call != nil)
    }

    @Test func eachInviteeCounts() {
        let world = World()
        let alice = world.phone("alice/phone")
        for call in 0..<11 {
            let invitees = (0..<9).map { UserID("u\(call)-\($0)")! }
            let invite = Request.Invite(invitees: invitees, callID: CallID("c\(call)")!)
            #expect(alice.request(.invite(invite))?.call != nil)
        }
        #expect(alice.invite("bob", "carol")?.code == .rateLimited)
        #expect(alice.invite("bob")?.call != nil)
    }

    @Test func anAdditionCounts() {
        let (world, alice) = full()
        alice.cancel("c0")
        let bob = world.phone("bob/phone")
        #expect(alice.invite("bob", mode: .advanced)?.call != nil)
        bob.accept()
        #expect(alice.add("carol")?.call != nil)
        #expect(alice.add("dave")?.code == .rateLimited)
        #expect(bob.add("dave")?.call != nil, "it counts with who adds")
    }

    @Test func aResendIsAnsweredWhateverIsLive() {
        let (world, alice) = full()
        defer { withExtendedLifetime(world) {} }
        let id = RequestID("same")!
        alice.cancel("c0")
        #expect(alice.invite("bob", id: id)?.call != nil)
        #expect(alice.invite("bob", id: id)?.call != nil)
    }

    @Test func whoIsBlockedIsCountedLikeOthers() {
        let world = World()
        let alice = world.phone("alice/phone")
        for number in 0..<100 {
            world.phone("u\(number)/phone").request(.userBlock(.init(userID: alice.user, isBlocked: true)))
            #expect(alice.invite("u\(number)", callID: "c\(number)")?.call != nil)
        }
        world.pass(1_000)
        #expect(alice.invite("bob")?.code == .rateLimited)
    }

    // MARK: Messages

    @Test func noMoreThanAHundredMessagesOfAUserWait() {
        let world = World(coordinators: 2)
        let alice = world.phone("alice/phone")
        func send(_ number: Int) -> ErrorCode? {
            let message = Request.Message(
                to: UserID("u\(number % 50)")!, data: JSONText("1")!, messageID: MessageID("m\(number)")!)
            return alice.request(.message(message))?.code
        }
        for number in 0..<100 { #expect(send(number) == nil) }
        #expect(send(100) == .rateLimited)
        #expect(send(99) == nil, "one that was sent is no further one")
        // The two messages to u0 are delivered.
        world.phone("u0/phone")
        #expect(send(101) == nil)
        #expect(send(102) == nil)
        #expect(send(103) == .rateLimited)
        world.pass(seconds: 31)
        #expect(send(104) == nil)
        #expect(world.services.map { $0.counters[.limited, "waitingMessages"] }.reduce(0, +) == 2)
    }

    @Test func messagesOfOneBatchAreCountedToo() {
        let world = World()
        let alice = world.phone("alice/phone")
        let batch = (0..<120).map { number in
            alice.up(.message(.init(to: UserID("u\(number)")!, data: JSONText("1")!, messageID: MessageID("m")!)))
        }
        world.send(batch)
        #expect(alice.responses.count { $0.outcome.code == .rateLimited } == 20)
    }

    // MARK: Stored bytes

    private func world(storedBytes: Int) -> World {
        var settings = ServiceSettings()
        settings.historyRetention = 86_400_000
        settings.quotas.storedBytes = storedBytes
        settings.limits.pairBytes.rate = 0
        settings.limits.calleeBytes.rate = 0
        return World(settings)
    }

    /// Makes calls and takes them back until a call is refused; returns the number of calls. The service writes the
    /// room of the calls every second.
    private func calls(of alice: Phone, in world: World, every pause: Milliseconds = 1_000) -> Int {
        for number in 0..<100 {
            let outcome = alice.invite("u\(number)", callID: "c\(world.elapsed)")
            guard outcome?.call != nil else {
                #expect(outcome?.code == .rateLimited)
                #expect(outcome?.error?.retryAfter == 60_000)
                return number
            }
            alice.cancel("c\(world.elapsed)")
            world.pass(pause)
        }
        return 100
    }

    @Test func theCallsOfAUserTakeNoMoreRoomThanTheyMay() {
        let world = world(storedBytes: 50_000)
        let alice = world.phone("alice/phone")
        let made = calls(of: alice, in: world)
        #expect((10..<40).contains(made), "\(made) calls")
        #expect(world.phone("bob/phone").invite("u1", callID: "other")?.call != nil, "others have their own")
        #expect(world.service.counters[.limited, "storedBytes"] == 1)
    }

    @Test func whatIsNotWrittenYetIsCounted() {
        let world = world(storedBytes: 50_000)
        // All calls are made within the second after which the service writes their room.
        let made = calls(of: world.phone("alice/phone"), in: world, every: 1)
        #expect((10..<40).contains(made), "\(made) calls")
    }

    @Test func whatIsForgottenMakesRoom() {
        let world = world(storedBytes: 50_000)
        let alice = world.phone("alice/phone")
        let made = calls(of: alice, in: world)
        // After twice the time for which the service keeps calls, these calls and their count are gone.
        world.clock.now += 2 * 86_400_000
        world.pass(seconds: 10)
        alice.republishPresence()
        let again = calls(of: alice, in: world)
        #expect(abs(again - made) <= 1)
    }

    @Test func aLongTimelineIsCountedWithWhoMadeTheCallAndOnlyAsFarAsItIsKept() {
        let world = world(storedBytes: 100_000)
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob")
        for _ in 0..<500 { bob.get() }
        world.pass(1_000)
        #expect(alice.invite("carol", callID: "d")?.call != nil, "two hundred entries are kept")
        for number in 0..<2 {
            alice.invite("bob", callID: "e\(number)")
            for _ in 0..<200 { bob.get("e\(number)") }
        }
        world.pass(1_000)
        #expect(alice.invite("carol", callID: "f")?.code == .rateLimited)
        #expect(bob.invite("carol", callID: "g")?.call != nil)
    }

    /// The service keeps a call that was cancelled before its invite came like other calls.
    @Test func aCallThatRingsNobodyTakesRoomToo() {
        let world = world(storedBytes: 50_000)
        let alice = world.phone("alice/phone")
        func made(_ number: Int) -> ErrorCode? {
            alice.cancel("c\(number)")
            defer { world.pass(1_000) }
            return alice.invite("u\(number)", callID: "c\(number)")?.code
        }
        var count = 0
        while count < 100, made(count) == nil { count += 1 }
        #expect((10..<60).contains(count), "\(count) calls")
        #expect(made(100) == .rateLimited)
    }

    /// A member leaves and joins again and again, and sends extended data with each `call.quit`.
    @Test func whatIsKeptNoMoreIsNotCounted() {
        let world = world(storedBytes: 50_000)
        let alice = world.phone("alice/phone")
        let others = ["bob", "carol"].map { world.phone("\($0)/phone") }
        alice.invite("bob", "carol", mode: .advanced)
        others.forEach { $0.accept() }
        let long = String(repeating: "x", count: 2_000)
        for _ in 0..<100 {
            #expect(others[0].request(.quit(.init(callID: callID, extendedData: long)))?.call != nil)
            #expect(others[0].join()?.call != nil)
            // The member goes to and fro twice within the second after which the service writes the room.
            world.pass(500)
        }
        alice.request(.end(.init(callID: callID)))
        #expect(alice.invite("dave", callID: "d")?.call != nil)
    }
}
