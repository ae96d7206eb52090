import CallStore
import SignalingProtocol
import Support
import Testing

@testable import CallCore
@testable import Delivery

/// The spans that are made of a call and its timeline.
@Suite struct CallSpanTests {
    static let start: Milliseconds = 1_790_000_000_000
    private static let parent = TraceParent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")!
    private static let other = TraceParent("00-11111111111111111111111111111111-2222222222222222-01")!

    static func device(_ text: String) -> DeviceAddress {
        let parts = text.split(separator: "/").map(String.init)
        return DeviceAddress(userID: UserID(parts[0])!, deviceID: DeviceID(parts[1])!)
    }

    static func call(_ id: String = "c", endedAfter: Milliseconds = 9_000, _ reason: EndReason = .answered) -> Call {
        let key = RequestKey(device: device("alice/phone"), requestID: RequestID("r")!)
        var call = Call(
            callID: CallID(id)!, mode: .advanced, media: "secret", inviter: UserID("alice")!, createdAt: start,
            timeout: 60, extendedData: "secret", joinPolicy: .invited, autoEnd: true, notReceivedAfter: nil, origin: key
        )
        call.state = .ended
        call.endedAt = start + endedAfter
        call.endReason = reason
        for (user, state) in [("alice", MemberState.accepted), ("bob", .accepted), ("carol", .timeout)] {
            var member = Member(userID: UserID(user)!, state: state, updatedAt: start)
            member.invitedBy = user == "alice" ? nil : UserID("alice")!
            member.reason = "secret"
            call.members.append(member)
        }
        return call
    }

    private static func entry(
        _ after: Milliseconds, _ step: TraceEntry.Step, by coordinator: String = "c1", _ origin: TraceOrigin? = nil
    ) -> TraceEntry { TraceEntry(time: start + after, coordinator: coordinator, step: step, origin: origin) }

    private static func change(_ user: String, _ state: MemberState, _ device: String? = nil) -> MemberChange {
        MemberChange(userID: UserID(user)!, state: state, device: device.map { DeviceID($0)! }, reason: "secret")
    }

    private static func transition(_ revision: Int, _ changes: MemberChange...) -> TraceEntry.Step {
        .transition(revision: revision, state: .ringing, endReason: nil, actor: nil, changes: changes)
    }

    private static func request(_ device: String, _ type: String, _ outcome: String = "ok") -> TraceEntry.Step {
        .request(Self.device(device), type: type, outcome: outcome)
    }

    static let story: [TraceEntry] = [
        entry(0, request("alice/phone", "call.invite"), TraceOrigin(parent: parent, waited: 1_500, served: 2_500)),
        entry(0, transition(1, change("alice", .accepted), change("bob", .inviting))),
        entry(0, .send(.invited, to: UserID("bob")!, device: nil, revision: 1, online: 1, isResend: false)),
        entry(1_000, .send(.invited, to: UserID("bob")!, device: nil, revision: 1, online: 1, isResend: true)),
        entry(1_100, .ack(device("bob/phone"), revision: 1), by: "c2"),
        entry(1_100, transition(2, change("bob", .received)), by: "c2"),
        entry(
            2_000, request("alice/phone", "call.add"), by: "c2", TraceOrigin(parent: other, waited: 0, served: 1_000)),
        entry(2_000, transition(3, change("carol", .inviting)), by: "c2"),
        entry(
            2_500,
            .push(
                PushStep(
                    device: device("carol/phone"), platform: .fcm, kind: .ring, outcome: .sent, status: 200, took: 40)),
            by: "g1"),
        entry(3_000, request("bob/phone", "call.accept"), by: "c2", TraceOrigin(parent: nil, waited: 0, served: 900)),
        entry(3_000, transition(4, change("bob", .accepted, "phone")), by: "c2"),
        entry(3_100, request("erin/phone", "call.join", "callNotFound"), by: "c2"),
        entry(8_000, .deadline(late: 3)), entry(8_000, transition(5, change("carol", .timeout))),
        entry(9_000, transition(6, change("bob", .quit))),
    ]

    static func spans(
        _ call: Call = call(), _ entries: [TraceEntry] = story, apart: Milliseconds = 0
    ) -> [Span] {
        let clock = SpanClock(wall: WallTime(milliseconds: start + 20_000 + apart), storeTime: start + 20_000)
        return CallSpans.spans(of: call, Timeline(entries: entries), clock)
    }

    private func text(_ span: Span, _ key: String) -> Span.Value? {
        span.attributes.first { "\($0.key)" == key }?.value
    }

