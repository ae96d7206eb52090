import BellwireClient
import DropInSupport
import Foundation
import Testing

@Suite struct TokenWatchTests {
    /// A token whose signature no part of these tests checks.
    private static func token(endingIn seconds: Int) -> String {
        let end = Int(Date().timeIntervalSince1970) + seconds
        let claims = Data(#"{"sub":"alice","exp":\#(end)}"#.utf8).base64EncodedString()
        let part = claims.replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
        return "e30.\(part).e30"
    }

    @Test func theTokenThatTheAppGaveLastCounts() {
        let tokens = TokenWatch()
        #expect(!tokens.hasEnded)
        tokens.note(Self.token(endingIn: -10))
        #expect(tokens.hasEnded)
        tokens.note(Self.token(endingIn: 60))
        #expect(!tokens.hasEnded)
        tokens.note(Self.token(endingIn: -10))
        tokens.note("no token")
        #expect(!tokens.hasEnded)
    }

    @Test func ofAConfigurationTheGivenTokenIsWatchedAndThenThoseOfItsProvider() async throws {
        let ended = Self.token(endingIn: -10)
        var configuration = BellwireConfiguration(broker: "mqtt://x")
        configuration.tokenProvider = { _ in ended }
        let tokens = TokenWatch()
        let given = Self.token(endingIn: 60)
        let client = try configuration.clientConfiguration(userID: "alice", token: given, tokens: tokens)
        let provider = try #require(client.tokenProvider)
        #expect(try await provider() == given)
        #expect(!tokens.hasEnded)
        #expect(try await provider() == ended)
        #expect(tokens.hasEnded)
        _ = try configuration.clientConfiguration(userID: "alice", tokens: tokens)
        #expect(!tokens.hasEnded)
    }

    @Test func theLogOfAConfigurationIsTheClients() async throws {
        var configuration = BellwireConfiguration(broker: "mqtt://x")
        #expect(try configuration.clientConfiguration(userID: "alice").log == nil)
        let (lines, log) = AsyncStream.makeStream(of: String.self)
        configuration.log = { _, line in log.yield(line) }
        try configuration.clientConfiguration(userID: "alice").log?(.info, "a line")
        #expect(await lines.first { _ in true } == "a line")
    }
}
