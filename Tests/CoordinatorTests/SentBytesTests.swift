import CallStore
import SignalingProtocol
import Testing

@testable import CallCore
@testable import Coordinator

/// How much a user may make the service send (docs/protocol.md, section 2, Rate limits).
struct SentBytesTests {
    private func bytes(_ world: World, since count: Int) -> Int {
        world.published[count...].reduce(0) { $0 + $1.payload.count }
    }

    /// A user with a history of large calls: nine invitees each.
    private func veteran(_ world: World) -> Phone {
        let alice = world.phone("alice/phone")
        for call in 0..<10 {
            let invitees = (0..<9).map { UserID("u\(call)-\($0)" + String(repeating: "x", count: 50))! }
            var invite = Request.Invite(invitees: invitees, callID: CallID("c\(call)")!)
            invite.extendedData = String(repeating: "e", count: 2_000)
            #expect(alice.request(.invite(invite))?.call != nil)
            alice.cancel("c\(call)")
        }
        world.pass(seconds: 300)
        return alice
    }

    /// A world with a fifth of the usual bytes: a test that spends them all takes a fifth of the time.
    private func frugalWorld() -> World {
        var settings = ServiceSettings()
        settings.limits.sentBytes = .init(rate: 100_000, burst: 1_000_000)
        return World(settings)
    }

    /// With the usual number of bytes.
    @Test func aFewQueriesAreAnsweredAndManyAreNot() {
        let world = World()
        let alice = veteran(world)
        func query() -> Response.Outcome? { alice.request(.query(.init(count: 100))) }
        let before = world.published.count
        var refused: SignalingError?
        for _ in 0..<1_000 where refused == nil { refused = query()?.error }
        #expect(refused?.code == .rateLimited)
        let sent = bytes(world, since: before)
        #expect((5_000_000..<5_300_000).contains(sent), "\(sent) bytes")
        #expect(world.phone("bob/phone").request(.query(.init()))?.error == nil, "others have theirs")
        world.pass(Milliseconds(refused?.retryAfter ?? 0))
        #expect(query()?.error == nil)
        #expect(query()?.code == .rateLimited)
        #expect(world.service.counters[.limited, "sentBytes"] > 0)
    }

    /// The service judges each request of a batch alone, however much the batch asks for.
    @Test func whatIsAskedForInOneBatchIsJudgedOneByOne() {
        let world = frugalWorld()
        let alice = veteran(world)
        let before = world.published.count
        for _ in 0..<2 { world.send((0..<64).map { _ in alice.up(.query(.init(count: 100))) }) }
        #expect(bytes(world, since: before) < 1_400_000)
        let answers = world.published[before...].compactMap { $0.response?.outcome }
        #expect(answers.count == 128, "nothing goes unanswered")
        #expect(answers.count { $0.code == .rateLimited } > 100)
    }

    @Test func requestsOnOneCallAreCounted() {
        let world = frugalWorld()
        let alice = veteran(world)
        let before = world.published.count
        for _ in 0..<500 { alice.get("c1") }
        #expect(bytes(world, since: before) < 1_100_000)
    }

    @Test func signalsAreCountedWithTheirSender() {
        let world = World()
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob", mode: .advanced)
        bob.accept()
        let data = JSONText("\"" + String(repeating: "x", count: 30_000) + "\"")!
        for _ in 0..<300 { alice.request(.signal(.init(callID: callID, data: data))) }
        #expect((150..<180).contains(bob.signals.count))
        #expect(bob.get()?.call != nil)
    }

    /// Returns a world whose backend receives events at this number of endpoints.
    private func world(endpoints: Int) -> World {
        var settings = ServiceSettings()
        settings.limits.sentBytes = .init(rate: 1_000, burst: 200_000)
        settings.limits.invitations.rate = 0
        settings.limits.calleeBytes.rate = 0
        return World(settings) { memory in
            memory.keep(
                (0..<endpoints).map {
                    KeptEndpoint(name: EndpointName("app\($0)")!, patterns: "*", url: "https://x/\($0)")
                })
            return memory
        }
    }