    @Test func aCallHasASpanForItselfForEachInvitationAndForEachRequest() throws {
        let spans = Self.spans()
        #expect(
            spans.map(\.name) == [
                "call", "call.invite", "call.add", "call.accept", "invitation", "call.join", "invitation",
            ])
        #expect(Set(spans.map(\.place.spanID)).count == spans.count)
        let root = spans[0]
        #expect(root.place.traceID == Self.parent.traceID && root.parentID == Self.parent.spanID)
        #expect(root.start == (Self.start * 1_000 - 1_500) * 1_000, "from reading the request")
        #expect(root.end == (Self.start + 9_000) * 1_000_000)
        #expect(text(root, "bellwire.call.end_reason") == .text("answered") && root.failure == nil)
        #expect(root.events.map(\.name) == ["accepted", "deadline", "quit"])
        let invite = spans[1]
        #expect(invite.parentID == root.place.spanID && invite.end - invite.start == 4_000_000)
    }

    @Test func anInvitationTellsWhereItsTimeWent() throws {
        let spans = Self.spans()
        let bob = try #require(spans.first { text($0, "user.id") == .text("bob") && $0.name == "invitation" })
        #expect(bob.events.map(\.name) == ["send", "resend", "ack", "received"])
        #expect(bob.events.map { $0.time / 1_000_000 - Self.start } == [0, 1_000, 1_100, 1_100])
        #expect(bob.end - bob.start == 3_000_000_000 && bob.parentID == spans[0].place.spanID)
        #expect(text(bob, "bellwire.outcome") == .text("accepted") && text(bob, "device.id") == .text("phone"))
        #expect(text(bob, "bellwire.acked") == .flag(true) && bob.failure == nil && bob.coordinator == "c1")
        let process = bob.events[2].attributes.first { "\($0.key)" == "bellwire.process" }
        #expect(process?.value == .text("c2"))
        let carol = try #require(spans.first { text($0, "user.id") == .text("carol") })
        #expect(carol.events.map(\.name) == ["push"] && carol.failure == "no device has acknowledged")
    }

    @Test func aParentOfALaterRequestIsTheParentOfItsSpans() throws {
        let spans = Self.spans()
        let add = try #require(spans.first { $0.name == "call.add" })
        let carol = try #require(spans.first { text($0, "user.id") == .text("carol") })
        for span in [add, carol] {
            #expect(span.place.traceID == Self.other.traceID && span.parentID == Self.other.spanID)
            #expect(span.link == spans[0].place)
        }
        let join = try #require(spans.first { $0.name == "call.join" })
        #expect(join.failure == "callNotFound" && join.parentID == spans[0].place.spanID && join.link == nil)
    }

    @Test func withoutAParentTheTraceFollowsFromTheCall() {
        let plain = Self.story.map { TraceEntry(time: $0.time, coordinator: $0.coordinator, step: $0.step) }
        let spans = Self.spans(Self.call(), plain)
        #expect(spans[0].parentID == nil && Set(spans.map(\.place.traceID)).count == 1)
        #expect(Self.spans(Self.call(), plain) == spans, "the same ids whoever makes the spans")
        #expect(Self.spans(Self.call("d"), plain)[0].place.traceID != spans[0].place.traceID)
        #expect(spans[0].place.traceID.count == 32 && spans[0].place.spanID.count == 16)
    }

    @Test func timesAreThoseOfTheWallClock() {
        let (here, there) = (Self.spans(), Self.spans(apart: 7_200_000))
        for (a, b) in zip(here, there) {
            #expect(b.start - a.start == 7_200_000_000_000 && b.end - a.end == 7_200_000_000_000)
            #expect(zip(a.events, b.events).allSatisfy { $1.time - $0.time == 7_200_000_000_000 })
        }
    }

    @Test func aTimelineThatLostItsBeginningStillHasItsInvitations() {
        #expect(Self.spans(Self.call(), Array(Self.story.suffix(1))).map(\.name) == ["call"])
        #expect(Self.spans(Self.call(), Array(Self.story.suffix(2))).map(\.name) == ["call", "invitation"])
        let late = Self.spans(Self.call(), [Self.entry(3_000, Self.transition(4, Self.change("bob", .accepted)))])
        #expect(late.map(\.name) == ["call", "invitation"])
    }

    @Test func usersTextsAreInNoSpan() throws {
        let text = String(decoding: SpanEncoding.encoded(Self.spans(), version: "1"), as: UTF8.self)
        #expect(!text.contains("secret") && text.contains("alice"))
    }

    @Test func theEncodingIsThatOfOTLP() throws {
        let body = SpanEncoding.body([
            SpanEncoding.encoded(Self.spans(), version: "1.2"), SpanEncoding.encoded(Self.spans(), version: "1.2"),
        ])
        guard case .object(let json) = try JSONParser.parse(body) else {
            Issue.record("no object")
            return
        }
        let resources = try #require(json["resourceSpans"]?.array).compactMap(\.object)
        #expect(resources.count == 4, "two coordinators, twice")
        let instance = resources[0]["resource"]?.object?["attributes"]?.array?[1].object
        #expect(instance?["key"]?.string == "service.instance.id")
        #expect(instance?["value"]?.object?["stringValue"]?.string == "c1")
        let spans = resources[0]["scopeSpans"]?.array?[0].object?["spans"]?.array?.compactMap(\.object)
        let root = try #require(spans?.first)
        #expect(root["traceId"]?.string == Self.parent.traceID && root["parentSpanId"]?.string == Self.parent.spanID)
        #expect(root["startTimeUnixNano"]?.string == "1789999999998500000" && root["kind"]?.integer == 1)
    }
}
