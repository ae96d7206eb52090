import CallCore
import SignalingProtocol
import Synchronization
import Testing
import Tokens
import ZegoCallProtocol

@testable import Gateway
@testable import HTTPServing

/// The messages of a gateway at the broker, for users who hear over HTTP (docs/decisions/0022).
@Suite struct StreamLinesTests {
    private static let topics = Topics.standard
    private let alice = UserID("alice")!
    private let bob = UserID("bob")!
    private let callID = CallID("c")!

    /// The lines of a gateway, and their actions.
    private final class Rig {
        let desk = StreamDesk(most: StreamDeskBounds.streams)!
        var lines: StreamLines
        var now: Int64 = 1_000

        init() {
            let count = Mutex(0)
            lines = StreamLines(StreamLinesTests.topics) { "s\(count.withLock { $0 += 1; return $0 })" }
        }

        func open(_ user: String, device: String? = nil, after id: String? = nil) throws -> HTTPStream {
            var token = Token(user: UserID(user)!, expiresAt: .max)
            token.device = device.map { DeviceID($0)! }
            let stream = try desk.open(Bearer(text: "t", token: token), lastEventID: id)
            take()
            return stream
        }

        func take() {
            let (opened, ended) = desk.take()
            for stream in opened { lines.opened(stream, now: now) }
            for number in ended { lines.ended(number, now: now) }
        }

        /// The actions in words.
        func said() -> [String] {
            lines.takeActions().map { action in
                switch action {
                case .subscribe(let filter): "subscribe \(filter)"
                case .unsubscribe(let filter): "unsubscribe \(filter)"
                case .publish(let topic, let payload): "\(topic) \(String(decoding: payload, as: UTF8.self))"
                }
            }
        }

        func grant(_ user: String, _ device: String = "zegocall") {
            lines.granted("bellwire/v1/down/\(user)", now: now)
            lines.granted("bellwire/v1/down/\(user)/\(device)", now: now)
        }

        func receive(_ topic: String, _ message: DownMessage) {
            lines.received("bellwire/v1/down/" + topic, message.encoded(), now: now)
        }

        func welcome(_ user: String, _ session: String, lease: Int = 600) {
            receive(
                "\(user)/zegocall",
                .welcome(
                    .init(
                        session: session, serverTime: 1, heartbeatInterval: 20, heartbeatTimeout: 60, calls: [],
                        presenceLease: lease)))
        }

        func tick(_ milliseconds: Int64, counts: Bool = true) {
            now += milliseconds
            lines.tick(now: now) { _ in counts }
        }
    }

    private let rig = Rig()

    /// The events that wait for the client, without their ids.
    private func heard(_ stream: HTTPStream) -> [String] {
        stream.waitingText.components("\n\n").filter { $0.hasPrefix("event") }.map { $0.components("\nid: ")[0] }
    }

    /// The id that a client keeps after it has read all events.
    private func lastID(_ stream: HTTPStream) -> String {
        stream.waitingText.components("id: ").last?.components("\n").first ?? ""
    }

    private func online(_ user: String = "bob") throws -> HTTPStream {
        rig.lines.connected()
        let stream = try rig.open(user)
        rig.grant(user)
        rig.welcome(user, "s1")
        _ = rig.said()
        return stream
    }

    private func call(
        _ revision: Int, _ states: [UserID: MemberState], state: BellwireCallState = .ringing, reason: EndReason? = nil,
        endedBy: UserID? = nil, memberReason: String? = nil, data: String? = nil
    ) -> CallSnapshot {
        CallSnapshot(
            callID: callID, revision: revision, mode: .advanced, state: state, media: "video", inviter: alice,
            createdAt: 1, endReason: reason, endedBy: endedBy, timeout: 60, extendedData: data,
            members: [alice, bob].map { user in
                MemberSnapshot(
                    userID: user, state: states[user] ?? .accepted, invitedBy: user == alice ? nil : alice,
                    updatedAt: 1, reason: user == bob ? memberReason : nil)
            })
    }

    /// The call as alice's response to her start request shows it.
    private var started: CallSnapshot {
        var made = call(1, [bob: .inviting])
        made.members[0].device = DeviceID("zegocall")!
        return made
    }

    private func event(_ name: EventName, _ call: CallSnapshot, changed: [UserID] = []) -> DownMessage {
        .event(
            Event(
                name: name, revision: call.revision, time: Int64(call.revision),
                changes: changed.map { user in
                    let member = call.member(user)!
                    return MemberChange(userID: user, state: member.state, reason: member.reason)
                }, call: call))
    }

