import CallCore
import HTTPSending
import SignalingProtocol
import TemporaryFiles
import Testing
import Tokens

@testable import Delivery

/// A settings file with good keys beside it.
private struct Files {
    let directory: TemporaryDirectory

    init() throws {
        directory = try TemporaryDirectory()
        try directory.write("AuthKey.p8", try Keys.apns.pem())
        try directory.write("vapid.pem", try Keys.vapid.pem())
        try directory.write("rsa.pem", try Keys.account.pem())
        try directory.write("ca.pem", "")
        try account()
    }

    /// Writes `service-account.json`, with `changes` to its fields.
    func account(_ changes: [String: String?] = [:]) throws {
        var fields: [String: String?] = [
            "type": "service_account", "project_id": "example", "private_key_id": "k1",
            "private_key": text(try Keys.account.pem()), "client_email": "push@example.iam",
            "token_uri": "https://oauth.example/token", "universe_domain": "googleapis.com",
        ]
        for (key, value) in changes { fields.updateValue(value, forKey: key) }
        var parts: [String] = []
        for (key, value) in fields {
            guard let value else { continue }
            parts.append("\"\(key)\":\(JSONText(string: value))")
        }
        try directory.write("service-account.json", "{\(parts.joined(separator: ","))}")
    }

    func read(_ settings: String) throws -> PushSettings {
        try PushSettings(file: try directory.write("push.json", settings))
    }

    /// Returns why the settings are refused, without the paths.
    func refusal(_ settings: String) throws -> String? {
        do {
            _ = try read(settings)
            return nil
        } catch let error as SettingsError {
            let prefix = "\(directory.path)/push.json: "
            try #require(error.description.hasPrefix(prefix))
            return String(error.description.dropFirst(prefix.count)).replacing("\(directory.path)/", with: "")
        }
    }
}

private let apns = #""apns":{"keyFile":"AuthKey.p8","keyID":"ABC123","teamID":"DEF456","bundleID":"com.example.app"}"#
private let fcm = #""fcm":{"serviceAccountFile":"service-account.json"}"#
private let webPush = #""webPush":{"keyFile":"vapid.pem","subject":"mailto:ops@example.com"}"#

