import CallCore
import CallStore
import Coordinator
import SignalingProtocol
import Testing

/// Many messages at once: their order holds per call, and a bad message harms no other message.
struct BatchTests {
    let world = World(Self.settings)
    let alice: Phone
    let bob: Phone

    /// Fifty calls of two people at once are no flood here.
    private static var settings: ServiceSettings {
        var settings = ServiceSettings()
        settings.limits.pair.burst = 100
        settings.quotas.pairInvitations = 100
        return settings
    }

    init() {
        alice = world.phone("alice/phone")
        bob = world.phone("bob/phone")
        _ = world.lines()
    }

    private func invite(_ callID: String, mode: CallMode = .common) -> Request.Body {
        .invite(.init(invitees: [bob.user], callID: CallID(callID)!, mode: mode))
    }

    @Test func anInviteAndItsAnswerInOneBatch() {
        world.send([alice.up(invite("c")), bob.up(.accept(.init(callID: callID)))])
        #expect(
            world.lines() == ["alice/phone ok 1", "bob/phone ok 2", "alice/phone call.userStateChanged 2"])
        #expect(bob.events.isEmpty, "nobody rings for a call that is answered")
    }

    @Test func messagesOfOneCallKeepTheirOrder() {
        world.send([
            alice.up(invite("c", mode: .advanced)), bob.up(.ackCall(callID, revision: 1)),
            bob.up(.accept(.init(callID: callID))),
            alice.up(.add(.init(callID: callID, invitees: userIDs("carol")))),
            alice.up(.cancel(.init(callID: callID, invitees: userIDs("carol")))), bob.up(.quit(.init(callID: callID))),
        ])
        #expect(
            world.lines().filter { $0.contains(" ok ") } == [
                "alice/phone ok 1", "bob/phone ok 3", "alice/phone ok 4", "alice/phone ok 5", "bob/phone ok 6",
            ])
        #expect(world.stored(callID)?.endReason == .quit)
    }

    @Test func eachResponseShowsTheCallAsItWasThen() {
        world.send([
            alice.up(invite("c", mode: .advanced)), alice.up(.get(.init(callID: callID))),
            alice.up(.end(.init(callID: callID))), alice.up(.get(.init(callID: callID))),
        ])
        #expect(alice.responses.map { $0.outcome.call?.state } == [.ringing, .ringing, .ended, .ended])
    }

    @Test func callsInOneBatchDoNotDisturbEachOther() {
        let batch = (0..<50).map { alice.up(invite("c\($0)")) } + [alice.up(invite("c7"))]
        world.send(batch)
        #expect(alice.responses.count(where: { $0.outcome.success != nil }) == 50)
        #expect(alice.responses.count(where: { $0.outcome.code == .callExists }) == 1)
        #expect(bob.names.count == 50)
    }

    @Test func badMessagesHarmNoOther() {
        var batch: [InboundMessage] = []
        for payload in ["", "{", "[]", #"{"type":"call.get"}"#, #"{"type":"ack"}"#, "\u{FFFE}"] {
            batch.append(InboundMessage(topic: "bellwire/v1/up/alice/phone", payload: Array(payload.utf8)))
        }
        batch.append(InboundMessage(topic: "bellwire/v1/up/%61/phone", payload: []))
        batch.append(InboundMessage(topic: "elsewhere", payload: []))
        batch.insert(alice.up(invite("c")), at: 3)
        world.send(batch)
        #expect(world.lines().count { $0 == "alice/phone error badRequest" } == 6)
        #expect(bob.names == [.invited])
    }

    @Test func whatADeviceSentBeforeItWentIsServedBefore() {
        world.send([alice.up(invite("c")), alice.presence(.offline(.logout), session: "s1")])
        #expect(world.stored(callID)?.endReason == .callerLost)
    }

    @Test func whatADeviceSendsAfterItCameIsServedAfter() {
        let carol = world.stranger("carol/phone")
        world.send([
            alice.up(.invite(.init(invitees: [carol.user], callID: callID))), carol.presence(.online, session: "s"),
            carol.up(.accept(.init(callID: callID))),
        ])
        #expect(world.lines().filter { $0.hasPrefix("carol") } == ["carol/phone welcome s", "carol/phone ok 2"])
    }

    @Test func whatADeviceAsksAfterItsRequestsIsAnsweredAfterThem() {
        world.send([alice.up(invite("c")), alice.up(.query(.init())), alice.up(.cancel(.init(callID: callID)))])
        #expect(alice.responses.map { $0.outcome.code } == [nil, nil, nil])
        guard case .answer(.calls(let calls, _))? = alice.responses.dropFirst().first?.outcome else {
            Issue.record("no page of calls")
            return
        }
        #expect(calls.map(\.state) == [.ringing])
        #expect(world.stored(callID)?.state == .ended)
    }

    /// However many batches a user makes, other users need not wait for them.
    @Test func whatARoundHasDoneIsToldBeforeTheNext() {
        let turns = (0..<5).flatMap { _ in [bob.up(.query(.init())), bob.up(.ackCall(CallID("x")!, revision: 1))] }
        let before = world.publications.count
        world.send(turns + [alice.up(invite("c"))])
        let told = world.publications[before...].map { $0.map(\.topic) }
        #expect(told.count == 6)
        #expect(told[0].contains("alice/phone"))
        #expect(alice.responses.count == 1)
    }

    @Test func devicesOfOneUserComeAndGoInOneBatch() {
        alice.invite("bob")
        let tablet = world.stranger("bob/tablet")
        let watch = world.stranger("bob/watch")
        world.send([
            bob.presence(.offline(.logout), session: bob.session!), tablet.presence(.online, session: "t"),
            watch.presence(.online, session: "w"),
        ])
        #expect(world.memory.devices(of: [bob.user])[0].filter(\.isOnline).map(\.session) == ["t", "w"])
        #expect(tablet.welcomes.map { $0.calls.map(\.callID) } == [[callID]])
        #expect(watch.welcomes.map { $0.calls.map(\.callID) } == [[callID]])
        #expect(tablet.names == [.invited])
        #expect(watch.names == [.invited])
    }

    @Test func bothSidesOfACallGoInOneBatch() {
        alice.invite("bob", mode: .advanced)
        bob.accept()
        world.send([
            alice.presence(.offline(.lost), session: alice.session!),
            bob.presence(.offline(.lost), session: bob.session!),
        ])
        #expect(world.memory.devices(of: [alice.user, bob.user]).joined().allSatisfy { !$0.isOnline })
        world.pass(seconds: 120)
        #expect(world.stored(callID)?.state == .ended)
    }

    /// A device may leave a call and enter another call without waiting: a device waits only within a call.
    @Test func leavingOneCallAndEnteringAnotherKeepTheirOrder() {
        let carol = world.phone("carol/phone")
        alice.invite("bob", callID: "a", mode: .advanced)
        bob.accept("a")
        carol.invite("bob", callID: "x", mode: .advanced)
        world.send([bob.up(.quit(.init(callID: CallID("a")!))), bob.up(.accept(.init(callID: CallID("x")!)))])
        #expect(bob.responses.suffix(2).map { $0.outcome.code } == [nil, nil])
        #expect(world.stored(CallID("x")!)?.state == .active)
    }

    @Test func endingOneCallAndMakingAnotherKeepTheirOrder() {
        alice.invite("bob", callID: "a", mode: .advanced)
        world.send([alice.up(.cancel(.init(callID: CallID("a")!))), alice.up(invite("b", mode: .advanced))])
        #expect(alice.responses.suffix(2).map { $0.outcome.code } == [nil, nil])
    }

    @Test func retainedMessagesAreDropped() {
        let request = UpMessage.request(.init(id: RequestID("r")!, body: invite("c"))).encoded()
        let online = PresenceMessage(.online, session: "stale").encoded()
        world.send([
            InboundMessage(topic: "bellwire/v1/up/alice/phone", payload: request, isRetained: true),
            InboundMessage(topic: "bellwire/v1/presence/carol/phone", payload: online, isRetained: true),
            InboundMessage(topic: "bellwire/v1/up/%61/phone", payload: [], isRetained: true),
        ])
        #expect(world.lines().isEmpty)
        #expect(world.stored(callID) == nil)
        #expect(world.service.counters[.messagesRefused, "retained"] == 3)
    }

    @Test(arguments: ["%61lice/phone", "a+b/phone", "alice/p%20", "/phone", "alice/", "alice/phone/x", "a\u{1}/phone"])
    func aTopicThatIsNotCanonicalIsAnsweredOnTheSameLevels(_ levels: String) {
        let request = String(
            decoding: UpMessage.request(.init(id: RequestID("r")!, body: invite("c"))).encoded(), as: UTF8.self)
        world.send("bellwire/v1/up/\(levels)", request)
        world.send("bellwire/v1/presence/\(levels)", #"{"online":true}"#)
        #expect(world.lines() == ["\(levels) error badRequest", "\(levels) error badRequest"])
        #expect(world.stored(callID) == nil)
    }

    @Test func anotherRootIsServedAlone() {
        var settings = ServiceSettings()
        settings.topics = Topics(root: "other/root")!
        let world = World(settings)
        let alice = world.phone("alice/phone")
        #expect(alice.invite("bob")?.success != nil)
        let count = world.published.count
        world.send("bellwire/v1/up/alice/phone", "{}")
        #expect(world.published.count == count)
    }

    @Test func anEmptyBatchIsNothing() {
        world.send([])
        #expect(world.lines().isEmpty)
    }
}
