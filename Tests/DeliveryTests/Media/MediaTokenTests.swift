import SignalingProtocol
import Support
import Testing

@testable import CallCore
@testable import Delivery
@testable import Tokens

/// The tokens of media servers: their content, to the byte, and their signatures.
@Suite struct MediaTokenTests {
    private let files: MediaFiles
    private let now = WallTime(milliseconds: 1_790_000_000_999)
    private let member = MediaMember(
        callID: CallID("Call-1")!, mode: .advanced, media: nil, inviter: UserID("alice")!,
        device: DeviceAddress(userID: UserID("bob \"ü\"")!, deviceID: DeviceID("web.1")!), name: "Bob {user}",
        avatarURL: "https://x/b.png")

    init() throws { files = try MediaFiles() }

    /// The header and the claims of the session's token, after a check of its signature.
    private func read(
        _ server: MediaServer, _ key: CryptographicKey, _ member: MediaMember? = nil
    ) throws -> (session: BellwireMediaSession, header: String, claims: String) {
        let session = try #require(server.session(for: member ?? self.member, at: now))
        let parts = session.token.split(separator: ".", omittingEmptySubsequences: false)
        try #require(parts.count == 3)
        let bytes = try parts.map { try #require(Base64URL.decode(Array($0.utf8))) }
        #expect(key.isValid(bytes[2], of: Array("\(parts[0]).\(parts[1])".utf8)))
        return (session, String(decoding: bytes[0], as: UTF8.self), String(decoding: bytes[1], as: UTF8.self))
    }

    @Test func aTokenOfLiveKit() throws {
        let server = try files.server(
            #""type":"livekit","url":"wss://sfu.example.com/x?y=1","keyFile":"livekit.key","agents":["bot","notes"]"#)
        let (session, header, claims) = try read(server, CryptographicKey(secret: Array("shortsecret".utf8)))
        #expect(session.server == "s" && session.type == "livekit" && session.room == "Call-1")
        #expect(session.url == "wss://sfu.example.com/x?y=1", "unchanged")
        #expect(session.expiresAt == 1_790_000_600_000)
        #expect(header == #"{"alg":"HS256","typ":"JWT"}"#)
        #expect(
            claims == #"{"iss":"APIkey7","sub":"bob \"ü\"","name":"Bob {user}","nbf":1789999990,"exp":1790000600,"#
                + #""video":{"room":"Call-1","roomJoin":true,"canPublish":true,"canSubscribe":true,"canPublishData":true},"#
                + #""metadata":"{\"callID\":\"Call-1\",\"device\":\"web.1\"}","#
                + #""roomConfig":{"agents":[{"agentName":"bot"},{"agentName":"notes"}]}}"#)
    }

    @Test func aTokenOfLiveKitWithoutAgents() throws {
        let server = try files.server(
            #""type":"livekit","url":"wss://sfu.example.com","keyFile":"livekit.key","ttl":60"#)
        let claims = try read(server, CryptographicKey(secret: Array("shortsecret".utf8))).claims
        #expect(!claims.contains("roomConfig"))
        #expect(claims.contains(#""exp":1790000060"#))
    }

    @Test func aTokenOfJitsi() throws {
        let server = try files.server(
            #""type":"jitsi","url":"https://meet.example.com:8443/","keyFile":"hmac.key","appID":"bellwire""#)
        let (session, header, claims) = try read(server, CryptographicKey(secret: Array(MediaFiles.secret.utf8)))
        #expect(session.room == ".call-1" && session.type == "jitsi")
        #expect(header == #"{"alg":"HS256","typ":"JWT"}"#)
        #expect(
            claims == #"{"iss":"bellwire","aud":"jitsi","sub":"meet.example.com","room":".call-1","nbf":1789999990,"#
                + #""exp":1790000600,"context":{"user":{"id":"bob \"ü\"","name":"Bob {user}","avatar":"https://x/b.png"}}}"#
        )
    }

    @Test func aTokenOfJitsiByAPairOfKeys() throws {
        let server = try files.server(
            #""type":"jitsi","url":"https://x","keyFile":"rsa.pem","appID":"b","keyID":"k1","audience":"a","subject":"t""#
        )
        let plain = MediaMember(
            callID: CallID("c")!, mode: .common, media: "video", inviter: UserID("alice")!, device: member.device)
        let (_, header, claims) = try read(server, server.key.key.key, plain)
        #expect(header == #"{"alg":"RS256","typ":"JWT","kid":"k1"}"#)
        #expect(
            claims == #"{"iss":"b","aud":"a","sub":"t","room":"c","nbf":1789999990,"exp":1790000600,"#
                + #""context":{"user":{"id":"bob \"ü\"","name":"bob \"ü\""}}}"#)
    }

    @Test func aTokenWithClaimsOfOnesOwn() throws {
        let server = try files.server(
            #""type":"jwt","url":"https://x","keyFile":"ec.pem","algorithm":"ES256","keyID":"k1","room":"r-{callID}","#
                + #""claims":{"sub":"{user}","n":[1,-2.5,true,null,"{{{name}}"],"all":{"x":"#
                + #""{callID} {device} {media} {mode} {inviter} {room} }"}}"#)
        let (session, header, claims) = try read(server, server.key.key.key)
        #expect(session.room == "r-Call-1" && session.type == "jwt")
        #expect(header == #"{"alg":"ES256","typ":"JWT","kid":"k1"}"#)
        #expect(
            claims == #"{"sub":"bob \"ü\"","n":[1,-2.5,true,null,"{Bob {user}}"],"#
                + #""all":{"x":"Call-1 web.1 voice advanced alice r-Call-1 }"},"#
                + #""iat":1790000000,"nbf":1789999990,"exp":1790000600}"#)
    }

    @Test(arguments: [("rsa.pem", "RS256"), ("ec.pem", "ES256"), ("ed.pem", "EdDSA"), ("hmac.key", "HS256")])
    func allAlgorithmsSign(_ file: String, _ algorithm: String) throws {
        let server = try files.server(
            #""type":"jwt","url":"https://x","keyFile":"\#(file)","algorithm":"\#(algorithm)""#)
        let (_, header, claims) = try read(server, server.key.key.key)
        #expect(header == #"{"alg":"\#(algorithm)","typ":"JWT"}"#)
        #expect(claims == #"{"iat":1790000000,"nbf":1789999990,"exp":1790000600}"#)
    }

    @Test func aTokenThatWouldBeTooLongIsNotMade() throws {
        let server = try files.server(
            #""type":"jwt","url":"https://x","keyFile":"ec.pem","algorithm":"ES256","claims":{"a":"\#(String(repeating: "{name}", count: 600))"}"#
        )
        #expect(server.session(for: member, at: now) != nil)
        let long = MediaMember(
            callID: CallID("c")!, mode: .common, media: nil, inviter: UserID("a")!, device: member.device,
            name: String(repeating: "n", count: 256))
        #expect(server.session(for: long, at: now) == nil)
    }

    @Test func noDescriptionHasTheToken() throws {
        let server = try files.server(#""type":"livekit","url":"wss://x","keyFile":"livekit.key""#)
        let session = try #require(server.session(for: member, at: now))
        var dumped = ""
        dump(session, to: &dumped)
        for text in ["\(session)", String(reflecting: session), dumped] { #expect(!text.contains(session.token)) }
    }
}