private func file(_ app: String = webPush, _ more: String = "") -> String { #"{\#(more)"apps":{"default":{\#(app)}}}"# }

struct PushSettingsTests {
    @Test func theExampleOfTheManualIsRead() throws {
        let settings = try Files().read(
            #"""
            {"publicURL":"https://ring.example.com","after":1,"certificateAuthorityFile":null,
             "apps":{"default":{
               "apns":{"keyFile":"AuthKey.p8","keyID":"ABC123","teamID":"DEF456","bundleID":"com.example.app","endpoint":"https://api.push.apple.com"},
               "fcm":{"serviceAccountFile":"service-account.json","endpoint":"https://fcm.googleapis.com"},
               "webPush":{"keyFile":"vapid.pem","subject":"mailto:ops@example.com","allowedNetworks":[]},
               "texts":{"ring":{"title":"{name}","body":"Incoming {media} call"},"missed":{"title":"{name}","body":"Missed call"}}}}}
            """#)
        #expect(settings.publicURL == "https://ring.example.com" && settings.after == 1_000)
        #expect(settings.certificateAuthorityFile == nil)
        #expect(settings.policy == PushPolicy(after: 1_000, apps: [.standard: Set(PushPlatform.allCases)]))
        let app = try #require(settings.apps[.standard])
        #expect(app.apns?.keyID == "ABC123" && app.apns?.teamID == "DEF456" && app.apns?.bundleID == "com.example.app")
        #expect(app.apns?.endpoint.text == "https://api.push.apple.com")
        #expect(app.fcm?.endpoint.text == "https://fcm.googleapis.com")
        #expect(app.fcm?.account.email == "push@example.iam" && app.fcm?.account.project == "example")
        #expect(app.fcm?.account.tokenURL.text == "https://oauth.example/token" && app.fcm?.account.keyID == "k1")
        #expect(app.webPush?.subject == "mailto:ops@example.com" && app.texts == PushTexts())
    }

    @Test func whatIsLeftOutHasItsDefault() throws {
        let settings = try Files().read(#"{"apps":{"a":{\#(apns)},"b":{\#(fcm)},"c":{\#(webPush)}}}"#)
        #expect(settings.publicURL == nil && settings.after == 1_000 && settings.certificateAuthorityFile == nil)
        let platforms = settings.apps.mapValues(\.platforms)
        #expect(platforms[AppName("a")!] == [.apns, .apnsVoIP])
        #expect(platforms[AppName("b")!] == [.fcm] && platforms[AppName("c")!] == [.webPush])
        #expect(settings.apps[AppName("a")!]?.apns?.endpoint.text == "https://api.push.apple.com")
        #expect(settings.apps[AppName("b")!]?.fcm?.endpoint.text == "https://fcm.googleapis.com")
        #expect(settings.apps[AppName("c")!]?.webPush?.rules == AddressRules())
    }

    @Test(arguments: [("0", 0), ("0.25", 250), ("60", 60_000), ("2.5e0", 2_500)])
    func afterMayHaveAFraction(_ text: String, _ after: Milliseconds) throws {
        #expect(try Files().read(file(webPush, #""after":\#(text),"#)).after == after)
    }

    @Test(arguments: [
        ("https://a.example/x/", "https://a.example/x"), ("http://localhost:8080", "http://localhost:8080"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080"), ("http://[::1]:1", "http://[::1]:1"),
    ])
    func thePublicURLIsReadWithoutASlashAtItsEnd(_ text: String, _ expected: String) throws {
        #expect(try Files().read(file(webPush, #""publicURL":"\#(text)","#)).publicURL == expected)
    }

    @Test(arguments: [
        "http://ring.example.com", "ring.example.com", "https://", "https://u:p@ring.example.com", "ftp://localhost",
        "https://ring.example.com/?a", "https://ring.example.com/#a", "https://ring.example.com/a b",
        "http://128.0.0.1",
        "https://" + String(repeating: "a", count: 505),
    ])
    func whatIsNoPublicURLIsRefused(_ text: String) throws {
        let expected =
            "publicURL: expected the https URL under which devices reach a gateway (http only for this machine itself)"
        #expect(try Files().refusal(file(webPush, #""publicURL":"\#(text)","#)) == expected)
    }

    @Test(arguments: [
        ("[]", "expected a JSON object"), ("{", "not JSON: expected a field name at line 1, column 2"),
        ("{}", "apps: missing"), (#"{"apps":[]}"#, "apps: expected a JSON object"),
        (#"{"apps":{}}"#, "apps: expected 1 to 64 apps"),
        (#"{"apps":{"a b":{}}}"#, #"apps: "a b": expected a name of 1 to 64 of A-Z a-z 0-9 _ -"#),
        (#"{"apps":{"a":1}}"#, "apps.a: expected a JSON object"),
        (#"{"apps":{"a":{}}}"#, "apps.a: expected one of apns, fcm and webPush"),
        (#"{"apps":{"a":{\#(webPush)},"a":{\#(webPush)}}}"#, "apps.a: stands twice"),
        (file(webPush, #""publicUrl":"x","#), "publicUrl: unknown field; did you mean publicURL?"),
        (file(webPush, #""after":61,"#), "after: expected a number of seconds from 0 to 60"),
        (file(webPush, #""after":-0.1,"#), "after: expected a number of seconds from 0 to 60"),
        (file(webPush, #""after":"1","#), "after: expected a number of seconds from 0 to 60"),
        (
            file(webPush, #""certificateAuthorityFile":"no.pem","#),
            #"certificateAuthorityFile: "no.pem": No such file or directory"#
        ),
        (file(#""gcm":{}"#), "apps.default.gcm: unknown field; known are apns, fcm, webPush, texts, shape"),
        (file(#""fcm":[]"#), "apps.default.fcm: expected a JSON object"),
        (file(#""webPush":{}"#), "apps.default.webPush.subject: missing"),
        (
            file(#""webPush":{"subject":"ops@example.com","keyFile":"vapid.pem"}"#),
            "apps.default.webPush.subject: expected whom push services may turn to, as mailto:ops@example.com"
        ),
        (
            file(webPush.replacing("}", with: #","allowedNetworks":["10.0.0.0/8","10.1.1.1/8"]}"#)),
            #"apps.default.webPush.allowedNetworks[1]: "10.1.1.1/8": expected a network like 10.0.0.0/8, with no bit set beyond its length"#
        ),
        (
            file(webPush.replacing("vapid.pem", with: "no.pem")),
            "apps.default.webPush.keyFile: no.pem: No such file or directory"
        ),
        (
            file(webPush.replacing("vapid.pem", with: "rsa.pem")),
            "apps.default.webPush.keyFile: rsa.pem: not a key of the curve P-256"
        ),
        (
            file(apns.replacing("AuthKey.p8", with: "ca.pem")),
            "apps.default.apns.keyFile: ca.pem: no private key in PEM that is not encrypted"
        ),
        (file(apns.replacing("ABC123", with: "A B")), "apps.default.apns.keyID: expected 1 to 64 of A-Z a-z 0-9 _ -"),
        (
            file(apns.replacing("com.example", with: "com example")),
            "apps.default.apns.bundleID: expected 1 to 155 of A-Z a-z 0-9 . -"
        ),
        (
            file(apns.replacing("}", with: #","endpoint":"http://127.0.0.1"}"#)),
            "apps.default.apns.endpoint: expected a URL that begins with https://"
        ),
        (
            file(apns.replacing("}", with: #","endpoint":"https://a.example?b"}"#)),
            "apps.default.apns.endpoint: the URL of a provider has no query (?)"
        ),
        (
            file(webPush + #","texts":{"ring":{"title":"{nam}"}}"#),
            "apps.default.texts.ring.title: unknown {…}; known are {name}, {inviter}, {media}"
        ),
        (
            file(webPush + #","texts":{"stop":{}}"#),
            "apps.default.texts.stop: unknown field; known are ring, missed"
        ),
        (
            file(fcm.replacing("service-account.json", with: "none.json")),
            "apps.default.fcm.serviceAccountFile: none.json: No such file or directory"
        ),
    ])
    func aMistakeIsNamedWithItsPlace(_ settings: String, _ expected: String) throws {
        #expect(try Files().refusal(settings) == expected)
    }

    @Test(arguments: [
        ("client_email", nil, "client_email: missing"), ("client_email", "", "client_email: expected 1 to 256 bytes"),
        ("project_id", "a\nb", "project_id: expected 1 to 128 bytes"), ("private_key", nil, "private_key: missing"),
        ("private_key", "x", "private_key: no private key in PEM that is not encrypted"),
        ("token_uri", nil, "token_uri: missing"),
        ("token_uri", "http://a.example/", "token_uri: expected a URL that begins with https://"),
    ])
    func aMistakeInTheServiceAccountIsNamed(_ key: String, _ value: String?, _ expected: String) throws {
        let files = try Files()
        try files.account([key: value])
        let place = "apps.default.fcm.serviceAccountFile: service-account.json: "
        #expect(try files.refusal(file(fcm)) == place + expected)
    }

    @Test func textsThatAreLeftOutAreTheUsualOnes() throws {
        let app = try Files().read(file(webPush + #","texts":{"ring":{"title":""}}"#)).apps[.standard]
        #expect(app?.texts == PushTexts(ring: .init(title: "", body: "Incoming {media} call")))
    }
}