    /// Each revision is written to the outbox of each endpoint.
    @Test func whatIsKeptForBackendsIsCountedWithWhoCausedIt() {
        func callsUntilRefused(_ world: World) -> Int {
            let alice = world.phone("alice/phone")
            for count in 0..<100 {
                var invite = Request.Invite(invitees: [UserID("u\(count)")!], callID: CallID("c\(count)")!)
                invite.extendedData = String(repeating: "\u{1}", count: 2_000)
                guard alice.request(.invite(invite))?.call != nil else { return count }
            }
            return 100
        }
        let without = callsUntilRefused(world(endpoints: 0))
        #expect((6...10).contains(without), "a response and an event of 12 KB each; \(without) calls")
        let with = callsUntilRefused(world(endpoints: 2))
        #expect((without / 2 - 1...without / 2).contains(with), "and two copies; \(with) calls")
    }

    @Test func messagesKeptForBackendsAreCountedWithTheirSender() {
        func messagesUntilRefused(_ world: World) -> Int {
            let alice = world.phone("alice/phone")
            let data = JSONText("\"" + String(repeating: "x", count: 10_000) + "\"")!
            for count in 0..<100 {
                let message = Request.Message(to: UserID("u\(count)")!, data: data, messageID: MessageID("m\(count)")!)
                guard alice.request(.message(message))?.code == nil else { return count }
            }
            return 100
        }
        let without = messagesUntilRefused(world(endpoints: 0))
        #expect((15...25).contains(without), "\(without) messages")
        let with = messagesUntilRefused(world(endpoints: 2))
        #expect((without / 3 - 1...without / 3 + 1).contains(with), "\(with) messages")
    }

    /// Users pay neither for their phones' acks of an invitation nor for a call that a timer ended: the users asked for
    /// neither.
    @Test func whoOnlyReceivesPaysForNothingThatIsKept() {
        let world = world(endpoints: 2)
        let bob = world.phone("bob/phone")
        for number in 0..<20 {
            var invite = Request.Invite(invitees: [UserID("bob")!], callID: CallID("c\(number)")!)
            invite.extendedData = String(repeating: "\u{1}", count: 2_000)
            #expect(world.phone("m\(number)/phone").request(.invite(invite))?.call != nil)
        }
        #expect(bob.names.count { $0 == .invited } > 5)
        #expect(bob.get("c0")?.call != nil)
    }