    // MARK: Presence

    @Test func aStreamIsAnnouncedOnceItsTopicsAreSubscribed() throws {
        rig.lines.connected()
        let stream = try rig.open("bob")
        #expect(
            rig.said() == ["subscribe bellwire/v1/down/bob", "subscribe bellwire/v1/down/bob/zegocall"])
        rig.lines.granted("bellwire/v1/down/bob", now: rig.now)
        #expect(rig.said().isEmpty)
        rig.lines.granted("bellwire/v1/down/bob/zegocall", now: rig.now)
        #expect(rig.said() == [#"bellwire/v1/presence/bob/zegocall {"online":true,"session":"s1"}"#])
        rig.welcome("bob", "s1")
        #expect(stream.waitingText.contains(": online\n\n"))
    }

    @Test func presenceIsSentAgainUntilItIsAnsweredAndRenewedAtHalfOfItsLease() throws {
        rig.lines.connected()
        _ = try rig.open("bob")
        rig.grant("bob")
        _ = rig.said()
        for pause in [1_000, 2_000, 4_000, 8_000, 8_000] as [Int64] {
            rig.tick(pause - 1)
            #expect(rig.said().isEmpty)
            rig.tick(1 + StreamLineBounds.tick)
            #expect(rig.said().count == 1)
            rig.now -= StreamLineBounds.tick
        }
        rig.welcome("bob", "s1", lease: 100)
        rig.tick(49_000)
        #expect(rig.said().isEmpty)
        rig.tick(1_500)
        #expect(rig.said() == [#"bellwire/v1/presence/bob/zegocall {"online":true,"session":"s1"}"#])
    }

    @Test func aUserIsLostWithItsLastStream() throws {
        let first = try online()
        let second = try rig.open("bob")
        #expect(rig.said() == [#"bellwire/v1/presence/bob/zegocall {"online":true,"session":"s2"}"#])
        rig.welcome("bob", "s2")
        #expect(second.waitingText.contains(": online\n\n"))
        first.finish()
        rig.take()
        #expect(rig.said().isEmpty)
        second.finish()
        rig.take()
        #expect(
            rig.said() == [
                #"bellwire/v1/presence/bob/zegocall {"online":false,"reason":"lost","session":"s2"}"#,
                "unsubscribe bellwire/v1/down/bob", "unsubscribe bellwire/v1/down/bob/zegocall",
            ])
        #expect(rig.lines.isEmpty)
    }

    @Test func anotherDeviceOfTheUserIsHeardOn() throws {
        let first = try online()
        _ = try rig.open("bob", device: "web")
        _ = rig.said()
        first.finish()
        rig.take()
        #expect(rig.said().filter { $0.hasPrefix("unsubscribe") } == ["unsubscribe bellwire/v1/down/bob/zegocall"])
    }

    @Test func eachConnectionOfTheBrokerHasItsOwnSession() throws {
        _ = try online()
        rig.lines.disconnected()
        #expect(rig.said().isEmpty)
        rig.lines.connected()
        #expect(rig.said().count == 2)
        rig.grant("bob")
        #expect(rig.said() == [#"bellwire/v1/presence/bob/zegocall {"online":true,"session":"s2"}"#])
    }

    @Test func whoLeftWithoutABrokerIsLostWhenItIsBack() throws {
        let stream = try online()
        rig.lines.disconnected()
        stream.finish()
        rig.take()
        #expect(rig.said().isEmpty)
        rig.lines.connected()
        #expect(rig.said() == [#"bellwire/v1/presence/bob/zegocall {"online":false,"reason":"lost","session":"s1"}"#])
    }

    /// Two gateways that each answered the other's announcement at once would never end.
    @Test func aDeviceThatAnotherGatewayAnnouncesIsAnnouncedAgainAfterAWhile() throws {
        _ = try online()
        rig.welcome("bob", "another")
        rig.tick(StreamLineBounds.reclaim.lowerBound - 1)
        #expect(rig.said().isEmpty)
        rig.tick(3_000)
        #expect(rig.said() == [#"bellwire/v1/presence/bob/zegocall {"online":true,"session":"s1"}"#])
    }

    @Test func aSessionThatIsOverIsFollowedByAnother() throws {
        _ = try online()
        rig.receive("bob/zegocall", .error(SignalingError(.sessionOver, "", session: "other")))
        #expect(rig.said().isEmpty)
        rig.receive("bob/zegocall", .error(SignalingError(.sessionOver, "", session: "s1")))
        #expect(rig.said() == [#"bellwire/v1/presence/bob/zegocall {"online":true,"session":"s2"}"#])
    }

    // MARK: Streams that go on

    /// Opens a stream of a gateway that has heard of no event, as after a restart, or of another gateway.
    private func again(_ user: String = "bob", after id: String?) throws -> (StreamLinesTests, HTTPStream) {
        let other = StreamLinesTests()
        other.rig.lines.connected()
        let stream = try other.rig.open(user, after: id)
        other.rig.grant(user)
        _ = other.rig.said()
        other.rig.welcome(user, "s1")
        return (other, stream)
    }

    @Test func aStreamThatGoesOnIsNotToldAgainAtWhicheverGateway() throws {
        let stream = try online()
        rig.receive("bob", invitation)
        let (other, second) = try again(after: lastID(stream))
        // The new session gets the invitation, and gets it again as the other members are told of it.
        other.rig.receive("bob/zegocall", invitation)
        other.rig.receive("bob/zegocall", event(.invited, call(2, [bob: .received]), changed: [alice, bob]))
        #expect(other.heard(second).isEmpty)
        #expect(lastID(second) == "1;c.2.2.0.ar")
    }

    /// A client's last id says which events have reached the client.
    @Test func whatWasLostWithTheStreamIsToldAgain() throws {
        let stream = try online()
        let before = lastID(stream)
        rig.receive("bob", invitation)
        let (other, second) = try again(after: before)
        other.rig.receive("bob/zegocall", invitation)
        #expect(other.heard(second) == heard(stream) && heard(stream).count == 1)
    }

    /// A new session is not owed calls that were over before the session began: the service answers an ack of an
    /// earlier revision.
    @Test func whatHappenedBetweenTwoStreamsIsAskedForAndTold() throws {
        let stream = try online()
        rig.receive("bob", invitation)
        let (other, second) = try again(after: lastID(stream))
        let ack = #"bellwire/v1/up/bob/zegocall {"type":"ack","callID":"c","revision":1}"#
        #expect(other.rig.said() == [ack])
        // The gateway asks once more, in another session: the service may have counted an ack of the former session for
        // this session.
        other.rig.tick(StreamLineBounds.question)
        #expect(other.rig.said() == [#"bellwire/v1/presence/bob/zegocall {"online":true,"session":"s2"}"#])
        other.rig.welcome("bob", "s2")
        #expect(other.rig.said() == [ack])
        other.rig.tick(StreamLineBounds.question)
        #expect(other.rig.said().isEmpty)
        #expect(second.waitingText.components(": online").count == 2)
        other.rig.receive("bob/zegocall", event(.cancelled, call(2, [bob: .cancelled], state: .ended), changed: [bob]))
        let canceled = #"{"call_id":"c","caller_id":"alice","callee_id":"bob"}"#
        #expect(other.heard(second) == ["event: /call/notify_call_canceled\ndata: \(canceled)"])
        #expect(lastID(second) == "1;c.2.2..ac-")
    }

    @Test func whoIsInvitedAgainBetweenTwoStreamsIsRung() throws {
        let stream = try online()
        rig.receive("bob", invitation)
        var renewed = call(3, [bob: .inviting])
        renewed.members[1].expiresAt = 120_000
        let (other, second) = try again(after: lastID(stream))
        other.rig.receive("bob/zegocall", event(.invited, renewed, changed: [alice, bob]))
        #expect(other.heard(second).count == 1)
    }

    /// The id of the later of two calls names the earlier call, too.
    @Test func anIDSaysWhatWasToldOfAllCalls() throws {
        let stream = try online()
        var second = call(1, [bob: .inviting])
        second.callID = CallID("d")!
        let both = [invitation, event(.invited, second)]
        for invitation in both { rig.receive("bob", invitation) }
        let (other, third) = try again(after: lastID(stream))
        for invitation in both { other.rig.receive("bob/zegocall", invitation) }
        #expect(other.heard(third).isEmpty && heard(stream).count == 2)
    }

    @Test func anAnswerThatWasToldIsNotToldAgainBesideALaterOne() throws {
        let carol = UserID("carol")!
        func group(_ revision: Int, _ states: [MemberState]) -> CallSnapshot {
            var made = call(revision, [bob: states[0]], state: .active)
            made.members.append(MemberSnapshot(userID: carol, state: states[1], invitedBy: alice, updatedAt: 1))
            return made
        }
        let stream = try online("alice")
        rig.receive("alice/zegocall", event(.userStateChanged, group(2, [.accepted, .received]), changed: [bob]))
        let (other, second) = try again("alice", after: lastID(stream))
        let both = event(.userStateChanged, group(3, [.accepted, .accepted]), changed: [bob, carol])
        other.rig.receive("alice/zegocall", both)
        #expect(heard(stream).count == 1 && other.heard(second).count == 1)
        #expect(other.heard(second)[0].contains("carol"))
    }

    /// The gateway tells a caller nothing of the call until there is an event to tell.
    @Test func aCallThatTheUserMadeIsNamedByTheID() throws {
        let stream = try online("alice")
        let device = DeviceAddress(userID: alice, deviceID: DeviceID("zegocall")!)
        rig.lines.did(device, started, now: rig.now)
        #expect(lastID(stream) == "1;c.1.1..ai" && heard(stream).isEmpty)
        let (other, second) = try again("alice", after: lastID(stream))
        #expect(other.rig.said() == [#"bellwire/v1/up/alice/zegocall {"type":"ack","callID":"c","revision":1}"#])
        let over = call(2, [bob: .rejected], state: .ended, reason: .rejected, memberReason: "busy")
        other.rig.receive("alice/zegocall", event(.ended, over, changed: [bob]))
        #expect(other.heard(second).count == 1)
        rig.lines.did(device, over, now: rig.now)
        #expect(lastID(stream) == "1;c.1.1..ai-")
    }

    /// The start is answered, and the decline goes to a dead stream: the client's last id knows nothing of the call.
    @Test(arguments: [nil, "1"] as [String?])
    func ofACallThatTheUserMadeItIsAskedWhateverTheIDSays(_ id: String?) throws {
        _ = try online("alice")
        let device = DeviceAddress(userID: alice, deviceID: DeviceID("zegocall")!)
        rig.lines.did(device, started, now: rig.now)
        let over = event(.ended, call(2, [bob: .rejected], state: .ended, reason: .rejected), changed: [bob])
        rig.receive("alice/zegocall", over)
        let second = try rig.open("alice", after: id)
        _ = rig.said()
        rig.welcome("alice", "s2")
        #expect(rig.said() == [#"bellwire/v1/up/alice/zegocall {"type":"ack","callID":"c","revision":1}"#])
        rig.receive("alice/zegocall", over)
        #expect(heard(second).count == 1)
    }

    @Test(arguments: [true, false])
    func ofACallWhoseEndHasArrivedNothingIsAsked(_ saysSo: Bool) throws {
        let stream = try online("alice")
        let device = DeviceAddress(userID: alice, deviceID: DeviceID("zegocall")!)
        rig.lines.did(device, started, now: rig.now)
        let over = event(.ended, call(2, [bob: .rejected], state: .ended, reason: .rejected), changed: [bob])
        rig.receive("alice/zegocall", over)
        stream.arrived()
        let id = lastID(stream)
        close(stream)
        _ = rig.said()
        let second = try rig.open("alice", after: saysSo ? id : nil)
        rig.grant("alice")
        _ = rig.said()
        rig.welcome("alice", "s2")
        #expect(rig.said().isEmpty)
        rig.receive("alice/zegocall", over)
        #expect(heard(second).isEmpty)
    }

    @Test func aStreamIsToldWhatWasMissedWithoutTheBroker() throws {
        let stream = try online()
        rig.receive("bob", invitation)
        rig.lines.disconnected()
        rig.lines.connected()
        rig.grant("bob")
        _ = rig.said()
        rig.welcome("bob", "s2")
        #expect(rig.said() == [#"bellwire/v1/up/bob/zegocall {"type":"ack","callID":"c","revision":1}"#])
        rig.receive("bob/zegocall", event(.cancelled, call(2, [bob: .cancelled], state: .ended), changed: [bob]))
        #expect(heard(stream).count == 2)
    }

    /// The new stream would not be owed the events that the other stream knows.
    @Test func besideAStreamThatKnowsNothingItIsAskedForEverything() throws {
        let stream = try online()
        rig.receive("bob", invitation)
        _ = try rig.open("bob", after: "0")
        _ = rig.said()
        rig.welcome("bob", "s2")
        #expect(rig.said() == [#"bellwire/v1/up/bob/zegocall {"type":"ack","callID":"c","revision":0}"#])
        #expect(heard(stream).count == 1)
    }

    /// The ack comes from a stream that is dead without notice so far: the service may count the ack for the session of
    /// the new stream.
    @Test(arguments: [true, false])
    func behindAnAckTheNewStreamIsToldInASecondSession(_ isOver: Bool) throws {
        let stream = try online()
        rig.receive("bob", invitation)
        if isOver { close(stream) }
        let second = try rig.open("bob", after: "0")
        rig.grant("bob")
        rig.welcome("bob", "s2")
        _ = rig.said()
        rig.tick(StreamLineBounds.question)
        #expect(rig.said() == [#"bellwire/v1/presence/bob/zegocall {"online":true,"session":"s3"}"#])
        rig.receive("bob/zegocall", invitation)
        #expect(heard(second).count == 1)
    }

    @Test func aStreamThatKnowsNothingAndFollowsNoAckHasOneSession() throws {
        let stream = try online()
        rig.receive("bob", event(.timeout, call(2, [bob: .timeout], state: .ended)))
        rig.now += StreamLineBounds.ack
        close(stream)
        _ = try rig.open("bob", after: "0")
        rig.grant("bob")
        rig.welcome("bob", "s2")
        _ = rig.said()
        rig.tick(StreamLineBounds.question)
        #expect(rig.said().isEmpty)
    }

    /// A client that ignores ids would take the invitation for a second call.
    @Test(arguments: [true, false])
    func withoutAnIDAStreamGoesOnFromWhatHasArrived(_ isOver: Bool) throws {
        let stream = try online()
        rig.receive("bob", invitation)
        stream.arrived()
        if isOver { close(stream) }
        let second = try rig.open("bob")
        rig.receive("bob/zegocall", invitation)
        #expect(heard(second).isEmpty)
        // The gateway also knows the events that the second stream was told by then.
        second.arrived()
        close(second)
        rig.now += StreamLineBounds.memory - 1
        let third = try rig.open("bob")
        rig.receive("bob/zegocall", invitation)
        #expect(heard(third).isEmpty)
    }

    @Test func withoutAnIDAStreamIsToldAgainWhatMayBeLost() throws {
        let stream = try online()
        rig.receive("bob", invitation)
        close(stream)
        let second = try rig.open("bob")
        rig.receive("bob/zegocall", invitation)
        #expect(heard(second).count == 1)
    }

    /// An app that was started again knows nothing. The start takes some time, or the app says so by an id that names
    /// no event.
    @Test(arguments: [nil, "0"] as [String?])
    func anAppThatWasStartedAgainIsRung(_ id: String?) throws {
        let stream = try online()
        rig.receive("bob", invitation)
        stream.arrived()
        close(stream)
        if id == nil { rig.now += StreamLineBounds.memory }
        let second = try rig.open("bob", after: id)
        rig.receive("bob/zegocall", invitation)
        #expect(heard(second).count == 1)
    }

    @Test func anotherDeviceIsToldForItself() throws {
        let stream = try online()
        rig.receive("bob", invitation)
        stream.arrived()
        let other = try rig.open("bob", device: "web")
        rig.grant("bob", "zegocall.web")
        rig.receive("bob/zegocall.web", invitation)
        #expect(heard(other).count == 1)
    }

    @Test func ofMoreDevicesThanAreRememberedTheOldestIsForgotten() {
        var memory = StreamLines.Memory<Int>()
        func device(_ number: Int) -> DeviceAddress {
            DeviceAddress(userID: UserID("user\(number)")!, deviceID: DeviceID("zegocall")!)
        }
        for number in 0...StreamLineBounds.memories {
            memory.keep(number, of: device(number), until: 100 + Int64(number))
        }
        #expect(memory.count == StreamLineBounds.memories)
        #expect(memory.value(device(0), now: 0) == nil && memory.value(device(1), now: 100) == 1)
        #expect(memory.value(device(1), now: 101) == nil)
        memory.forget(110)
        #expect(memory.count == StreamLineBounds.memories - 10)
    }

    private func close(_ stream: HTTPStream) {
        stream.finish()
        rig.take()
    }

    @Test(arguments: [
        "", "0", "2;c.1.1.0.ai", "1;", "1;c", "1;c.1.1.0", "1;c.1.1.0.ax", "1;c.-1.1.0.ai", "1;c.1.?.0.ai",
        "1;c c.1.1.0.ai", "1;c.1.1.zzzzzzzzzzzzzzzzzzzz.ai", "1" + String(repeating: ";c.1.1.0.ai", count: 100),
    ])
    func whatIsNoIDSaysNothing(_ text: String) { #expect(EventID.calls(text, now: 0) == nil) }

    @Test func anIDIsBoundedAndNamesTheLatestCalls() throws {
        let stream = try online()
        for number in 10..<30 {
            var call = call(number, [bob: .inviting])
            call.callID = CallID("\(number)" + String(repeating: "c", count: 62))!
            rig.receive("bob", event(.invited, call))
        }
        let id = lastID(stream)
        #expect(id.utf8.count <= EventIDBounds.bytes && id.utf8.count > EventIDBounds.bytes - 100)
        let named = try #require(EventID.calls(id, now: 0)).keys.map { String($0.string.prefix(2)) }
        #expect(named.sorted() == (30 - named.count..<30).map(String.init))
    }

    @Test func anIDNamesSixteenCallsAndOfNoMoreItIsAsked() throws {
        let stream = try online()
        for number in 10..<30 {
            var call = call(number, [bob: .inviting])
            call.callID = CallID("c\(number)")!
            rig.receive("bob", event(.invited, call))
        }
        let named = try #require(EventID.calls(lastID(stream), now: 0))
        #expect(named.count == 16 && named[CallID("c29")!] != nil)
        rig.lines.disconnected()
        rig.lines.connected()
        rig.grant("bob")
        _ = rig.said()
        rig.welcome("bob", "s2")
        #expect(rig.said().count == 16)
        #expect(EventID.calls("1" + String(repeating: ";c.1.1.0.ai", count: 17), now: 0) == nil)
    }

    // MARK: Streams

    @Test func aStreamShowsLifeEvery15Seconds() throws {
        let stream = try online()
        let before = stream.waitingText
        rig.tick(14_900)
        #expect(stream.waitingText == before)
        rig.tick(600)
        #expect(stream.waitingText == before + ":\n\n")
    }

    @Test func aStreamEndsWithItsToken() throws {
        let stream = try online()
        rig.tick(600)
        #expect(stream.send([]))
        rig.tick(600, counts: false)
        #expect(!stream.send([]))
    }

    @Test func aUserHasTenStreams() throws {
        let streams = try (0..<10).map { _ in try rig.open("bob") }
        #expect(throws: Problem.tooManyStreams) { try rig.open("bob") }
        _ = try rig.open("carol")
        streams[3].finish()
        _ = try rig.open("bob")
    }

    @Test func thereAreSoManyStreamsAndNoMore() throws {
        for number in 0..<StreamDeskBounds.streams { _ = try rig.open("user\(number)") }
        #expect(throws: Problem.overloaded) { try rig.open("bob") }
        #expect(rig.desk.count == StreamDeskBounds.streams)
    }

    // MARK: Calls

    @Test func anInvitationIsToldOnceAndAcked() throws {
        let stream = try online()
        let invited = event(.invited, call(1, [bob: .inviting]), changed: [alice, bob])
        rig.receive("bob", invited)
        let body =
            #"{"call_id":"c","caller":{"id":"alice","name":"alice"},"callees":[{"id":"bob","name":"bob"}],"type":2,"call_type":2}"#
        #expect(heard(stream) == ["event: /call/notify_call_invited\ndata: \(body)"])
        #expect(rig.said() == [#"bellwire/v1/up/bob/zegocall {"type":"ack","callID":"c","revision":1}"#])
        rig.receive("bob/zegocall", invited)
        #expect(heard(stream).count == 1 && rig.said().count == 1)
    }

    @Test func whatNobodyTookIsNotAcked() throws {
        let stream = try online()
        stream.end()
        rig.receive("bob", event(.invited, call(1, [bob: .inviting])))
        #expect(rig.said().isEmpty)
    }

    /// The new session tells the later stream: the service knows whether the call still rings.
    @Test func aStreamThatComesLaterIsToldOfWhatIsOwedAndTheOthersAreNotAgain() throws {
        let first = try online()
        rig.receive("bob", invitation)
        _ = rig.said()
        let second = try rig.open("bob")
        #expect(heard(second).isEmpty)
        #expect(rig.said() == [#"bellwire/v1/presence/bob/zegocall {"online":true,"session":"s2"}"#])
        rig.receive("bob/zegocall", invitation)
        #expect(heard(second).count == 1 && heard(first).count == 1 && rig.said().count == 1)
    }

    /// The first stream may be dead without notice so far.
    @Test func aStreamThatComesLaterIsToldOfAnAnswerThatTheFirstWasTold() throws {
        let first = try online("alice")
        let accepted = event(.userStateChanged, call(3, [bob: .accepted], state: .active), changed: [bob])
        rig.receive("alice/zegocall", accepted)
        let second = try rig.open("alice")
        rig.receive("alice/zegocall", accepted)
        #expect(heard(first).count == 1 && heard(second) == heard(first))
    }

    /// The service sends the invitation like this in a new session.
    @Test func anInvitationThatComesAgainAtALaterRevisionIsNotToldAgain() throws {
        let stream = try online()
        rig.receive("bob", invitation)
        rig.receive("bob/zegocall", event(.invited, call(2, [bob: .received])))
        #expect(heard(stream).count == 1 && rig.said().count == 2)
    }

    @Test func whoIsInvitedAgainIsRungAgain() throws {
        let stream = try online()
        rig.receive("bob", invitation)
        rig.receive("bob", event(.timeout, call(2, [bob: .timeout])))
        var again = call(3, [bob: .inviting])
        again.members[1].expiresAt = 120_000
        rig.receive("bob", event(.invited, again))
        #expect(heard(stream).count == 2)
    }

    /// The change of another member may come first at the same revision.
    @Test func anInvitationIsToldAlsoBehindAnEventOfItsRevision() throws {
        let stream = try online()
        rig.receive("bob", event(.userStateChanged, call(2, [bob: .received])))
        rig.receive("bob", event(.invited, call(2, [bob: .received])))
        rig.receive("bob", event(.invited, call(2, [bob: .received])))
        #expect(heard(stream).count == 1)
    }

    @Test func anInvitationFromBeforeIsNotTold() throws {
        let stream = try online()
        rig.receive("bob", event(.userStateChanged, call(3, [bob: .accepted], state: .active)))
        rig.receive("bob", invitation)
        #expect(heard(stream).isEmpty)
    }

    /// The invitation that is left is sent again, as to phones, and rings once there is room.
    @Test func ofMoreCallsThanMayRingTheLastIsLeftForLater() throws {
        let stream = try online()
        func invite(
            _ number: Int, _ name: EventName = .invited, _ revision: Int = 1, _ state: BellwireCallState = .ringing
        ) {
            var call = call(revision, [bob: state == .ended ? .cancelled : .inviting], state: state)
            call.callID = CallID("c\(number)")!
            rig.receive("bob", event(name, call, changed: [bob]))
        }
        for number in 0...StreamLine.mostCalls { invite(number) }
        #expect(heard(stream).count == StreamLine.mostCalls && rig.said().count == StreamLine.mostCalls)
        invite(3, .cancelled, 2, .ended)
        invite(StreamLine.mostCalls)
        #expect(heard(stream).count == StreamLine.mostCalls + 2 && rig.said().count == 2)
        // A call that the user answered brings no event, and is forgotten when the call can ring no more.
        invite(StreamLine.mostCalls + 1)
        #expect(rig.said().isEmpty)
        rig.now += 60_001
        invite(StreamLine.mostCalls + 1)
        #expect(rig.said().count == 1)
    }

    private func told(_ events: DownMessage...) throws -> [String] {
        let stream = try online()
        for event in events { rig.receive("bob", event) }
        return heard(stream).map { $0.replacing("event: /call/notify_", with: "").replacing("\ndata:", with: "") }
    }

    private var invitation: DownMessage { event(.invited, call(1, [bob: .inviting])) }

    @Test(arguments: [
        (EventName.cancelled, MemberState.cancelled), (.handledElsewhere, .accepted), (.handledElsewhere, .rejected),
    ])
    func whatStopsTheRingingIsACancel(_ name: EventName, _ state: MemberState) throws {
        let over = event(name, call(2, [bob: state]), changed: [bob])
        #expect(
            try told(invitation, over).last == #"call_canceled {"call_id":"c","caller_id":"alice","callee_id":"bob"}"#)
    }

    @Test func whatNeverRangIsNotCancelled() throws {
        #expect(try told(event(.cancelled, call(2, [bob: .cancelled]), changed: [bob])).isEmpty)
    }

    @Test func anInvitationThatExpiredIsToldToNobody() throws {
        let over = call(2, [bob: .timeout], state: .ended, reason: .timeout)
        #expect(try told(invitation, event(.timeout, over, changed: [bob])).count == 1)
    }

    @Test func anEndIsToldToWhoIsInTheCallOrRings() throws {
        for state in [MemberState.accepted, .received] {
            let rig = StreamLinesTests()
            let over = call(3, [bob: state], state: .ended, reason: .hangup, endedBy: alice)
            #expect(try rig.told(event(.ended, over)).last == #"call_end {"call_id":"c","id":"alice"}"#)
        }
    }

    @Test func whoFellSilentIsATimeoutAndNoEndFollows() throws {
        var over = call(3, [alice: .quit], state: .ended, reason: .heartbeatTimeout)
        over.members[0].reason = "heartbeatTimeout"
        #expect(try told(event(.ended, over, changed: [alice])) == [#"timeout {"call_id":"c","id":"alice"}"#])
    }

    @Test func whoFellSilentItselfIsToldNothing() throws {
        let over = call(3, [bob: .quit], state: .ended, reason: .heartbeatTimeout, memberReason: "heartbeatTimeout")
        #expect(try told(event(.ended, over, changed: [bob])).isEmpty)
    }

    // MARK: The caller

    private func toldToAlice(_ events: DownMessage...) throws -> [String] {
        let stream = try online("alice")
        for event in events { rig.receive("alice/zegocall", event) }
        return heard(stream).map { $0.replacing("event: /call/notify_", with: "").replacing("\ndata:", with: "") }
    }

    @Test func anAnswerIsToldOnceAlsoWhenASecondEventNamesIt() throws {
        let received = event(.userStateChanged, call(2, [bob: .received]), changed: [bob])
        let accepted = event(.userStateChanged, call(3, [bob: .accepted], state: .active), changed: [bob])
        let again = event(.userStateChanged, call(4, [bob: .accepted], state: .active), changed: [bob])
        #expect(
            try toldToAlice(received, accepted, again) == [#"call_accept {"call_id":"c","callee_id":"bob"}"#])
    }

    @Test(arguments: [("declined", 1), ("busy", 2), ("later", 1)])
    func aDeclineIsToldOnceAndNoEndFollows(_ reason: String, _ type: Int) throws {
        let over = call(
            2, [bob: .rejected], state: .ended, reason: reason == "busy" ? .busy : .rejected, memberReason: reason)
        #expect(
            try toldToAlice(event(.ended, over, changed: [bob]))
                == [#"call_decline {"call_id":"c","callee_id":"bob","type":\#(type)}"#])
    }

    @Test func anAnswerThatWasMissedIsToldBeforeTheEnd() throws {
        let over = call(4, [bob: .accepted], state: .ended, reason: .hangup, endedBy: bob)
        #expect(
            try toldToAlice(event(.ended, over, changed: [bob])) == [
                #"call_accept {"call_id":"c","callee_id":"bob"}"#, #"call_end {"call_id":"c","id":"bob"}"#,
            ])
    }

    @Test func whatTheCallerGaveIsToldUnlessItNamesAnotherCall() throws {
        let given = ZegoCall(
            id: "c", caller: .init(id: "alice", name: "A"), callees: [.init(id: "bob", name: "B")], kind: .voice)
        #expect(ZegoCall(call(1, [:], data: given.extendedData)) == given)
        for forged in [
            ZegoCall(id: "d", caller: given.caller, callees: [], kind: .voice),
            ZegoCall(id: "c", caller: given.callees[0], callees: [], kind: .voice),
        ] {
            let taken = ZegoCall(call(1, [:], data: forged.extendedData))
            #expect(taken.id == "c" && taken.caller == .init(id: "alice", name: "alice") && taken.kind == .video)
        }
    }
}

extension HTTPStream {
    /// The text that waits for the client.
    fileprivate var waitingText: String { String(decoding: waitingBytes, as: UTF8.self) }
}

extension String {
    fileprivate func components(_ separator: String) -> [String] {
        split(separator: separator, omittingEmptySubsequences: true).map(String.init)
    }
}
