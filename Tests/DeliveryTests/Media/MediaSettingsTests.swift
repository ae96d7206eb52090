import Glibc
import SignalingProtocol
import Support
import TemporaryFiles
import Testing

@testable import CallCore
@testable import Delivery
@testable import Tokens

/// A settings file with key files beside it.
struct MediaFiles {
    static let secret = "0123456789abcdef0123456789abcdef"
    let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
        try directory.write("livekit.key", "APIkey7: shortsecret\n")
        try directory.write("hmac.key", Self.secret + "\n")
        for (name, pem) in try Self.keys.get() { try directory.write("\(name).pem", pem) }
    }

    /// An RSA key takes a long time to generate: all tests have the same keys.
    private static let keys = Result {
        try [("rsa", SignatureAlgorithm.rs256), ("ec", .es256), ("ed", .edDSA)].map { name, algorithm in
            (name, String(decoding: try CryptographicKey.generate(algorithm).pem(), as: UTF8.self))
        }
    }

    func read(_ settings: String) throws -> MediaSettings {
        try MediaSettings(path: try directory.write("media.json", settings))
    }

    /// Returns a server `s` that all calls use.
    func server(_ fields: String) throws -> MediaServer {
        try read(#"{"servers":{"s":{\#(fields)}},"use":{"*":"s"}}"#).servers[0]
    }

    /// Returns why the settings are refused, without the path of the settings file before the reason.
    func refusal(_ settings: String) throws -> String? {
        let prefix = "\(directory.path)/media.json: "
        do {
            _ = try read(settings)
            return nil
        } catch let error as SettingsError {
            try #require(error.description.hasPrefix(prefix), "\(error)")
            return String(error.description.dropFirst(prefix.count)).replacing("\(directory.path)/", with: "")
        }
    }
}

@Suite struct MediaSettingsTests {
    private let files: MediaFiles

    init() throws { files = try MediaFiles() }

    private static let liveKit = #""type":"livekit","url":"wss://sfu.example.com","keyFile":"livekit.key""#
    private static let jitsi = #""type":"jitsi","url":"https://meet.example.com","keyFile":"hmac.key","appID":"b""#
    private static let own = #""type":"jwt","url":"https://m.example.com","keyFile":"ec.pem","algorithm":"ES256""#

