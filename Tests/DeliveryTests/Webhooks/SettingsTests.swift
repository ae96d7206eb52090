import TemporaryFiles
import Testing

@testable import Delivery

/// A settings file with a good secret beside it.
private struct Files {
    let directory: TemporaryDirectory

    init(secret: String = exampleSecret + "\n") throws {
        directory = try TemporaryDirectory()
        try directory.write("app.whsec", secret)
    }

    func read(_ settings: String) throws -> WebhookSettings {
        try WebhookSettings(path: try directory.write("webhooks.json", settings))
    }

    /// Returns why the settings are refused, without the path of the settings file before the reason.
    func refusal(_ settings: String) throws -> String? {
        let prefix = "\(directory.path)/webhooks.json: "
        do {
            _ = try read(settings)
            return nil
        } catch let error as SettingsError {
            try #require(error.description.hasPrefix(prefix))
            return String(error.description.dropFirst(prefix.count))
                .replacing("\(directory.path)/", with: "")
        }
    }
}

/// An endpoint with all required fields; `more` follows.
private func endpoint(
    _ more: String = "", name: String = "app", url: String = "https://example.com/hooks", events: String = #"["*"]"#
) -> String {
    #"{"name":"\#(name)","url":"\#(url)","secretFile":"app.whsec","events":\#(events)\#(more)}"#
}

