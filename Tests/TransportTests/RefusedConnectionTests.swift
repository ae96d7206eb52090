import BellwireClient
import Foundation
import Synchronization
import Testing

/// The news for an app of a connection that does not come about (`SignalingClient.connect`), over a broker that refuses
/// everybody.
@Suite(.timeLimit(.minutes(1))) struct RefusedConnectionTests {
    @Test(arguments: [
        (token(end: 1) as String?, ErrorCode.tokenExpired, "bad credentials: the token has ended"),
        (token(end: 4_102_444_800), .notConnected, "bad credentials"), ("secret", .notConnected, "bad credentials"),
        (nil, .notConnected, "bad credentials"),
    ])
    func aRefusedTokenThatHasEndedIsToldApart(_ token: String?, _ code: ErrorCode, _ reason: String) async throws {
        var configuration = try configuration()
        configuration.token = token
        let client = SignalingClient(configuration)
        let error = await failure { () async throws(SignalingError) in try await client.connect() }
        #expect(error?.code == code && error?.message == reason, "\(String(describing: error))")
        #expect(client.connectionState == .refused(reason: reason))
        await client.disconnect()
    }

    @Test func anotherTokenAfterTheEndOfTheFirstIsJudgedByItself() async throws {
        var configuration = try configuration()
        configuration.token = token(end: 1)
        let client = SignalingClient(configuration)
        #expect(await failure { () async throws(SignalingError) in try await client.connect() }?.code == .tokenExpired)
        let events = client.events
        client.renew(token(end: 4_102_444_800))
        for await event in events where event == .connection(.refused(reason: "bad credentials")) { break }
        #expect(await failure { () async throws(SignalingError) in try await client.connect() }?.code == .notConnected)
        await client.disconnect()
    }

    @Test func aTokenProviderThatFailsIsToldAtOnceAndAskedAgain() async throws {
        struct NoSession: Error {}
        let asked = Mutex(0)
        var configuration = try configuration()
        configuration.tokenProvider = {
            let count = asked.withLock { count in
                count += 1
                return count
            }
            if count == 1 { throw NoSession() }
            return token(end: 4_102_444_800)
        }
        let client = SignalingClient(configuration)
        let error = await failure { () async throws(SignalingError) in try await client.connect() }
        #expect(error?.code == .notConnected && error?.message == "no token: NoSession()")
        for await event in client.events where event == .connection(.refused(reason: "bad credentials")) { break }
        #expect(asked.withLock(\.self) >= 2)
        await client.disconnect()
    }

    /// A request without a response names the cause, and not only that there was no response.
    @Test func aRequestWithoutAConnectionNamesTheCause() async throws {
        var configuration = try configuration()
        configuration.requestTimeout = .milliseconds(300)
        let client = SignalingClient(configuration)
        func ask() async -> String? {
            await failure { () async throws(SignalingError) in _ = try await client.blockedUsers() }?.message
        }
        #expect(await ask() == "no response within 300 ms: the app has not called connect()")
        _ = await failure { () async throws(SignalingError) in try await client.connect() }
        #expect(await ask() == "no response within 300 ms: bad credentials")
        await client.disconnect()
        #expect(await ask() == "the client is disconnected")
    }

    @Test func aLogoutWithoutAConnectionHasALimit() async throws {
        let client = SignalingClient(try configuration())
        _ = await failure { () async throws(SignalingError) in try await client.connect() }
        let began = ContinuousClock.now
        let error = await failure { () async throws(SignalingError) in
            try await client.unregisterPush(within: .milliseconds(200))
        }
        #expect(error?.code == .noResponse && ContinuousClock.now - began < .seconds(20))
        await client.disconnect()
    }

    @Test func theLogHasConnectionsAndRequestsAndNoSecrets() async throws {
        struct Refusal: Error { let url = "https://t/?key=verysecret" }
        let lines = Mutex<[String]>([])
        var configuration = try configuration(quotesPassword: true)
        configuration.requestTimeout = .milliseconds(100)
        configuration.log = { level, line in lines.withLock { $0.append("\(level) \(line)") } }
        let asked = Mutex(false)
        configuration.tokenProvider = {
            let isFirst = asked.withLock { asked in
                defer { asked = true }
                return !asked
            }
            if isFirst { throw Refusal() }
            return "verysecret"
        }
        let client = SignalingClient(configuration)
        _ = await failure { () async throws(SignalingError) in try await client.connect() }
        for await event in client.events where event == .connection(.refused(reason: "bad credentials: verysecret")) {
            break
        }
        _ = await failure { () async throws(SignalingError) in _ = try await client.update(name: "verysecret") }
        await client.disconnect()
        let written = lines.withLock(\.self)
        for line in [
            "info connection: connecting", "info the token provider failed: Refusal", "info connection: refused",
            "info cannot connect: bad credentials: …", "info connection: disconnected",
        ] {
            #expect(written.contains(line), "\(line) in \(written)")
        }
        #expect(written.contains { $0.hasPrefix("debug request ") && $0.hasSuffix(" begins: user.update") })
        #expect(written.contains { $0.hasPrefix("debug request ") && $0.hasSuffix(" has failed: noResponse") })
        #expect(!written.contains { $0.contains("verysecret") })
    }

    /// The token of the attempt counts, also when the app has given another token meanwhile.
    @Test func theTokenThatTheBrokerRefusedIsJudged() async throws {
        var configuration = try configuration()
        configuration.token = token(end: 4_102_444_800)
        let (begun, beginning) = AsyncStream.makeStream(of: Void.self)
        let (ended, ending) = AsyncStream.makeStream(of: Void.self)
        configuration.transport = HeldTransport(beginning: beginning, ended: ended)
        let client = SignalingClient(configuration)
        async let error = failure { () async throws(SignalingError) in try await client.connect() }
        for await _ in begun { break }
        client.renew(token(end: 1))
        ending.finish()
        #expect(await error?.code == .notConnected)
        await client.disconnect()
    }

    @Test func whatTheAppGivesUpIsNoFailureInTheLog() async throws {
        let lines = Mutex<[String]>([])
        var configuration = try configuration()
        configuration.log = { level, line in lines.withLock { $0.append("\(level) \(line)") } }
        let (begun, beginning) = AsyncStream.makeStream(of: Void.self)
        let (never, _) = AsyncStream.makeStream(of: Void.self)
        configuration.transport = HeldTransport(beginning: beginning, ended: never)
        let client = SignalingClient(configuration)
        async let error = failure { () async throws(SignalingError) in try await client.connect() }
        for await _ in begun { break }
        await client.disconnect()
        #expect(await error?.code == .disconnected)
        #expect(lines.withLock(\.self) == ["info connection: connecting", "info connection: disconnected"])
    }

    private func configuration(quotesPassword: Bool = false) throws -> SignalingClient.Configuration {
        try .init(user: "alice", device: "phone", transport: RefusingTransport(quotesPassword: quotesPassword))
    }
}

/// A JWT whose claims have this end, in seconds since the Unix epoch; nobody checks its signature.
private func token(end: Int) -> String {
    let claims = Data(#"{"exp":\#(end)}"#.utf8).base64EncodedString().replacing("=", with: "")
    return "e30.\(claims).c2ln"
}

private struct RefusingTransport: BellwireTransport {
    let quotesPassword: Bool

    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        let quoted = quotesPassword ? ": \(request.password ?? "")" : ""
        throw BellwireTransportError(.refused, "bad credentials\(quoted)")
    }
}

/// A broker that refuses when `ended` finishes.
private struct HeldTransport: BellwireTransport {
    let beginning: AsyncStream<Void>.Continuation
    let ended: AsyncStream<Void>

    func connect(
        _ request: BellwireConnectionRequest, events: @escaping @Sendable (BellwireTransportEvent) -> Void
    ) async throws(BellwireTransportError) -> any BellwireTransportConnection {
        beginning.yield()
        for await _ in ended {}
        throw BellwireTransportError(.refused, "bad credentials")
    }
}
