import CallCore
import CallStore
import SignalingProtocol
import Testing

@testable import Coordinator

/// The durations that a coordinator measures for `/metrics`.
struct DurationTests {
    private let world = World()

    private var durations: Histograms { world.service.counters.durations }

    private func lines(_ prefix: String) -> [Substring] {
        durations.text.split(separator: "\n").filter { $0.hasPrefix(prefix) }
    }

    // MARK: Requests

    @Test func aRequestIsMeasuredByTypeAndOutcome() {
        let alice = world.phone("alice/phone")
        _ = world.phone("bob/phone")
        alice.invite("bob")
        alice.get("none")
        #expect(durations[.request, "call.invite", "ok"]?.count == 1)
        #expect(durations[.request, "call.get", "callNotFound"]?.count == 1)
        #expect(durations[.request, "call.get", "ok"] == nil)
    }

    @Test func aMessageThatIsNoRequestSharesAHistogram() {
        world.send("bellwire/v1/up/alice/phone", #"{"type":"mine","id":"x"}"#)
        world.send("bellwire/v1/up/alice/phone", #"{"type":"yours","id":"y"}"#)
        #expect(durations[.request, "unreadable", "unknownType"]?.count == 2)
        #expect(lines("bellwire_request_seconds_count").count == 1)
    }

    @Test func theTimeFromReadingToHandingOverCounts() {
        let service = world.service
        var message = OutboundMessage(topic: "t", payload: [], expirySeconds: 1)
        message.timing = .response(RequestOrigin(type: "call.accept", readAt: 1_000), outcome: "ok")
        var ring = OutboundMessage(topic: "t", payload: [], expirySeconds: 1)
        ring.timing = .ring(readAt: 2_000)
        service.stopwatch = { 3_500 }
        service.handedOver([message, ring, OutboundMessage(topic: "t", payload: [], expirySeconds: 1)])
        #expect(
            lines("bellwire_request_seconds_sum") == [
                #"bellwire_request_seconds_sum{type="call.accept",outcome="ok"} 0.0025"#
            ])
        #expect(lines("bellwire_ring_seconds_sum") == ["bellwire_ring_seconds_sum 0.0015"])
    }

    // MARK: Rings

    @Test func aRequestThatRingsIsMeasuredASingleTime() {
        let alice = world.phone("alice/phone")
        _ = world.phone("bob/phone")
        _ = world.phone("bob/tablet")
        _ = world.phone("carol/phone")
        alice.invite("bob", "carol")
        #expect(durations[.ring, "", ""]?.count == 1)
    }

    @Test func whatRingsNobodyIsNotMeasured() {
        let alice = world.phone("alice/phone")
        alice.invite("bob")
        world.pass(seconds: 10)
        #expect(durations[.ring, "", ""] == nil, "bob has no device")
        _ = world.phone("bob/phone")
        world.pass(seconds: 10)
        #expect(durations[.ring, "", ""] == nil, "the invitation was sent because bob came online")
    }

    @Test func aResendIsNotMeasured() {
        let alice = world.phone("alice/phone")
        _ = world.phone("bob/phone", acks: false)
        alice.invite("bob")
        world.pass(seconds: 10)
        #expect(durations[.ring, "", ""]?.count == 1)
    }

    // MARK: Acks

    /// Notes, as the push worker does, that bob's phone was sent a push for its invitation.
    private func pushToBob() {
        let bob = DeviceAddress(userID: UserID("bob")!, deviceID: DeviceID("phone")!)
        let push = PushState(PushRegistration.Key(bob, .standard, .fcm), invitation: 1, ring: .sent)
        world.memory.note([.push(callID, push)])
    }

    @Test func eachDevicesFirstAckIsMeasuredSinceTheInvitation() {
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone", acks: false)
        let tablet = world.phone("bob/tablet", acks: false)
        alice.invite("bob")
        world.pass(700)
        bob.ack(1)
        bob.ack(1)
        world.pass(2_000)
        tablet.ack(2)
        tablet.ack(2)
        #expect(durations[.ringAck, "connected", ""]?.count == 2)
        #expect(lines("bellwire_ring_ack_seconds_sum") == [#"bellwire_ring_ack_seconds_sum{platform="connected"} 3.4"#])
    }

    @Test func theAckOfADeviceThatAPushWokeIsMeasuredApart() {
        let alice = world.phone("alice/phone")
        alice.invite("bob")
        pushToBob()
        world.pass(4_000)
        _ = world.phone("bob/phone")
        #expect(durations[.ringAck, "push", ""]?.count == 1)
        #expect(durations[.ringAck, "connected", ""] == nil)
    }

    @Test func aRingCheckIsAnAckAndNotMeasuredAgain() {
        let alice = world.phone("alice/phone")
        alice.invite("bob")
        pushToBob()
        let gateway = world.stranger("bob/server")
        for _ in 0..<2 {
            _ = gateway.request(
                .ringCheck(.init(callID: callID, device: DeviceID("phone")!, invitation: 1, isRejected: false)))
        }
        #expect(durations[.ringAck, "push", ""]?.count == 1)
        _ = world.phone("bob/phone")
        #expect(durations[.ringAck, "push", ""]?.count == 1, "the app connects and acks as well")
    }

    @Test func theAckOfAMemberWhoIsNotRungIsNotMeasured() {
        let alice = world.phone("alice/phone")
        let bob = world.phone("bob/phone")
        alice.invite("bob")
        bob.accept()
        world.pass(seconds: 2)
        #expect(durations[.ringAck, "connected", ""]?.count == 1, "bob's phone; alice acks that bob has accepted")
    }

    // MARK: The text

    @Test func bucketsAreCumulativeAndEndWithInfinity() {
        var histograms = Histograms()
        for value: Int64 in [400, 500, 501, 9_000_000] { histograms.add(.store, value, "read") }
        let text = histograms.text.split(separator: "\n").filter { $0.hasPrefix("bellwire_store_seconds") }
        #expect(text.first == #"bellwire_store_seconds_bucket{operation="read",le="0.0005"} 2"#)
        #expect(text[1] == #"bellwire_store_seconds_bucket{operation="read",le="0.001"} 3"#)
        #expect(text.contains(#"bellwire_store_seconds_bucket{operation="read",le="5"} 3"#))
        #expect(text.contains(#"bellwire_store_seconds_bucket{operation="read",le="+Inf"} 4"#))
        #expect(text.contains(#"bellwire_store_seconds_sum{operation="read"} 9.001401"#))
        #expect(text.last == #"bellwire_store_seconds_count{operation="read"} 4"#)
    }

    @Test func durationsOfAnySizeAreWrittenInDigits() {
        #expect(seconds(0) == "0")
        #expect(seconds(1) == "0.000001")
        #expect(seconds(-1_500_000) == "-1.5")
        #expect(seconds(60_000_000) == "60")
        #expect(!seconds(.max).contains("e"))
        var histograms = Histograms()
        histograms.add(Milestone(name: "media", milliseconds: .max), role: "caller")
        histograms.add(Milestone(name: "media", milliseconds: .max), role: "caller")
        #expect(histograms[.milestone, "other", "caller"]?.count == 2)
    }
}
