import CallCore
import Coordinator
import SignalingProtocol
import Support
import Testing

/// The times in a welcome by the wall clock, and the times by the service's clock (docs/decisions/0024).
struct WelcomeClockTests {
    private func welcome(apart: Milliseconds, tokenExpiresAt: Int64) throws -> (Welcome, World) {
        let world = World()
        let wall = WallTime(milliseconds: world.clock.now + apart)
        world.service.wall = { wall }
        world.service.iceServers = { _, now in
            [BellwireIceServer(urls: ["turn:t"], username: "\(now.seconds)", credential: "c")]
        }
        let phone = world.stranger("alice/phone")
        var presence = phone.presence(.online, session: "s1")
        presence.tokenExpiresAt = tokenExpiresAt
        world.send([presence])
        return (try #require(phone.welcomes.last), world)
    }

    @Test(arguments: [-28_800_000, -4_000_000, 0, 4_000_000] as [Milliseconds])
    func credentialsOfTURNServersAreByTheWallClock(_ apart: Milliseconds) throws {
        let (welcome, world) = try welcome(apart: apart, tokenExpiresAt: 0)
        #expect(welcome.iceServers.map(\.username) == [String((world.clock.now + apart) / 1_000)])
        #expect(welcome.serverTime == world.clock.now)
    }

    /// A device takes the difference of the two times, and asks for another token a minute before that.
    @Test(arguments: [-28_800_000, -1_001, 1_001, 28_800_000] as [Milliseconds])
    func theEndOfATokenIsToldByTheClockOfServerTime(_ apart: Milliseconds) throws {
        let end = 1_790_000_000_000 + apart + 300_000
        let (welcome, _) = try welcome(apart: apart, tokenExpiresAt: end)
        #expect(welcome.tokenExpiresAt == welcome.serverTime + 300_000)
    }

    @Test(arguments: [-1_000, 0, 1_000] as [Milliseconds])
    func whileTheClocksAgreeItIsTheTokensOwn(_ apart: Milliseconds) throws {
        #expect(try welcome(apart: apart, tokenExpiresAt: 1_790_000_300_001).0.tokenExpiresAt == 1_790_000_300_001)
    }

    @Test(arguments: [Int64.max, 0]) func anEndThatNobodyCanAddToStays(_ end: Int64) throws {
        #expect(try welcome(apart: -28_800_000, tokenExpiresAt: end).0.tokenExpiresAt ?? -1 >= 0)
    }
}
