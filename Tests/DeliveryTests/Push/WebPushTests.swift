import CallCore
import HTTPSending
import SignalingProtocol
import Testing
import Tokens

@testable import Delivery

struct WebPushTests {
    private let providers = PushProviders(providerSettings)

    @Test func aRing() throws {
        let request = try providers.request(try push(.webPush))
        #expect(request.url == "https://push.example/send/a1b2" && !request.isToProvider)
        #expect(request.allowed == AddressRules() && request.timeout == 10_000 && request.mostAnswer == 65_536)
        #expect(request[header: "ttl"] == "30" && request[header: "urgency"] == "high")
        #expect(request[header: "content-encoding"] == "aes128gcm")
        #expect(request[header: "topic"] == WebPush.topic(callID))
        #expect(try providers.request(try push(.webPush, .missed))[header: "ttl"] == "86400")
        #expect(try providers.request(try push(.webPush, .stop))[header: "topic"] == WebPush.topic(callID))
        // The header has a salt, 4096 and the length of the key; then come the content, its end and a tag.
        #expect(Array(request.body[16..<21]) == [0, 0, 16, 0, 65])
        #expect(request.body.count == 86 + (try content()).leaving(at: start).json.count + 17)
    }

    private func token(_ push: OutgoingPush, _ now: Milliseconds = start, id: UInt64 = 1) throws -> String {
        let header = try #require(try providers.request(push, id: id, now: now)[header: "authorization"])
        let match = try #require(header.wholeMatch(of: /vapid t=([^,]+), k=(.+)/))
        #expect(try String(match.2) == Base64URL.encode(#require(Keys.vapid.publicPoint)))
        return String(match.1)
    }

    private func pushed(to endpoint: String) throws -> OutgoingPush {
        let target = PushTarget.subscription(
            endpoint: endpoint, p256dh: Base64URL.encode(Keys.browser.publicPoint!), auth: "AQIDBAUGBwgJCgsMDQ4PEA==")
        let old = registration(.webPush)
        return OutgoingPush(
            PushRegistration(old.key, target: target, digest: "", since: start), try content(), invitation: 1)
    }

    @Test func theTokenIsForTheOriginOfTheEndpoint() throws {
        let origins = [
            ("https://Push.Example/a?b", "https://push.example"),
            ("https://push.example:443/a", "https://push.example"),
            ("https://push.example:8443/", "https://push.example:8443"), ("https://[::1]:444/x", "https://[::1]:444"),
        ]
        for (endpoint, origin) in origins {
            let claims = try claims(try token(try pushed(to: endpoint)), Keys.vapid, keyID: nil)
            #expect(claims["aud"]?.string == origin && claims["sub"]?.string == "mailto:ops@example.com")
            #expect(claims["exp"]?.integer == start / 1_000 + 12 * 3_600)
        }
    }

    @Test func itIsKeptForTheOrigin() throws {
        let first = try token(try pushed(to: "https://push.example/a"))
        #expect(try token(try pushed(to: "https://push.example/b")) == first)
        #expect(try token(try pushed(to: "https://other.example/b")) != first)
        #expect(try token(try pushed(to: "https://push.example/a"), start + 11 * 3_600_000 - 1) == first)
        #expect(try token(try pushed(to: "https://push.example/a"), start + 11 * 3_600_000) != first)
    }

    @Test func aRefusedTokenIsMadeAnew() throws {
        var push = try push(.webPush)
        let first = try token(push)
        #expect(providers.verdict(of: answer(1, 403), for: push, now: start) == PushVerdict(.newToken, status: 403))
        #expect(try token(push) != first)
        push.hasNewToken = true
        #expect(providers.verdict(of: answer(1, 401), for: push, now: start).step == .refused)
    }

    @Test func anEndpointMayBeAsLongAsARequest() throws {
        let longest = "https://push.example/" + String(repeating: "a", count: 4_075)
        #expect(try providers.request(try pushed(to: longest)).url == longest)
        guard case .refused = providers.prepare(try pushed(to: longest + "a"), id: 1, now: start) else {
            throw Unexpected("not refused")
        }
    }

    @Test(arguments: ["http://push.example/", "https://user@push.example/", "", "https:///", "https://push.example/#a"])
    func whatIsNoEndpointIsRefused(_ endpoint: String) throws {
        guard case .refused = providers.prepare(try pushed(to: endpoint), id: 1, now: start) else {
            throw Unexpected("not refused")
        }
    }

    @Test(arguments: [
        (200, PushVerdict.Step.sent), (201, .sent), (202, .sent), (204, .sent), (404, .gone), (410, .gone),
        (400, .refused), (301, .refused), (413, .refused), (429, .again(after: nil)), (500, .again(after: nil)),
        (502, .again(after: nil)),
    ])
    func answersMeanWhatTheySay(_ status: Int, _ step: PushVerdict.Step) throws {
        let verdict = providers.verdict(
            of: answer(9, status, #"{"reason":"x"}"#), for: try push(.webPush), now: start)
        #expect(verdict == PushVerdict(step, status: status))
    }
}
