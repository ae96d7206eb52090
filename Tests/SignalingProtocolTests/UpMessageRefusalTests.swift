import SignalingProtocol
import Testing

/// Messages that cannot be used, and the answers that name the fault (docs/protocol.md, section 2).
struct UpMessageRefusalTests {
    /// A request that is complete but for `fields`, which come last and so win.
    private func request(_ type: String, _ fields: String) -> String {
        let complete = #""id":"r1","callID":"c1","invitees":["bob"]"#
        return "{\"type\":\"\(type)\",\(complete)\(fields.isEmpty ? "" : ",")\(fields)}"
    }

    static let requests = [
        "call.invite", "call.cancel", "call.accept", "call.reject", "call.add", "call.join", "call.quit", "call.end",
        "call.get",
    ]

    /// Each field with the requests in which it stands, and values that the field must not have.
    static let badFields: [(field: String, types: [String], values: [String])] = [
        (
            "callID", requests,
            [
                "5", "true", "[]", "{}", "\"\"", "\"a b\"", "\"a.b\"", "\"é\"",
                "\"" + String(repeating: "x", count: 65) + "\"",
            ]
        ),
        (
            "extendedData", requests.filter { $0 != "call.get" },
            [
                "5", "false", "[]", "{}", "\"" + String(repeating: "x", count: 2049) + "\"",
                "\"" + String(repeating: "é", count: 1025) + "\"",
            ]
        ),
        (
            "invitees", ["call.invite", "call.cancel", "call.add"],
            [
                "\"bob\"", "5", "{}", "[]", "[5]", "[null]", "[\"\"]", "[[\"bob\"]]", "[\"bob\",\"bob\"]",
                "[\"bob\",\"carol\",\"bob\"]", "[\"a\u{85}\"]", "[\"\u{FFFE}\"]",
                "[\"" + String(repeating: "x", count: 65) + "\"]", "[\"bob\",7]",
                "[" + (0..<10).map { "\"u\($0)\"" }.joined(separator: ",") + "]",
            ]
        ),
        (
            "timeout", ["call.invite", "call.add"],
            [
                "0", "601", "-1", "1.5", "\"60\"", "true", "[]", "{}", "1e3", "1e400", "-1e400", "99999999999999999999",
                "9223372036854775807", "-9223372036854775808", "1e-9",
            ]
        ),
        ("notReceivedAfter", ["call.invite"], ["0", "31", "-5", "5.5", "\"5\"", "false", "[]", "1e100"]),
        ("mode", ["call.invite"], ["\"Common\"", "\"\"", "\"group\"", "1", "true", "[]"]),
        ("media", ["call.invite"], ["5", "true", "{}", "\"" + String(repeating: "m", count: 33) + "\""]),
        ("notReceivedCheck", ["call.invite"], ["1", "0", "\"true\"", "[]", "{}"]),
        ("joinPolicy", ["call.invite"], ["\"all\"", "\"Anyone\"", "1", "true"]),
        ("autoEnd", ["call.invite"], ["1", "\"false\"", "[]"]),
        ("ifBusy", ["call.invite"], ["\"wait\"", "true", "0"]),
        ("glare", ["call.invite"], ["\"join\"", "true", "1"]),
        (
            "reason", ["call.reject", "call.end"],
            ["5", "true", "[]", "\"" + String(repeating: "r", count: 257) + "\""]
        ),
        ("push", ["call.invite", "call.add"], ["5", "\"x\"", "true", "[]"]),
    ]

    static let cases = badFields.flatMap { bad in
        bad.types.flatMap { type in bad.values.map { (type, bad.field, $0) } }
    }

    @Test(arguments: cases)
    func aBadFieldIsNamed(_ type: String, _ field: String, _ value: String) throws {
        let refusal = try #require(refused(request(type, "\"\(field)\":\(value)")))
        #expect(refusal.requestID == RequestID("r1"))
        #expect(refusal.error.code == .badRequest)
        #expect(refusal.error.message.hasPrefix(field), "\(refusal.error.message)")
    }