private func file(_ endpoints: String...) -> String { #"{"endpoints":[\#(endpoints.joined(separator: ","))]}"# }

@Suite struct SettingsTests {
    @Test func whatIsLeftOutHasItsDefault() throws {
        let settings = try Files().read(file(endpoint()))
        #expect(settings.certificateAuthorityFile == nil)
        let endpoint = try #require(settings.endpoints.first)
        #expect(endpoint.name == "app")
        #expect(endpoint.url.text == "https://example.com/hooks")
        #expect(endpoint.secrets.count == 1)
        #expect(endpoint.events == EventPatterns(["*"]))
        #expect(endpoint.format == .standard)
        #expect(endpoint.retryFor == 86_400 && endpoint.backlog == 100_000 && endpoint.backlogBytes == 67_108_864)
        #expect(endpoint.allowedNetworks.isEmpty)
    }

    @Test func everythingCanBeSet() throws {
        let files = try Files(secret: "\r\n \(exampleSecret) \r\nwhsec_\(Base64.encode(Array(0..<64)))")
        try files.directory.write("ca.pem", "")
        let more = #","format":"cloudevents","retryFor":0,"backlog":1,"backlogBytes":65536,"#
        let settings = try files.read(
            #"{"certificateAuthorityFile":"ca.pem","endpoints":["#
                + endpoint(more + #""allowedNetworks":["10.0.0.0/8"]"#, events: #"["call.*","message.sent"]"#) + "]}")
        #expect(settings.certificateAuthorityFile == "\(files.directory.path)/ca.pem")
        let endpoint = try #require(settings.endpoints.first)
        #expect(endpoint.secrets.count == 2)
        #expect(endpoint.events.patterns == ["call.*", "message.sent"])
        #expect(endpoint.format == .cloudEvents)
        #expect(endpoint.retryFor == 0 && endpoint.backlog == 1 && endpoint.backlogBytes == 65_536)
        #expect(endpoint.allowedNetworks == ["10.0.0.0/8"])
    }

    @Test func nullIsLeftOut() throws {
        let settings = try Files().read(
            #"{"certificateAuthorityFile":null,"endpoints":["# + endpoint(#","format":null,"retryFor":null"#) + "]}")
        #expect(settings.endpoints.count == 1)
        #expect(try Files().read(#"{"endpoints":[]}"#).endpoints.isEmpty)
    }

    @Test(arguments: [
        ("", "not JSON: unexpected end at line 1, column 1"),
        ("{\n  \"endpoints\": [,]\n}", "not JSON: unexpected character at line 2, column 17"),
        ("{\n \"ö\" 1}", "not JSON: expected ':' at line 2, column 6"),
        ("[]", "expected a JSON object"),
        ("{}", "endpoints: missing"),
        (#"{"endpoints":null}"#, "endpoints: missing"),
        (#"{"endpoints":{}}"#, "endpoints: expected a list in square brackets"),
        (#"{"endpoints":[1]}"#, "endpoints[0]: expected a JSON object"),
        (#"{"endpoints":[],"endpoints":[]}"#, "endpoints: stands twice"),
        (#"{"Endpoints":[]}"#, "Endpoints: unknown field; did you mean endpoints?"),
        (#"{"a b\u0007":1}"#, "\"a b?\": unknown field; known are certificateAuthorityFile, endpoints"),
        (
            #"{"endpoints":[],"certificateAuthorityFile":1}"#,
            "certificateAuthorityFile: expected a text in quotation marks"
        ),
        (
            #"{"endpoints":[],"certificateAuthorityFile":"no.pem"}"#,
            #"certificateAuthorityFile: "no.pem": No such file or directory"#
        ),
    ])
    func aMistakeInTheFileIsNamed(_ settings: String, _ expected: String) throws {
        #expect(try Files().refusal(settings) == expected)
    }

    @Test(arguments: [
        (#","retryfor":1"#, "retryfor: unknown field; did you mean retryFor?"),
        (
            #","secret":"x""#,
            "secret: unknown field; known are name, url, secretFile, events, format, retryFor, backlog, backlogBytes, allowedNetworks"
        ),
        (#","name":"app""#, "name: stands twice"),
        (#","format":"xml""#, "format: expected standard or cloudevents or zegocall"),
        (#","format":1"#, "format: expected a text in quotation marks"),
        (#","retryFor":-1"#, "retryFor: expected a whole number of seconds from 0 to 2592000"),
        (#","retryFor":2592001"#, "retryFor: expected a whole number of seconds from 0 to 2592000"),
        (#","retryFor":1.5"#, "retryFor: expected a whole number of seconds from 0 to 2592000"),
        (#","retryFor":"1d""#, "retryFor: expected a whole number of seconds from 0 to 2592000"),
        (#","backlog":0"#, "backlog: expected a whole number of events from 1 to 10000000"),
        (#","backlogBytes":1"#, "backlogBytes: expected a whole number of bytes from 65536 to 17179869184"),
        (#","allowedNetworks":"10.0.0.0/8""#, "allowedNetworks: expected a list in square brackets"),
        (#","allowedNetworks":["10.0.0.0/8",7]"#, "allowedNetworks[1]: expected a text in quotation marks"),
    ])
    func aMistakeInAnEndpointIsNamed(_ more: String, _ expected: String) throws {
        #expect(try Files().refusal(file(endpoint(name: "other"), endpoint(more))) == "endpoints[1]." + expected)
    }

    @Test(arguments: ["name", "url", "secretFile", "events"])
    func whatAnEndpointMustHaveIsNamed(_ key: String) throws {
        let values = [
            "name": #""app""#, "url": #""https://example.com/hooks""#, "secretFile": #""app.whsec""#,
            "events": #"["*"]"#,
        ]
        let settings = endpoint().replacing("\"\(key)\":\(try #require(values[key]))", with: "\"\(key)\":null")
        #expect(try Files().refusal(file(settings)) == "endpoints[0].\(key): missing")
    }

    @Test(arguments: ["", "a b", "a.b", "zoë", String(repeating: "a", count: 65)])
    func aNameIsOfTheIDAlphabet(_ name: String) throws {
        #expect(
            try Files().refusal(file(endpoint(name: name))) == "endpoints[0].name: expected 1 to 64 of A-Z a-z 0-9 _ -")
    }

    @Test func aNameStandsOnce() throws {
        #expect(try Files().refusal(file(endpoint(), endpoint())) == "endpoints[1].name: app stands twice")
    }

    @Test func thereAreBoundsToAFile() throws {
        let many = (0...64).map { endpoint(name: "e\($0)") }
        #expect(try Files().read(#"{"endpoints":[\#(many.dropLast().joined(separator: ","))]}"#).endpoints.count == 64)
        #expect(try Files().refusal(#"{"endpoints":[\#(many.joined(separator: ","))]}"#) == "endpoints: more than 64")
        let files = try Files()
        let path = try files.directory.write("big.json", [UInt8](repeating: 0x20, count: 1 << 20 + 1))
        #expect(throws: SettingsError("\(path): over 1048576 bytes")) { try WebhookSettings(path: path) }
    }

    @Test func eventsAreKnownPatterns() throws {
        let known =
            "*, call.*, message.*, call.created, call.ended, call.userStateChanged, message.sent, message.delivered, message.expired"
        #expect(
            try Files().refusal(file(endpoint(events: #"["call.*","call.begun"]"#)))
                == "endpoints[0].events[1]: unknown pattern \"call.begun\"; known are \(known)")
        #expect(try Files().refusal(file(endpoint(events: "[]"))) == "endpoints[0].events: expected some of \(known)")
        #expect(
            try Files().refusal(file(endpoint(events: #""*""#)))
                == "endpoints[0].events: expected a list in square brackets")
    }

    @Test func aFileThatIsNotThereIsNamed() throws {
        #expect(throws: SettingsError("/nonexistent/w.json: No such file or directory")) {
            try WebhookSettings(path: "/nonexistent/w.json")
        }
        let directory = try TemporaryDirectory()
        #expect(throws: SettingsError("\(directory.path): Is a directory")) {
            try WebhookSettings(path: directory.path)
        }
    }

    @Test func pathsAreRelativeToTheFile() {
        #expect(resolve("a/b", besides: "/etc/x.json") == "/etc/a/b")
        #expect(resolve("/a", besides: "/etc/x.json") == "/a")
        #expect(resolve("a", besides: "x.json") == "a")
    }
}