    @Test func whatIsLeftOutHasItsDefault() throws {
        let server = try files.server(Self.liveKit)
        #expect(server.ttl == 600)
        #expect(server.apiURL == nil)
        #expect(server.room(of: CallID("Ab")!, .common) == "Ab")
        let settings = try files.read(#"{"servers":{},"use":{}}"#)
        #expect(settings.certificateAuthorityFile == nil && settings.outboxes.isEmpty)
    }

    @Test func theExampleOfTheContractIsRead() throws {
        try files.directory.write("jitsi.key", MediaFiles.secret)
        try files.directory.write("own.pem", try String(contentsOfPEM: files.directory.path + "/ec.pem"))
        let settings = try files.read(
            #"""
            {"certificateAuthorityFile": null,
             "servers": {
               "sfu":  {"type": "livekit", "url": "wss://sfu.example.com", "apiURL": "https://sfu.example.com", "keyFile": "livekit.key", "room": "{callID}", "ttl": 600, "agents": []},
               "meet": {"type": "jitsi", "url": "https://meet.example.com", "keyFile": "jitsi.key", "appID": "bellwire", "audience": "jitsi", "room": "{callID}", "ttl": 600},
               "own":  {"type": "jwt", "url": "https://media.example.com", "keyFile": "own.pem", "algorithm": "ES256", "keyID": "k1", "room": "r-{callID}", "ttl": 600,
                        "claims": {"sub": "{user}", "room": "{room}", "nested": {"name": "{name}"}}}},
             "use": {"voice": "sfu", "video": "sfu", "*": "own"}}
            """#)
        #expect(settings.servers.map(\.name) == ["sfu", "meet", "own"])
        #expect(settings.use.server(for: "video") == "sfu")
        #expect(settings.use.server(for: nil) == "own")
        #expect(settings.outboxes.map(\.name.string) == ["rooms:sfu"])
        #expect(settings.outboxes.map(\.patterns) == ["room:video room:voice"])
        #expect(settings.outboxes.map(\.url) == ["https://sfu.example.com"])
    }

    @Test func aRoomOfJitsiHasNoCapitals() throws {
        let server = try files.server(Self.jitsi)
        #expect(server.room(of: CallID("aB-C_9")!, .common) == "a.b-.c_9")
        let long = CallID(String(repeating: "A", count: 64))!
        #expect(server.room(of: long, .common)?.utf8.count == 128)
        #expect(try files.server(Self.jitsi + #","room":"r-{callID}""#).room(of: long, .common) == nil)
    }

    @Test func bracesAndTheModeStandInRooms() throws {
        let server = try files.server(Self.liveKit + #","room":"{{{callID}}/{mode}}""#)
        #expect(server.room(of: CallID("c")!, .advanced) == "{c}/advanced}")
    }

    @Test(arguments: [
        ("{", "not JSON: "), (#"{"servers":{}}"#, "use: missing"), (#"{"use":{}}"#, "servers: missing"),
        (#"{"servers":[],"use":{}}"#, "servers: expected a JSON object"),
        (#"{"servers":{},"use":{},"more":1}"#, "more: unknown field"),
        (#"{"servers":{"a b":{}},"use":{}}"#, "servers: \"a b\": expected a name of 1 to 64"),
        (#"{"servers":{"s":{}},"use":{}}"#, "servers.s.type: missing"),
        (#"{"servers":{"s":{"type":"sip"}},"use":{}}"#, "servers.s.type: expected livekit, jitsi, jwt"),
        (#"{"servers":{},"use":{"voice":"sfu"}}"#, "use.voice: there is no server sfu in servers"),
        (#"{"servers":{},"use":{"voice":7}}"#, "use.voice: expected the name of a server"),
        (#"{"servers":{},"use":{"voice":null}}"#, "use.voice: expected the name of a server"),
        (#"{"servers":{},"use":{"\#(String(repeating: "x", count: 33))":"s"}}"#, "use."),
        (#"{"servers":{},"use":{},"certificateAuthorityFile":"none.pem"}"#, "certificateAuthorityFile: "),
    ])
    func mistakesOfTheFileAreNamed(_ settings: String, _ expected: String) throws {
        let refusal = try #require(try files.refusal(settings))
        #expect(refusal.hasPrefix(expected), "\(refusal)")
    }

    @Test(arguments: [
        (#""type":"livekit","url":"https://x","keyFile":"livekit.key""#, "url: expected ws://… or wss://…"),
        (#""type":"livekit","url":"wss://a:b@x","keyFile":"livekit.key""#, "url: user and password"),
        (#""type":"livekit","keyFile":"livekit.key""#, "url: missing"),
        (#""type":"livekit","url":"wss://x""#, "keyFile: missing"),
        (#""type":"livekit","url":"wss://x","keyFile":"hmac.key""#, "keyFile: expected one line, KEY: SECRET"),
        (#""type":"livekit","url":"wss://x","keyFile":"none.key""#, "keyFile: No such file or directory"),
        (#""type":"livekit","url":"wss://x","keyFile":"-----BEGIN PRIVATE KEY-----""#, "keyFile: expected the path"),
        (liveKit + #","ttl":59"#, "ttl: expected a whole number of seconds from 60 to 86400"),
        (liveKit + #","ttl":86401"#, "ttl: expected"), (liveKit + #","ttl":"600""#, "ttl: expected"),
        (liveKit + #","room":"{user}-{callID}""#, "room: unknown {…}; known are {callID}, {mode}"),
        (liveKit + #","room":"{callID""#, "room: unknown {…}"),
        (liveKit + #","room":"hall""#, "room: expected a text with {callID}"),
        (liveKit + #","room":"{{callID}""#, "room: expected a text with {callID}"),
        (liveKit + #","room":"\#(String(repeating: "x", count: 65)){callID}""#, "room: longer than 128 bytes"),
        (liveKit + #","apiURL":"wss://x""#, "apiURL: expected http://… or https://…"),
        (liveKit + #","apiURL":"https://x/?a=b""#, "apiURL: the URL of an API has no query"),
        (liveKit + #","agents":"bot""#, "agents: expected a list"),
        (liveKit + #","agents":[""]"#, "agents[0]: expected"),
        (liveKit + #","appID":"x""#, "appID: unknown field"),
        (jitsi + #","apiURL":"https://x""#, "apiURL: unknown field"),
        (#""type":"jitsi","url":"https://x","keyFile":"hmac.key""#, "appID: missing"),
        (#""type":"jitsi","url":"wss://x","keyFile":"hmac.key","appID":"b""#, "url: expected http://… or https://…"),
        (
            #""type":"jitsi","url":"https://x","keyFile":"rsa.pem","appID":"b""#,
            "keyFile: a key in PEM (RS256) needs a keyID"
        ),
        (
            #""type":"jitsi","url":"https://x","keyFile":"ec.pem","appID":"b","keyID":"k""#,
            "keyFile: not a key of RSA"
        ),
        (
            #""type":"jitsi","url":"https://x","keyFile":"livekit.key","appID":"b""#,
            "keyFile: a secret for HS256 has at least 32"
        ),
        (#""type":"jwt","url":"https://x","keyFile":"ec.pem""#, "algorithm: missing"),
        (#""type":"jwt","url":"https://x","keyFile":"ec.pem","algorithm":"none""#, "algorithm: expected one of HS256"),
        (
            #""type":"jwt","url":"https://x","keyFile":"ec.pem","algorithm":"HS256""#,
            "keyFile: HS256 takes a secret, not a key in PEM"
        ),
        (#""type":"jwt","url":"https://x","keyFile":"ec.pem","algorithm":"EdDSA""#, "keyFile: not a key of Ed25519"),
        (#""type":"jwt","url":"https://x","keyFile":"hmac.key","algorithm":"RS256""#, "keyFile: no private key in PEM"),
        (own + #","claims":{"exp":1}"#, "claims.exp: Bellwire sets this claim"),
        (own + #","claims":{"nbf":1}"#, "claims.nbf: Bellwire sets this claim"),
        (own + #","claims":{"a":["{nobody}"]}"#, "claims.a[0]: unknown {…}"),
        (own + #","claims":{"a":{"b":"{"}}"#, "claims.a.b: unknown {…}"),
        (own + #","claims":{"a":{"b":1,"b":2}}"#, "claims.a.b: stands twice"),
        (own + #","claims":{"a":"\#(String(repeating: "x", count: 4096))"}"#, "claims: more than 4096 bytes"),
    ])
    func mistakesOfAServerAreNamed(_ fields: String, _ expected: String) throws {
        let refusal = try #require(try files.refusal(#"{"servers":{"s":{\#(fields)}},"use":{}}"#), "\(fields)")
        #expect(refusal.hasPrefix("servers.s.\(expected)"), "\(refusal)")
        for secret in ["shortsecret", MediaFiles.secret, "BEGIN PRIVATE"] { #expect(!refusal.contains(secret)) }
    }

    // MARK: Key files

    private func session(_ server: MediaServer) throws -> [UInt8] {
        let member = MediaMember(
            callID: CallID("c")!, mode: .common, media: nil, inviter: UserID("a")!,
            device: DeviceAddress(userID: UserID("a")!, deviceID: DeviceID("d")!))
        let token = try #require(server.session(for: member, at: .now)).token
        let dot = try #require(token.lastIndex(of: "."))
        let message = Array(token[..<dot].utf8)
        let signature = try #require(Base64URL.decode(Array(token[token.index(after: dot)...].utf8)))
        return CryptographicKey(secret: Array("shortsecret".utf8)).isValid(signature, of: message) ? [1] : [2]
    }

    @Test func aChangedKeyFileIsReadAfterTwoLooks() throws {
        let server = try files.server(Self.liveKit)
        #expect(server.key.look() == nil)
        #expect(try session(server) == [1])
        try files.directory.write("livekit.key", "APIkey8: other\r\n")
        #expect(server.key.look() == nil, "it may be being written")
        #expect(try session(server) == [1])
        #expect(server.key.look() == .readAgain)
        #expect(try session(server) == [2])
        #expect(server.key.look() == nil)
    }

    @Test func aFileThatCannotBeUsedChangesNothingAndIsToldOnce() throws {
        let server = try files.server(Self.liveKit)
        try files.directory.write("livekit.key", "nonsense")
        #expect(server.key.look() == nil)
        #expect(server.key.look() == .unusable("expected one line, KEY: SECRET"))
        #expect(server.key.look() == nil)
        #expect(try session(server) == [1])
        try files.directory.write("livekit.key", "APIkey7: shortsecret\n")
        #expect(server.key.look() == nil)
        #expect(server.key.look() == .readAgain)
        #expect(unlink(files.directory.path + "/livekit.key") == 0)
        #expect(server.key.look() == .unusable("No such file or directory"))
        #expect(server.key.look() == nil)
        #expect(try session(server) == [1])
    }
}

extension String {
    fileprivate init(contentsOfPEM path: String) throws {
        self = String(decoding: try readFile(path, maxBytes: 1 << 16), as: UTF8.self)
    }
}