    @Test func aDeviceThatComesBackToFiftyLiveCallsMeetsNoLimit() {
        let world = World()
        for call in 0..<50 {
            let invitees = ["bob"] + (0..<8).map { "u\(call)-\($0)" }
            var invite = Request.Invite(invitees: invitees.map { UserID($0)! }, callID: CallID("c\(call)")!)
            invite.timeout = 600
            #expect(world.phone("caller\(call)/phone").request(.invite(invite))?.call != nil)
        }
        let bob = world.phone("bob/phone")
        #expect(bob.events.count == 50)
        for call in 0..<50 { #expect(bob.get("c\(call)")?.call != nil) }
        for _ in 0..<5 { #expect(bob.request(.query(.init(count: 100)))?.error == nil) }
        #expect(world.service.counters[.limited] == 0)
    }

    /// These users only have devices that ack.
    @Test func whoIsInvitedIntoLargeCallsHasCausedNothing() {
        var settings = ServiceSettings()
        settings.limits.sentBytes = .init(rate: 10_000, burst: 200_000)
        let world = World(settings)
        let bob = world.phone("bob/phone")
        var refused = 0
        for number in 0..<5 {
            let invitees = ["bob"] + (0..<8).map { "u\(number)-\($0)" }
            var invite = Request.Invite(invitees: invitees.map { UserID($0)! }, callID: CallID("c\(number)")!)
            invite.extendedData = String(repeating: "\u{1}", count: 2_000)
            let mallory = world.phone("m\(number)/phone")
            #expect(mallory.request(.invite(invite))?.call != nil)
            if mallory.get("c\(number)")?.code == .rateLimited { refused += 1 }
        }
        #expect(bob.names.count { $0 == .invited } == 5)
        #expect(bob.reject("c0")?.call != nil)
        #expect(refused == 5, "it counts with who invited")
    }

    /// Each welcome names fifty calls, and each call is sent besides, as long as no device acks.
    @Test func whatDevicesAreSentThatComeOnlineIsCounted() {
        var settings = ServiceSettings()
        settings.limits.calleeBytes.rate = 0
        let world = World(settings)
        for call in 0..<50 {
            let invitees = ["bob"] + (0..<8).map { "u\(call)-\($0)" }
            var invite = Request.Invite(invitees: invitees.map { UserID($0)! }, callID: CallID("c\(call)")!)
            invite.timeout = 600
            invite.extendedData = String(repeating: "\u{1}", count: 2_000)
            world.phone("caller\(call)/phone").request(.invite(invite))
        }
        let bob = world.phone("bob/phone", acks: false)
        let before = world.published.count
        for _ in 0..<25 { bob.republishPresence() }
        let sent = bytes(world, since: before)
        #expect((3_000_000..<7_000_000).contains(sent), "\(sent) bytes")
        #expect(world.service.counters[.limited, "welcomeBytes"] > 0)
        world.clock.now += 60_000
        let later = world.published.count
        bob.republishPresence()
        #expect(bytes(world, since: later) > 100_000, "and then it is welcomed again")
    }

    /// The user who made a phone ring must be able to stop the phone, however much the user has asked for.
    @Test func whoIsInDebtCanStillTakeACallBack() {
        let world = frugalWorld()
        let alice = veteran(world)
        alice.invite("bob", mode: .advanced)
        while alice.request(.query(.init(count: 100)))?.error == nil {}
        #expect(alice.get()?.code == .rateLimited)
        #expect(alice.cancel()?.call?.state == .ended)
        let repeated = (0..<20).map { _ in alice.cancel()?.code }
        #expect(repeated.count { $0 == .rateLimited } >= 10, "now and then, and not as often as one likes")
    }

    // MARK: Stale acks

    @Test func aStaleAckIsAnsweredOnceASecond() {
        let world = World()
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone", acks: false)
        alice.invite("bob", "carol", "dave", mode: .advanced)
        bob.ack(1)
        alice.cancel(invitees: ["carol"])
        // The first resend is over, and the second resend comes after all acks below.
        world.pass(1_500)
        let before = world.events(to: "bob/phone").count
        func answers() -> Int { world.events(to: "bob/phone").count - before }
        for _ in 0..<500 { bob.ack(1) }
        #expect(answers() == 1)
        #expect(world.service.counters[.limited, "staleAcks"] > 400)
        world.clock.now += 1_000
        for _ in 0..<500 { bob.ack(1) }
        #expect(answers() == 2)
        world.send((0..<64).map { _ in bob.up(.ackCall(callID, revision: 1)) })
        #expect(answers() == 2)
    }

    @Test func whoHasCausedTooMuchToBeSentHasNoAnswerToAStaleAck() {
        let world = frugalWorld()
        let alice = veteran(world)
        alice.acks = false
        alice.invite("bob", "carol", mode: .advanced)
        world.phone("bob/phone").accept()
        while alice.request(.query(.init(count: 100)))?.error == nil {}
        let before = world.events(to: "alice/phone").count
        alice.ack(1)
        #expect(world.events(to: "alice/phone").count == before)
        // The deliveries of the device come all the same.
        world.pass(seconds: 9)
        #expect(world.events(to: "alice/phone").count > before)
    }

    // MARK: Correlation Data

    @Test func correlationDataOfMoreThanAKilobyteIsRefusedAndNotSentBack() throws {
        let world = World()
        let alice = world.phone("alice/phone")
        func answer(_ message: UpMessage, _ count: Int) -> Published? {
            let before = world.published.count
            world.send([alice.up(message, correlationData: [UInt8](repeating: 7, count: count))])
            return world.published[before...].first
        }
        let request = UpMessage.request(Request(id: RequestID("r")!, body: .get(.init(callID: callID))))
        #expect(answer(request, 1_024)?.correlationData?.count == 1_024)
        let refused = try #require(answer(request, 1_025))
        #expect(refused.response?.id.string == "r")
        #expect(refused.response?.outcome.code == .tooLarge)
        #expect(refused.correlationData == nil)
        #expect(
            answer(.signal(.init(callID: callID, data: JSONText("1")!)), 1_025)?.line == "alice/phone error tooLarge")
        #expect(answer(.ackCall(callID, revision: 1), 1_025) == nil, "an ack has no answer")
        let before = world.published.count
        world.send([
            InboundMessage(
                topic: "bellwire/v1/up/alice/phone", payload: Array(#"{"type":"nonsense","id":"n"}"#.utf8),
                correlationData: [UInt8](repeating: 7, count: 60_000))
        ])
        let malformed = try #require(world.published[before...].first)
        #expect(malformed.correlationData == nil && malformed.response?.outcome.code == .tooLarge)
    }
}