    @Test(arguments: [
        (#""push":{"title":5}"#, "push.title"), (#""push":{"content":[]}"#, "push.content"),
        (#""push":{"payload":{}}"#, "push.payload"), (#""push":{"missed":"x"}"#, "push.missed"),
        (#""push":{"missed":{"title":5}}"#, "push.missed.title"),
        ("\"push\":{\"missed\":{\"content\":\"" + String(repeating: "x", count: 2049) + "\"}}", "push.missed.content"),
        ("\"push\":{\"title\":\"" + String(repeating: "x", count: 2049) + "\"}", "push.title"),
        (#""invitees":["bob",5]"#, "invitees[1]"), (#""invitees":["bob","bob"]"#, "invitees[1]"),
    ])
    func aBadPartIsNamedWithItsPlace(_ fields: String, _ name: String) throws {
        let refusal = try #require(refused(request("call.invite", fields)))
        #expect(refusal.error.code == .badRequest)
        #expect(refusal.error.message.hasPrefix(name + ":"), "\(refusal.error.message)")
    }

    @Test(arguments: requests)
    func aMissingRequiredFieldIsNamed(_ type: String) throws {
        let field = type == "call.invite" ? "invitees" : "callID"
        let refusal = try #require(refused("{\"type\":\"\(type)\",\"id\":\"r1\"}"))
        #expect(refusal.requestID == RequestID("r1"))
        #expect(refusal.error.message.hasPrefix(field))
        let withNull = try #require(refused(request(type, "\"\(field)\":null")))
        #expect(withNull.error.message.hasPrefix(field))
    }

    @Test func addNeedsItsInvitees() throws {
        let refusal = try #require(refused(#"{"type":"call.add","id":"r1","callID":"c"}"#))
        #expect(refusal.error.message.hasPrefix("invitees"))
    }

    @Test(arguments: requests, ["5", "null", "true", "[]", "\"\"", "\"a b\"", "\"a.b\"", "\"é\"", "{}"])
    func aRequestWithoutAUsableIDNamesTheID(_ type: String, _ id: String) throws {
        let refusal = try #require(refused(request(type, "\"id\":\(id)")))
        #expect(refusal.requestID == nil)
        #expect(refusal.error.code == .badRequest)
        #expect(refusal.error.message.hasPrefix("id"))
    }

    @Test func anIDThatIsTooLongIsNotUsable() {
        let id = String(repeating: "x", count: 65)
        #expect(refused("{\"type\":\"call.get\",\"id\":\"\(id)\",\"callID\":\"c\"}")?.requestID == nil)
    }

    @Test(arguments: ["", #""type":5"#, #""type":null"#, #""type":[]"#, #""type":{}"#, #""type":true"#])
    func aMissingTypeIsNamed(_ field: String) throws {
        let withID = try #require(refused("{\"id\":\"r1\"\(field.isEmpty ? "" : ",")\(field)}"))
        #expect(withID.requestID == RequestID("r1"))
        #expect(withID.error.code == .badRequest)
        #expect(withID.error.message.hasPrefix("type"))
        let withoutID = try #require(refused("{\(field)}"))
        #expect(withoutID.requestID == nil)
        #expect(withoutID.error.code == .badRequest)
    }

    @Test(arguments: [
        "", "call", "call.", "call.Invite", "call.invite ", "Call.get", "é", "response", "event",
        "call.signals", "message", "user", "push", "push.Register", String(repeating: "x", count: 64),
        String(repeating: "x", count: 65),
        String(repeating: "x", count: 5000),
    ])
    func aTypeThatIsNotServedIsUnknown(_ type: String) throws {
        let withID = try #require(refused("{\"type\":\"\(type)\",\"id\":\"r1\"}"))
        #expect(withID.requestID == RequestID("r1"))
        #expect(withID.error.code == .unknownType)
        let withoutID = try #require(refused("{\"type\":\"\(type)\"}"))
        #expect(withoutID.requestID == nil)
        #expect(withoutID.error.code == .badRequest)
        #expect(withoutID.error.message.hasPrefix("id"))
    }

    @Test(arguments: [
        #"{"type":"ack"}"#, #"{"type":"ack","callID":"c"}"#, #"{"type":"ack","revision":1}"#,
        #"{"type":"ack","callID":"a b","revision":1}"#, #"{"type":"ack","callID":5,"revision":1}"#,
        #"{"type":"ack","callID":"c","revision":"1"}"#, #"{"type":"ack","callID":"c","revision":-1}"#,
        #"{"type":"ack","callID":"c","revision":1.5}"#, #"{"type":"ack","callID":"c","revision":1e300}"#,
        #"{"type":"ack","callID":"c","revision":null}"#, #"{"type":"ack","messageID":"a b"}"#,
        #"{"type":"ack","messageID":5}"#, #"{"type":"ack","callID":"c","revision":99999999999999999999}"#,
        #"{"type":"call.heartbeat"}"#, #"{"type":"call.heartbeat","callID":7}"#,
        #"{"type":"call.heartbeat","callID":""}"#,
        #"{"type":"ack","id":"r1","callID":"c"}"#, #"{"type":"call.heartbeat","id":"r1"}"#,
    ])
    func aMalformedAckOrHeartbeatHasNoResponse(_ text: String) throws {
        let refusal = try #require(refused(text))
        #expect(refusal.requestID == nil)
        #expect(refusal.error.code == .badRequest)
    }

    @Test(arguments: ["", "null", "5", "\"x\"", "[]", "[{\"id\":\"r1\"}]", "{", "{\"id\":\"r1\"", "{\"id\":\"r1\"}x"])
    func whatIsNoObjectHasNoResponse(_ text: String) throws {
        let refusal = try #require(refused(text))
        #expect(refusal.requestID == nil)
        #expect(refusal.error.code == .badRequest)
    }
}
