import SignalingProtocol
import Support
import Testing

@testable import Tokens

@Suite struct TurnServersTests {
    /// Computed by Python's hmac: `base64(hmac-sha1("north wind", "1790003600:alice%3Asmith"))`.
    @Test func aCredentialIsWhatCoturnComputes() throws {
        let servers = try #require(TurnServers(urls: ["turn:turn.example.com:3478"], secret: "north wind"))
        let credentials = servers.credentials(
            for: UserID("alice:smith")!, now: WallTime(milliseconds: 1_790_000_000_999))
        #expect(
            credentials
                == BellwireIceServer(
                    urls: ["turn:turn.example.com:3478"], username: "1790003600:alice%3Asmith",
                    credential: "RG5BE5pvYudIJyynuzZWnixhwgc="))
    }

    @Test(arguments: [
        "turn:a", "turns:turn.example.com:5349", "turn:10.0.0.1:3478?transport=tcp", "turn:[::1]:3478",
        "turn:[2001:db8::1]",
        "turns:a-b.example:443?transport=udp",
    ])
    func isAURL(_ text: String) { #expect(TurnServers.isURL(text)) }

    @Test(arguments: [
        "", "turn:", "turn::3478", "stun:a:3478", "turn://a:3478", "turn:a:0", "turn:a:65536", "turn:a:+1", "turn:a:",
        "turn:a b",
        "turn:a:1?transport=tls", "turn:a:1?x", "turn:[]:1", "turn:[::1", "turn:[g::1]:1", "TURN:a", "turn:a@b",
        "turn:ä",
        "turn:" + String(repeating: "a", count: 254),
    ])
    func isNoURL(_ text: String) { #expect(!TurnServers.isURL(text)) }

    @Test func boundsAreKept() {
        #expect(TurnServers(urls: [], secret: "s") == nil)
        #expect(TurnServers(urls: ["turn:a"], secret: "") == nil)
        #expect(TurnServers(urls: ["turn:a"], secret: String(repeating: "s", count: 257)) == nil)
        #expect(TurnServers(urls: Array(repeating: "turn:a", count: 9), secret: "s") == nil)
        #expect(
            TurnServers(urls: Array(repeating: "turn:a", count: 8), secret: String(repeating: "s", count: 256)) != nil)
    }
}
