import CallCore
import SignalingProtocol
import Testing

@testable import Delivery

/// Webhooks in the shape of ZEGO Call's business-server protocol (docs/webhooks.md).
@Suite struct ZegoCallFormatTests {
    /// Path, user and body of each notification.
    private func told(_ call: Call) -> [String] {
        let event = WebhookEvent(call: call)
        #expect(WebhookFormat.zegoCall.tells(event) == !notifications(event).isEmpty)
        return notifications(event)
    }

    private func notifications(_ event: WebhookEvent) -> [String] {
        let body = WebhookBody(event, format: .zegoCall)
        #expect(body.contentType == "application/json")
        let json = (try? JSONParser.parse(body.bytes))?.object
        return (json?["notifications"]?.array ?? []).compactMap(\.object).map { notification in
            let id = notification["body"]?.object?["id"]?.string ?? ""
            return "\(notification["path"]?.string ?? "") \(notification["to"]?.string ?? "") \(id)"
        }
    }

    @Test func anInvitationIsToldToEachCallee() throws {
        let machine = try invited(.advanced, [bob, carol])
        let paths = ["bob", "carol"].map { "/call/notify_call_invited \($0) " }
        #expect(told(machine.call) == paths)
    }

    @Test func theBodyIsTheDocuments() throws {
        let body = WebhookBody(WebhookEvent(call: try invited().call), format: .zegoCall)
        let expected =
            #"{"notifications":[{"path":"/call/notify_call_invited","to":"bob","body":{"call_id":"call-1","#
            + #""caller":{"id":"alice","name":"alice"},"callees":[{"id":"bob","name":"bob"}],"type":1,"call_type":1}}]}"#
        #expect(text(body.bytes) == expected)
    }

    @Test func anAnswerIsToldToTheCaller() throws {
        var machine = try invited()
        try machine.accept(bob)
        #expect(told(machine.call) == ["/call/notify_call_accept alice "])
        try machine.endRequested(.init(callID: callID), acting(bob))
        #expect(told(machine.call) == ["/call/notify_call_end alice bob"])
    }

    @Test func whoStaysInTheCallHasNotAnsweredAgain() throws {
        var machine = try invited()
        try machine.accept(bob)
        try machine.joinRequested(
            .init(callID: callID), acting(bob, web, now: start + 1), activeElsewhere: nil, profile: nil)
        #expect(told(machine.call).isEmpty)
        try machine.endRequested(.init(callID: callID, reason: "done"), acting(bob, web, now: start + 1))
        #expect(told(machine.call) == ["/call/notify_call_end alice bob"])
    }

    @Test func aDeclineIsToldAndNoEndWithIt() throws {
        var machine = try invited()
        try machine.rejectRequested(.init(callID: callID, reason: "busy"), acting(bob), isCheck: false)
        #expect(!machine.call.isLive && told(machine.call) == ["/call/notify_call_decline alice "])
    }

    @Test func aCancelIsToldToTheCalleeUnlessTheCallNeverBegan() throws {
        var machine = try invited()
        _ = try machine.cancelRequested(.init(callID: callID), acting(alice))
        #expect(told(machine.call) == ["/call/notify_call_canceled bob "])
        #expect(told(try invited(isCancelled: true).call).isEmpty)
    }

    @Test func anInvitationThatExpiredIsToldToNobody() throws {
        var machine = try invited()
        machine.timePasses(to: start + 60_000)
        #expect(!machine.call.isLive && told(machine.call).isEmpty)
    }

    @Test func oneWhoFellSilentIsToldToTheOther() throws {
        var machine = try invited()
        try machine.accept(bob)
        machine.deadlineReached(
            .init(now: start + 60_000, heard: [bob: start + 59_000], listeningSince: 0, isInviterOnline: true))
        #expect(told(machine.call) == ["/call/notify_timeout bob alice"])
    }

    @Test func aMessageIsNoneOfThem() {
        let event = WebhookEvent(type: .messageSent, id: "m", time: 1, data: bytes(#"{"messageID":"m"}"#))
        #expect(!WebhookFormat.zegoCall.tells(event) && WebhookFormat.standard.tells(event))
    }
}
