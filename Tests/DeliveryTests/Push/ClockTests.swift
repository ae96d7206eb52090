import CallCore
import HTTPSending
import SignalingProtocol
import Support
import Testing
import Tokens

@testable import Delivery

/// The store's time is hours or minutes behind or ahead of the wall clock. Times that providers compare with their
/// clocks follow the wall clock, and the time for which a phone rings follows the store's time (docs/decisions/0024).
@Suite(.serialized) struct ClockTests {
    private static let apart: [Milliseconds] = [-7_200_000, -600_000, 600_000, 7_200_000]

    private func wall(_ apart: Milliseconds) -> WallTime { WallTime(milliseconds: start - apart) }

    @Test(arguments: apart) func whatAppleIsTold(_ apart: Milliseconds) throws {
        let (providers, wall) = (PushProviders(providerSettings), wall(apart))
        let request = try providers.request(try push(.apnsVoIP), now: start + 10_000, wall: wall)
        #expect(request[header: "apns-expiration"] == String((wall.milliseconds + 20_000) / 1_000))
        let token = try #require(request[header: "authorization"]?.dropFirst(7))
        #expect(try claims(String(token), Keys.apns, keyID: "ABC123")["iat"]?.integer == wall.seconds)
        let missed = try providers.request(try push(.apns, .missed), id: 2, wall: wall)
        #expect(missed[header: "apns-expiration"] == String(wall.seconds + 86_400))
    }

    @Test(arguments: apart) func whatGoogleIsTold(_ apart: Milliseconds) throws {
        let (providers, wall) = (PushProviders(providerSettings), wall(apart))
        let asked = try providers.tokenRequest(try push(.fcm), id: 1, wall: wall)
        let assertion = try #require(text(asked.body).split(separator: "=").last)
        let claims = try claims(String(assertion), Keys.account, keyID: "k1")
        #expect(claims["iat"]?.integer == wall.seconds && claims["exp"]?.integer == wall.seconds + 3_600)
    }

    @Test(arguments: apart) func whatBrowsersPushServicesAreTold(_ apart: Milliseconds) throws {
        let (providers, wall) = (PushProviders(providerSettings), wall(apart))
        let request = try providers.request(try push(.webPush), wall: wall)
        #expect(request[header: "ttl"] == "30")
        let token = try #require(request[header: "authorization"]?.dropFirst(8).split(separator: ",").first)
        #expect(try claims(String(token), Keys.vapid, keyID: nil)["exp"]?.integer == wall.seconds + 43_200)
    }

    /// Apple takes no token from the future, and no token that is older than an hour.
    @Test(arguments: [-7_200_000, 7_200_000] as [Milliseconds])
    func aTokenOfAClockThatWasPutRightIsMadeAnew(_ apart: Milliseconds) throws {
        let providers = PushProviders(providerSettings)
        let right = WallTime(milliseconds: start)
        let platforms: [PushPlatform] = [.apns, .webPush]
        for (place, platform) in platforms.enumerated() where platform == .apns || apart > 0 {
            let before = try providers.request(try push(platform), id: UInt64(place * 2), wall: right + apart)
            let after = try providers.request(try push(platform), id: UInt64(place * 2 + 1), wall: right)
            #expect(before[header: "authorization"] != after[header: "authorization"], "\(platform)")
        }
    }

    /// Apple refuses a token from the future; the clock is right only by the time of the answer.
    @Test func aRefusedTokenFromTheFutureIsMadeAnew() throws {
        let providers = PushProviders(providerSettings)
        let push = try push(.apns)
        _ = try providers.request(push, wall: WallTime(milliseconds: start + 600_000))
        let verdict = providers.verdict(of: answer(1, 403), for: push, now: start, wall: wallStart)
        #expect(verdict.step == .newToken)
    }

    @Test(arguments: [-600_000, 0, 600_000] as [Milliseconds])
    func aTokenThatEndedBeforeItWasRegisteredIsKept(_ apart: Milliseconds) throws {
        let providers = PushProviders(providerSettings)
        // The token was registered at `start` of the store's time, and the push was answered 50 s later.
        let (now, registered) = (start + 50_000, wall(apart))
        func step(endedAt end: Int64) throws -> PushVerdict.Step {
            let body = "{\"reason\":\"Unregistered\",\"timestamp\":\(end)}"
            return providers.verdict(
                of: answer(1, 410, body), for: try push(.apns), now: now, wall: registered + 50_000
            ).step
        }
        #expect(try step(endedAt: registered.milliseconds - 1_000) == .refused)
        // The age may be wrong by a thousandth.
        #expect(try step(endedAt: registered.milliseconds + 50) == .refused)
        #expect(try step(endedAt: registered.milliseconds + 51) == .gone)
    }

    @Test(arguments: PushPlatform.allCases) func aRingSaysForHowLongItStillRingsWhenItLeaves(
        _ platform: PushPlatform
    ) throws {
        let ring = try push(platform)
        #expect(try json(ring.content.json)["expiresIn"] == nil, "nobody knows yet when it leaves")
        for (age, left) in [(0, 30_000), (10_000, 20_000), (40_000, 0)] as [(Milliseconds, Int64)] {
            let content = try json(ring.leaving(at: start + age).content.json)
            #expect(content["expiresIn"]?.integer == left)
            #expect(content["expiresAt"]?.integer == start + 30_000)
        }
        #expect(try json(push(platform, .missed).leaving(at: start).content.json)["expiresIn"] == nil)
        #expect(ring.leaving(at: start + 1).id == ring.id, "sent again, it is the same push")
    }
}
