import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// A phone on a slow line, and a user who stays within every limit (docs/protocol.md, section 5, Slow devices; section
/// 2, Rate limits).
struct SlowDeviceTests {
    private func invitations(_ world: World, of callID: String, to topic: String = "bob/phone") -> [Milliseconds] {
        world.events(to: topic).filter { $0.event?.name == .invited && $0.event?.callID.string == callID }.map(\.at)
    }

    @Test func aSilentPhoneIsSentOneInvitationAgainTheOldest() {
        let world = World()
        let bob = world.phone("bob/phone", acks: false)
        for (place, caller) in ["a", "b", "d"].enumerated() {
            world.phone("\(caller)/phone").invite("bob", callID: caller)
            if place < 2 { world.pass(100) }
        }
        world.pass(seconds: 20)
        #expect(invitations(world, of: "a") == [1_000, 3_000, 7_000, 15_000])
        #expect(invitations(world, of: "b") == [1_100], "within the first second")
        #expect(invitations(world, of: "d") == [1_200])
        #expect(world.service.counters[.resendsHeldBack] > 0)
        let before = world.elapsed
        bob.ack(1, "a")
        for caller in ["b", "d"] { #expect(invitations(world, of: caller).last == before, "at once") }
    }

    @Test func anotherSessionIsSentEverythingAtOnce() {
        let world = World()
        let bob = world.phone("bob/phone", acks: false)
        for caller in ["a", "b", "d"] { world.phone("\(caller)/phone").invite("bob", callID: caller) }
        world.pass(seconds: 10)
        bob.comeOnline()
        #expect(bob.names == [.invited, .invited, .invited])
    }

    /// The phone reads nothing. A user invites the phone's user and other users once a second, and takes each call back
    /// at once.
    @Test func whatIsSentAgainDoesNotGrowWithWhatIsNotAcknowledged() {
        var settings = ServiceSettings()
        settings.limits.pairBytes = .init(rate: 0, burst: 0)
        settings.limits.calleeBytes = .init(rate: 0, burst: 0)
        let world = World(settings)
        world.phone("bob/phone", acks: false)
        let mallory = world.phone("mallory/phone")
        for number in 0..<49 {
            mallory.invite("bob", "u1", "u2", "u3", "u4", callID: "c\(number)") {
                $0.extendedData = String(repeating: "\u{1}", count: 2_000)
            }
            mallory.cancel("c\(number)")
            world.pass(seconds: 1)
        }
        let again = world.events(to: "bob/phone")
        let bytes = again.reduce(0) { $0 + $1.payload.count }
        #expect(
            bytes < ResendPacing.burst + 49 * ResendPacing.rate + 49 * 13_000, "\(again.count) resends, \(bytes) bytes")
        world.phone("friend/phone").invite("bob", callID: "friend")
        #expect(world.published.contains { $0.topic == "bob" && $0.event?.callID.string == "friend" })
    }

