import CallCore
import HTTPSending
import SignalingProtocol
import Testing
import Tokens

@testable import Delivery

struct APNsTests {
    private let providers = PushProviders(providerSettings)

    @Test func aRingForVoIP() throws {
        let push = try push(.apnsVoIP)
        let request = try providers.request(push)
        #expect(request.url == "https://apns.example/3/device/a1b2")
        #expect(request.isToProvider && request.method == .post && request.timeout == 10_000)
        let expected = [
            "apns-topic": "com.example.app.voip", "apns-push-type": "voip", "apns-priority": "10",
            "apns-expiration": "1790000030", "apns-id": push.uuid,
        ]
        for (name, value) in expected { #expect(request[header: name] == value) }
        #expect(request[header: "apns-collapse-id"] == nil)
        let body = try json(request.body)
        #expect(body.fields.map(\.key) == ["aps", "bellwire"] && body["aps"]?.object?.fields.isEmpty == true)
        #expect(body["bellwire"]?.object?["callID"]?.string == "call-1")
    }

    @Test func anAlert() throws {
        let request = try providers.request(try push(.apns, .missed))
        #expect(request[header: "apns-topic"] == "com.example.app" && request[header: "apns-push-type"] == "alert")
        #expect(request[header: "apns-collapse-id"] == "call-1")
        #expect(request[header: "apns-expiration"] == "1790086400")
        let aps = try #require(try json(request.body)["aps"]?.object)
        #expect(aps["alert"]?.object?["title"]?.string == "Alice")
        #expect(aps["alert"]?.object?["body"]?.string == "Missed call")
        #expect(aps["sound"]?.string == "default" && aps["mutable-content"]?.integer == 1)
    }

    @Test func whatIsLongIsCutToFit() throws {
        let said = Request.Push(
            content: String(repeating: "b", count: 2_048), payload: String(repeating: "p", count: 2_048))
        let alert = try providers.request(try push(.apns, said: said)).body
        #expect((4_093...4_096).contains(alert.count))
        let voIP = try json(try providers.request(try push(.apnsVoIP, said: said)).body)
        #expect(voIP["bellwire"]?.object?["payload"]?.string == said.payload)
    }

    @Test func aTokenStaysInItsPlaceOfThePath() throws {
        let request = try providers.request(try push(.apns, token: "../a?b#c d\r\n"))
        #expect(request.url == "https://apns.example/3/device/..%2Fa%3Fb%23c%20d%0D%0A")
        guard
            case .refused = providers.prepare(
                try push(.apns, token: String(repeating: "a", count: 4_096)), id: 1, now: start)
        else { throw Unexpected("a URL that is too long") }
    }

    private func bearer(_ now: Milliseconds, id: UInt64 = 1) throws -> String {
        let header = try #require(try providers.request(try push(.apns), id: id, now: now)[header: "authorization"])
        try #require(header.hasPrefix("bearer "))
        return String(header.dropFirst(7))
    }

    @Test func theTokenIsMadeAnewAfterFortyMinutes() throws {
        let first = try bearer(start)
        let claims = try claims(first, Keys.apns, keyID: "ABC123")
        #expect(claims["iss"]?.string == "DEF456" && claims["iat"]?.integer == start / 1_000)
        #expect(claims.fields.count == 2)
        #expect(try bearer(start + 2_399_999) == first)
        #expect(try bearer(start + 2_400_000) != first)
    }

    @Test(arguments: [401, 403])
    func aRefusedTokenIsMadeAnewIfItIsOlderThanTwentyMinutes(_ status: Int) throws {
        var push = try push(.apns)
        let first = try bearer(start, id: 1)
        let refusal = answer(1, status, #"{"reason":"ExpiredProviderToken"}"#)
        let early = providers.verdict(of: refusal, for: push, now: start + 1_200_000)
        #expect(early == PushVerdict(.refused, status: status, reason: "ExpiredProviderToken"))
        _ = try bearer(start, id: 1)
        _ = try bearer(start, id: 2)
        let later = start + 1_200_001
        #expect(providers.verdict(of: refusal, for: push, now: later).step == .newToken)
        let second = try bearer(later, id: 3)
        #expect(second != first)
        // This push was under way with the former token.
        #expect(providers.verdict(of: answer(2, status), for: push, now: later).step == .newToken)
        #expect(try bearer(later, id: 4) == second)
        push.hasNewToken = true
        #expect(providers.verdict(of: answer(3, status), for: push, now: later).step == .refused)
    }

    @Test(arguments: [
        (200, "", PushVerdict.Step.sent, nil), (400, #"{"reason":"BadDeviceToken"}"#, .refused, "BadDeviceToken"),
        (404, "", .refused, nil), (413, #"{"reason":"PayloadTooLarge"}"#, .refused, "PayloadTooLarge"),
        (429, #"{"reason":"TooManyRequests"}"#, .again(after: nil), "TooManyRequests"),
        (500, "no JSON", .again(after: nil), nil), (503, #"{"reason":"a b\r\nc"}"#, .again(after: nil), nil),
        (302, "", .refused, nil),
        (410, #"{"reason":"Unregistered","timestamp":1790000000124}"#, .gone, "Unregistered"),
        (410, #"{"reason":"Unregistered","timestamp":1790000000123}"#, .refused, "Unregistered"),
        (410, #"{"reason":"Unregistered"}"#, .refused, "Unregistered"), (410, "", .refused, nil),
    ])
    func answersMeanWhatTheySay(_ status: Int, _ body: String, _ step: PushVerdict.Step, _ reason: String?) throws {
        let verdict = providers.verdict(of: answer(9, status, body), for: try push(.apns), now: start)
        #expect(verdict == PushVerdict(step, status: status, reason: reason))
    }

    @Test func whatHasNoAnswerMayBeTriedAgain() throws {
        let push = try push(.apns)
        func verdict(_ outcome: HTTPAnswer.Outcome) -> PushVerdict {
            providers.verdict(of: HTTPAnswer(id: 9, outcome: outcome, took: 1), for: push, now: start)
        }
        #expect(verdict(.notHandedOver) == PushVerdict(.notHandedOver))
        #expect(verdict(.notTried(reason: "r")) == PushVerdict(.again(after: nil), reason: "r"))
        #expect(verdict(.failed(reason: "r", wasHandedOver: true)) == PushVerdict(.again(after: nil), reason: "r"))
        let limited = providers.verdict(of: answer(9, 429, retryAfter: 7), for: push, now: start)
        #expect(limited.step == .again(after: 7_000))
    }

    @Test func anAppOrPlatformThatTheSettingsDoNotHaveIsRefused() throws {
        let other = OutgoingPush(registration(.fcm, app: AppName("other")!), try content(), invitation: 1)
        let none = PushProviders(PushSettings(publicURL: nil, apps: [.standard: PushApp()]))
        for (providers, push) in [(providers, other), (none, try push(.fcm)), (none, try push(.webPush))] {
            guard case .refused = providers.prepare(push, id: 1, now: start) else { throw Unexpected("not refused") }
        }
    }
}
