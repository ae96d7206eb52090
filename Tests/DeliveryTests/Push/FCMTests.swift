import CallCore
import HTTPSending
import SignalingProtocol
import Testing
import Tokens

@testable import Delivery

struct FCMTests {
    private let providers = PushProviders(providerSettings)

    /// Returns providers with the access token `t1`, which counts for an hour.
    private func authorized(_ life: Int = 3_600) throws -> PushProviders {
        _ = try providers.tokenRequest(try push(.fcm), id: 100)
        let granted = answer(100, 200, #"{"access_token":"t1","expires_in":\#(life),"token_type":"Bearer"}"#)
        #expect(providers.tokenAnswered(granted, now: start) == .ready)
        return providers
    }

    @Test func aTokenIsAskedForOnce() throws {
        let request = try providers.tokenRequest(try push(.fcm), id: 5)
        #expect(request.url == "https://oauth.example/token" && request.isToProvider && request.id == 5)
        #expect(request[header: "content-type"] == "application/x-www-form-urlencoded")
        let start = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion="
        let body = text(request.body)
        try #require(body.hasPrefix(start))
        let claims = try claims(String(body.dropFirst(start.count)), Keys.account, keyID: "k1")
        #expect(claims["iss"]?.string == "push@example.iam" && claims["aud"]?.string == "https://oauth.example/token")
        #expect(claims["scope"]?.string == "https://www.googleapis.com/auth/firebase.messaging")
        #expect(claims["iat"]?.integer == 1_790_000_000 && claims["exp"]?.integer == 1_790_003_600)
        guard case .waitForToken(nil) = providers.prepare(try push(.fcm), id: 6, now: DeliveryTests.start) else {
            throw Unexpected("asked twice")
        }
        #expect(providers.tokenAnswered(answer(6, 200), now: DeliveryTests.start) == nil)
    }

    @Test func aRing() throws {
        let request = try authorized().request(try push(.fcm))
        #expect(request.url == "https://fcm.example/v1/projects/example/messages:send")
        #expect(request[header: "authorization"] == "Bearer t1" && request.isToProvider)
        let message = try #require(try json(request.body)["message"]?.object)
        #expect(message.fields.map(\.key) == ["token", "data", "android"] && message["token"]?.string == "a1b2")
        #expect(message["android"]?.object?["priority"]?.string == "HIGH")
        #expect(message["android"]?.object?["ttl"]?.string == "30s")
        let data = try #require(message["data"]?.object)
        #expect(data.fields.count == 1)
        #expect(try json(Array(try #require(data["bellwire"]?.string).utf8))["kind"]?.string == "ring")
    }

    @Test func whatWasMissedIsShownUnlessTheDeviceWasRung() throws {
        let providers = try authorized()
        let shown = try #require(try json(try providers.request(try push(.fcm, .missed)).body)["message"]?.object)
        #expect(shown["notification"]?.object?["title"]?.string == "Alice")
        #expect(shown["notification"]?.object?["body"]?.string == "Missed call")
        #expect(shown["android"]?.object?["ttl"]?.string == "86400s")
        let rung = try providers.request(try push(.fcm, .missed, wasRung: true))
        #expect(try json(rung.body)["message"]?.object?["notification"] == nil)
        #expect(try json(try providers.request(try push(.fcm, .stop)).body)["message"]?.object?["notification"] == nil)
    }

    @Test func theRestOfTheRingingIsNeverBelowZero() throws {
        let request = try authorized().request(try push(.fcm, .stop), now: start + 40_000)
        #expect(try json(request.body)["message"]?.object?["android"]?.object?["ttl"]?.string == "0s")
    }

    @Test(arguments: [(3_600, 3_300), (600, 300), (60, 30)])
    func aTokenIsKeptUntilFiveMinutesBeforeItsEnd(_ life: Int, _ kept: Milliseconds) throws {
        let providers = try authorized(life)
        _ = try providers.request(try push(.fcm), now: start + kept * 1_000 - 1)
        _ = try providers.tokenRequest(try push(.fcm), id: 101, now: start + kept * 1_000)
    }

    @Test func aTokenThatIsNotGrantedIsAskedForLater() throws {
        let push = try push(.fcm)
        _ = try providers.tokenRequest(push, id: 1)
        let refused = answer(1, 401, #"{"error":"invalid_grant","error_description":"secret"}"#)
        let reason = "no access token: status 401, invalid_grant"
        #expect(providers.tokenAnswered(refused, now: start) == .failed(after: 1_000, reason: reason))
        guard case .again(500, reason) = providers.prepare(push, id: 2, now: start + 500) else {
            throw Unexpected("asked too early")
        }
        _ = try providers.tokenRequest(push, id: 3, now: start + 1_000)
        let lost = HTTPAnswer(id: 3, outcome: .failed(reason: "lost", wasHandedOver: true), took: 1)
        #expect(providers.tokenAnswered(lost, now: start) == .failed(after: 2_000, reason: "no access token: lost"))
        _ = try providers.tokenRequest(push, id: 4, now: start + 9_000)
        guard case .failed(30_000, _)? = providers.tokenAnswered(answer(4, 503, retryAfter: 30), now: start) else {
            throw Unexpected("Retry-After counts")
        }
    }

    @Test(arguments: [
        "", "[]", #"{"access_token":"t"}"#, #"{"access_token":"","expires_in":60}"#,
        #"{"access_token":"a\r\nb","expires_in":60}"#, #"{"access_token":"t","expires_in":0}"#,
        #"{"access_token":"t","expires_in":"60"}"#,
    ])
    func whatIsNoTokenIsNone(_ body: String) throws {
        _ = try providers.tokenRequest(try push(.fcm), id: 1)
        let reason = "no access token: status 200"
        #expect(providers.tokenAnswered(answer(1, 200, body), now: start) == .failed(after: 1_000, reason: reason))
    }

    @Test(arguments: ["", #"{"error":{"code":401,"status":"UNAUTHENTICATED"}}"#])
    func aRefusedTokenIsAskedForAnew(_ body: String) throws {
        let providers = try authorized()
        var push = try push(.fcm)
        _ = try providers.request(push, id: 1)
        _ = try providers.request(push, id: 2)
        #expect(providers.verdict(of: answer(1, 401, body), for: push, now: start).step == .newToken)
        push.hasNewToken = true
        _ = try providers.tokenRequest(push, id: 3)
        let granted = answer(3, 200, #"{"access_token":"t2","expires_in":3600}"#)
        #expect(providers.tokenAnswered(granted, now: start) == .ready)
        #expect(try providers.request(push, id: 4)[header: "authorization"] == "Bearer t2")
        // A push that was under way with the former token takes the new token, and does not end the new token.
        push.hasNewToken = false
        #expect(providers.verdict(of: answer(2, 401, body), for: push, now: start).step == .newToken)
        #expect(try providers.request(push, id: 5)[header: "authorization"] == "Bearer t2")
        push.hasNewToken = true
        #expect(providers.verdict(of: answer(4, 401, body), for: push, now: start).step == .refused)
    }

    /// Any user can register such a token: all other users go on with the access token that they share.
    @Test(arguments: [(403, "SENDER_ID_MISMATCH"), (401, "THIRD_PARTY_AUTH_ERROR"), (403, nil)])
    func whatIsWrongWithOneRegistrationIsNotTheAccessToken(_ status: Int, _ code: String?) throws {
        let providers = try authorized()
        let push = try push(.fcm)
        let body = Self.error(status == 401 ? "UNAUTHENTICATED" : "PERMISSION_DENIED", code)
        for id in UInt64(1)...20 {
            _ = try providers.request(push, id: id)
            let verdict = providers.verdict(of: answer(id, status, body), for: push, now: start)
            #expect(verdict == PushVerdict(.refused, status: status, reason: code ?? "PERMISSION_DENIED"))
        }
        #expect(try providers.request(push, id: 21)[header: "authorization"] == "Bearer t1")
    }

    /// The number of requests for tokens is bounded, however the provider treats its own tokens.
    @Test func refusalsWithoutEndDoNotAskForEverNewTokens() throws {
        let push = try push(.fcm)
        var granted = 0
        for id in UInt64(0)..<100 {
            switch providers.prepare(push, id: id, now: start) {
            case .waitForToken(let request?):
                granted += 1
                let body = #"{"access_token":"t\#(granted)","expires_in":3600}"#
                #expect(providers.tokenAnswered(answer(request.id, 200, body), now: start) == .ready)
            case .send(let request): _ = providers.verdict(of: answer(request.id, 401), for: push, now: start)
            case .waitForToken(nil), .again, .refused: throw Unexpected("it goes on")
            }
        }
        #expect(granted == 11)
    }

    @Test(arguments: [
        (200, "{}", PushVerdict.Step.sent, nil),
        (404, error("NOT_FOUND", "UNREGISTERED"), .gone, "UNREGISTERED"),
        (404, error("NOT_FOUND", nil), .refused, "NOT_FOUND"), (404, "", .refused, nil), (410, "", .refused, nil),
        (400, error("INVALID_ARGUMENT", "INVALID_ARGUMENT"), .refused, "INVALID_ARGUMENT"),
        (400, error("X", "UNREGISTERED"), .refused, "UNREGISTERED"),
        (429, error("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), .again(after: nil), "QUOTA_EXCEEDED"),
        (503, error("UNAVAILABLE", nil), .again(after: nil), "UNAVAILABLE"),
    ])
    func answersMeanWhatTheySay(_ status: Int, _ body: String, _ step: PushVerdict.Step, _ reason: String?) throws {
        let verdict = providers.verdict(of: answer(9, status, body), for: try push(.fcm), now: start)
        #expect(verdict == PushVerdict(step, status: status, reason: reason))
    }

    private static func error(_ status: String, _ code: String?) -> String {
        let details = code.map {
            #","details":[{"@type":"x"},{"@type":"type.googleapis.com/google.firebase.fcm.v1.FcmError","errorCode":"\#($0)"}]"#
        }
        return #"{"error":{"code":404,"message":"a1b2","status":"\#(status)"\#(details ?? "")}}"#
    }
}