    @Test func fiveInvitationsOfAUserRingAtAnother() {
        let world = World(coordinators: 3)
        world.phone("bob/phone")
        let mallory = world.phone("mallory/phone")
        for number in 0..<5 { #expect(mallory.invite("bob", callID: "c\(number)")?.call != nil) }
        let refused = mallory.invite("bob", callID: "one-more")?.error
        #expect(refused?.code == .rateLimited && refused?.retryAfter == 5_000)
        let others = mallory.invite("bob", "carol", callID: "with-carol")?.success
        #expect(others?.errors.map(\.code) == [.rateLimited])
        #expect(others?.call.members.map(\.userID) == userIDs("mallory", "carol"))
        #expect(world.phone("friend/phone").invite("bob", callID: "friend")?.call != nil, "others have theirs")
        mallory.cancel("c3")
        #expect(mallory.invite("bob", callID: "again")?.call != nil)
        #expect(world.services.reduce(0) { $0 + $1.counters[.limited, "pairInvitations"] } == 2)
    }

    @Test func anAdditionCountsAsWell() {
        let world = World()
        let mallory = world.phone("mallory/phone")
        for number in 0..<4 { mallory.invite("bob", callID: "c\(number)") }
        #expect(mallory.invite("carol", mode: .advanced)?.call != nil)
        world.phone("carol/phone").accept()
        #expect(mallory.add("bob")?.call != nil)
        #expect(mallory.invite("bob", callID: "one-more")?.code == .rateLimited)
    }

    /// The service judges each request of a batch alone.
    @Test func invitationsOfOneBatchCount() {
        let world = World()
        let mallory = world.phone("mallory/phone")
        world.send(
            (0..<16).map { mallory.up(.invite(.init(invitees: userIDs("bob"), callID: CallID("c\($0)")!))) })
        #expect(mallory.responses.count { $0.outcome.call != nil } == 5)
        #expect(mallory.responses.count { $0.outcome.code == .rateLimited } == 11)
    }

    @Test func theBytesThatAUsersCallsSendToAnotherAreBounded() {
        let world = World()
        let bob = world.phone("bob/phone")
        let mallory = world.phone("mallory/phone")
        var refused: SignalingError?
        var calls = 0
        for number in 0..<20 where refused == nil {
            refused =
                mallory.invite("bob", callID: "c\(number)") {
                    $0.extendedData = String(repeating: "\u{1}", count: 2_000)
                }?.error
            mallory.cancel("c\(number)")
            calls += 1
        }
        #expect(refused?.code == .rateLimited)
        let bytes = world.published.filter { $0.topic.hasPrefix("bob") }.reduce(0) { $0 + $1.payload.count }
        #expect((48_000..<70_000).contains(bytes), "\(bytes) bytes in \(calls) calls")
        #expect(world.phone("friend/phone").invite("bob", callID: "friend")?.call != nil, "others have theirs")
        #expect(mallory.invite("carol", callID: "carol")?.call != nil, "another user has room")
        world.pass(seconds: 20)
        #expect(mallory.invite("bob", callID: "later")?.call != nil)
        #expect(bob.names.contains(.invited))
    }

    /// Ten users who send as much as each of them may leave little of a line. A user who has sent nothing lately gets
    /// through all the same.
    @Test func theBytesThatAllOthersSendToAUserAreBounded() {
        let world = World()
        let bob = world.phone("bob/phone")
        let nuisances = (0..<10).map { world.phone("n\($0)/phone") }
        let heavy = String(repeating: "\u{1}", count: 2_000)
        for round in 0..<4 {
            for (place, phone) in nuisances.enumerated() {
                phone.invite("bob", callID: "c\(round)-\(place)") { $0.extendedData = heavy }
                phone.cancel("c\(round)-\(place)")
            }
        }
        let bytes = world.published.filter { $0.topic.hasPrefix("bob") }.reduce(0) { $0 + $1.payload.count }
        #expect((80_000..<130_000).contains(bytes), "\(bytes) bytes")
        let friend = world.phone("friend/phone")
        let large = friend.invite("bob", callID: "large") { $0.extendedData = heavy }?.error
        #expect(large?.code == .rateLimited && large?.retryAfter ?? 0 > 0)
        #expect(friend.invite("bob", callID: "friend")?.call != nil)
        #expect(bob.events.last?.callID.string == "friend")
        #expect(world.service.counters[.limited, "calleeBytes"] > 0)
        world.pass(seconds: 20)
        #expect(friend.invite("bob", callID: "later") { $0.extendedData = heavy }?.call != nil)
    }

    /// A live call can be made to tell its members again and again.
    @Test func aLiveCallSendsAnotherNoMoreThanMayBe() {
        let world = World()
        let bob = world.phone("bob/phone")
        let mallory = world.phone("mallory/phone")
        let heavy = String(repeating: "\u{1}", count: 2_000)
        mallory.invite("bob", mode: .advanced) {
            $0.extendedData = heavy
            $0.autoEnd = false
            $0.timeout = 600
        }
        for round in 0..<300 {
            mallory.request(
                .add(.init(callID: callID, invitees: userIDs("u\(round % 5)"), extendedData: heavy)))
            mallory.cancel(invitees: ["u\(round % 5)"])
            mallory.request(.quit(.init(callID: callID)))
            mallory.join()
        }
        let bytes = world.published.filter { $0.topic.hasPrefix("bob") }.reduce(0) { $0 + $1.payload.count }
        #expect(bytes < 200_000, "\(bytes) bytes")
        #expect(world.service.counters[.limited, "pairBytes"] > 100)
        #expect(bob.accept()?.call != nil, "the call lives")
        world.pass(seconds: 60)
        #expect(mallory.join()?.call != nil)
        #expect(mallory.end()?.call?.state == .ended, "and ends")
    }

    /// A phone that comes online is sent all its waiting messages, at the pace of its acks.
    @Test func waitingMessagesComeAtThePaceOfTheirAcks() {
        var settings = ServiceSettings()
        settings.limits.calleeBytes = .init(rate: 0, burst: 0)
        let world = World(settings)
        let data = JSONText("\"" + String(repeating: "x", count: 16_000) + "\"")!
        for sender in 0..<10 {
            for number in 0..<3 {
                let message = Request.Message(
                    to: UserID("bob")!, data: data, ttl: 600, messageID: MessageID("m\(sender)-\(number)")!)
                #expect(world.phone("s\(sender)/phone").request(.message(message))?.error == nil)
            }
        }
        let bob = world.phone("bob/phone", acks: false)
        #expect(bob.messages.count == 2 || bob.messages.count == 3, "32,000 bytes")
        bob.acks = true
        for message in bob.messages { world.send([bob.up(.ackMessage(message.messageID))]) }
        #expect(bob.messages.count == 30, "without waiting for any schedule")
    }

    @Test func messagesThatWaitForAnotherAreBoundedInBytes() {
        let world = World()
        let bob = world.phone("bob/phone", acks: false)
        let mallory = world.phone("mallory/phone")
        func send(_ number: Int) -> Response.Outcome? {
            let data = JSONText("\"" + String(repeating: "x", count: 16_000) + "\"")!
            return mallory.request(
                .message(.init(to: bob.user, data: data, messageID: MessageID("m\(number)")!)))
        }
        let outcomes = (0..<6).map(send)
        #expect(outcomes.map { $0?.code } == [nil, nil, nil, .rateLimited, .rateLimited, .rateLimited])
        #expect((outcomes[3]?.error?.retryAfter).map { $0 > 0 && $0 < 10_000 } ?? false)
        for number in 0..<3 { world.send([bob.up(.ackMessage(MessageID("m\(number)")!))]) }
        #expect(send(6)?.error == nil, "what was read counts no more")
        // A user whose device reads as fast as messages come is sent as much as ever.
        bob.acks = true
        for number in 10..<100 { #expect(send(number)?.error == nil) }
        #expect(bob.messages.count == 94)
    }
}
