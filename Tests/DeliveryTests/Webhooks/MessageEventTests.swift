import CallCore
import SignalingProtocol
import Testing

@testable import Delivery

private func message(_ id: String = "m-1", to recipient: UserID = bob, isWithheld: Bool = false) -> PeerMessage {
    let origin = RequestKey(device: DeviceAddress(userID: alice, deviceID: phone), requestID: RequestID("r")!)
    return PeerMessage(
        Request.Message(to: recipient, data: JSONText(#"{ "a" : 1.0 }"#)!), messageID: MessageID(id)!, origin: origin,
        ttl: 30_000, isWithheld: isWithheld, now: start)
}

@Suite struct MessageEventTests {
    @Test func aMessageIsToldWithItsDataByteForByte() {
        let event = WebhookEvent(message: message())
        #expect(event.type == .messageSent)
        #expect(event.time == start)
        #expect(event.id == "m-1~sent~Ym9i~1790000000123")
        #expect(text(event.data) == #"{"messageID":"m-1","from":"alice","to":"bob","data":{ "a" : 1.0 }}"#)
    }

    @Test func itsEndIsToldWithoutItsData() {
        var delivered = message()
        _ = delivered.acknowledged(now: start + 70)
        let event = WebhookEvent(message: delivered)
        #expect(event.type == .messageDelivered)
        #expect(event.time == start + 70)
        #expect(event.id == "m-1~delivered~Ym9i~1790000000123")
        #expect(text(event.data) == #"{"messageID":"m-1","from":"alice","to":"bob"}"#)
    }

    @Test func aWithheldMessageExpires() {
        var expired = message(isWithheld: true)
        #expect(WebhookEvent(message: expired) == WebhookEvent(message: message()))
        expired.deadlineReached(now: start + 30_000)
        #expect(WebhookEvent(message: expired).type == .messageExpired)
        #expect(WebhookEvent(message: expired).id == "m-1~expired~Ym9i~1790000000123")
    }

    @Test func noTwoEventsShareAnID() throws {
        let ids = ["m", "m_sent", "m_1", "m-sent-Ym9i", "Ym9i"]
        // NFC and NFD are two users, though Swift holds them equal as texts.
        let users = try ["bob", "b.b", "bob ", "Ym9i", "\u{E9}", "e\u{301}", "~", "~sent~"].map {
            try #require(UserID($0))
        }
        var seen: Set<String> = []
        for id in ids {
            for user in users {
                var message = message(id, to: user)
                seen.insert(WebhookEvent(message: message).id)
                _ = message.acknowledged(now: start)
                seen.insert(WebhookEvent(message: message).id)
            }
        }
        #expect(seen.count == ids.count * users.count * 2)
    }

    @Test func theLongestIDFits() throws {
        let longest = try #require(UserID(String(repeating: "ö", count: 32)))
        var message = message(String(repeating: "m", count: 64), to: longest)
        _ = message.acknowledged(now: start)
        let id = WebhookEvent(message: message).id
        #expect(id.utf8.count == 175)
        #expect(id.contains(String(repeating: "m", count: 64)) && !id.contains("."))
    }
}
