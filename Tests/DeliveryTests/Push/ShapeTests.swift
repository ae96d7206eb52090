import CallCore
import HTTPSending
import SignalingProtocol
import TemporaryFiles
import Testing
import Tokens

@testable import Delivery

/// Pushes in the shape that an app's call plugin already reads (docs/push-shapes.md).
struct ShapeTests {
    /// A reading of an app's setting `shape`.
    private func shape(_ json: String) throws -> PushShape {
        try PushShape(try JSONParser.parse(Array(json.utf8)), at: "apps.default.shape")
    }

    private func refusal(_ json: String) throws -> String? {
        do {
            _ = try shape(json)
            return nil
        } catch let error as SettingsError {
            return error.description
        }
    }

    /// The data of an FCM message, whose values FCM takes as strings alone.
    private func data(_ content: PushContent, _ shape: PushShape) throws -> [String: String] {
        let (content, filled) = FCM.trimmed(content, shape: shape.fcm, hasNotification: false)
        var data = ["bellwire": text(content.json)]
        for member in filled?.members ?? [] { data[member.name] = member.value.text }
        return data
    }

    @Test func callkitIncomingByVoIP() throws {
        let shape = try self.shape(#""flutter_callkit_incoming""#)
        let body = try json(APNs.body(try content(), isVoIP: true, shape: shape.apnsVoIP))
        #expect(body.fields.map(\.key) == ["aps", "bellwire", "id", "nameCaller", "handle", "isVideo"])
        #expect(body["nameCaller"]?.string == "Alice" && body["handle"]?.string == "alice")
        #expect(body["isVideo"] == .bool(true))
        let id = try #require(body["id"]?.string)
        #expect(id.count == 36 && id == id.lowercased())
        let voice = try json(APNs.body(try content(media: nil), isVoIP: true, shape: shape.apnsVoIP))
        #expect(voice["isVideo"] == .bool(false))
        let alert = try json(APNs.body(try content(), isVoIP: false, shape: shape.apns))
        #expect(alert.fields.map(\.key) == ["aps", "bellwire"])
    }

    @Test func callkitIncomingByFCM() throws {
        let shape = try self.shape(#""flutter_callkit_incoming""#)
        let data = try self.data(try content().leaving(at: start + 1_000), shape)
        #expect(data["nameCaller"] == "Alice" && data["handle"] == "alice" && data["isVideo"] == "true")
        #expect(data["type"] == "1" && data["avatar"] == "https://example.com/a.png" && data["duration"] == "29000")
        #expect(data["extra"] == #"{"callID":"call-1"}"# && data.count == 9)
    }

    @Test(arguments: [PushKind.stop, .missed])
    func aShapeWithoutAKindIsForRingAlone(kind: PushKind) throws {
        let fixed = try shape(#""callkeep""#)
        #expect(try data(try content(kind), fixed).count == 1)
        let withKind = try shape(#"{"fcm":{"event":["{kind}"]}}"#)
        #expect(try data(try content(kind), withKind)["event"] == #"["\#(kind.rawValue)"]"#)
    }

    @Test func callKeep() throws {
        let shape = try self.shape(#""callkeep""#)
        let body = try json(APNs.body(try content(name: nil), isVoIP: true, shape: shape.apnsVoIP))
        #expect(body.fields.map(\.key).suffix(4) == ["uuid", "callerName", "handle", "hasVideo"])
        #expect(body["callerName"]?.string == "alice" && body["hasVideo"] == .bool(true))
        #expect(try data(try content(), shape)["hasVideo"] == "true")
    }

    /// The UUID is the call's, as apps derive it from the call id for CallKit: the first 16 bytes of its SHA-256.
    @Test func theUUIDIsTheOneThatAppsDerive() throws {
        let data = try self.data(try content(), try shape(#"{"fcm":{"u":"{uuid}"}}"#))
        let hex = sha256(Array("call-1".utf8)).prefix(16).reduce(into: "") { text, byte in
            text += byte < 16 ? "0" + String(byte, radix: 16) : String(byte, radix: 16)
        }
        #expect(data["u"]?.replacing("-", with: "") == hex)
        #expect(data["u"]?.split(separator: "-").map(\.count) == [8, 4, 4, 4, 12])
    }

    @Test func eachPlaceholder() throws {
        let template = """
            {"fcm":{"a":"{callID}|{kind}|{inviter}|{name}|{avatarURL}|{media}|{title}|{body}|{payload}|{expiresAt}",\
            "b":"{isVideo} {type}","c":"{{name} }","d":[1,2.5,null,true,{"e":"{type}"}],"f":false}}
            """
        let said = Request.Push(title: "{name} rings", content: "Hello", payload: "p")
        let data = try self.data(try content(said: said), try shape(template))
        let end = start + 30_000
        #expect(
            data["a"]
                == "call-1|ring|alice|Alice|https://example.com/a.png|video|{name} rings|Hello|p|\(end)")
        #expect(data["b"] == "true 1" && data["c"] == "{name} }")
        #expect(data["d"] == #"[1,2.5,null,true,{"e":1}]"# && data["f"] == "false")
    }

    /// Names that could make a user look like another are shown as in the texts.
    @Test func namesAreShownAsInTexts() throws {
        let data = try self.data(
            try content(name: "\u{202E}ecilA", avatarURL: nil), try shape(#"{"fcm":{"n":"{name}","v":"{avatarURL}"}}"#))
        #expect(data["n"] == "ecilA" && data["v"]?.isEmpty == true)
    }

    @Test func theContentIsShortenedFirst() throws {
        let long = String(repeating: "x", count: 2_048)
        let shape = try self.shape(#"{"apns":{"p":"{payload}","t":"{title}"}}"#)
        let whole = try content(said: .init(title: "T", content: "B", payload: long))
        let body = try json(APNs.body(whole, isVoIP: false, shape: shape.apns))
        #expect(body["bellwire"]?.object?["payload"] == nil && body["p"]?.string == long)
        #expect(body["bellwire"]?.object?["title"]?.string == "T")
        let both = try self.shape(#"{"apns":{"p":"{payload}{payload}","t":"{title}","v":"{avatarURL}"}}"#)
        let shorter = try json(APNs.body(whole, isVoIP: false, shape: both.apns))
        #expect(shorter["p"]?.string?.isEmpty == true && shorter["t"]?.string == "T")
        #expect(shorter["v"]?.string == "https://example.com/a.png")
    }

    @Test func theBodyOfAShapeIsCutByWholeCharacters() throws {
        let said = Request.Push(title: "T", content: String(repeating: "👨‍👩‍👧‍👦", count: 80))
        let template = try shape(#"{"fcm":{"a":"{body}","b":"{body}"}}"#)
        let (content, filled) = FCM.trimmed(try content(said: said), shape: template.fcm, hasNotification: false)
        let cut = try #require(filled?.members.first?.value.text)
        #expect(content.body == nil && !cut.isEmpty && cut.count < 80)
        #expect(cut.hasSameBytes(as: String(repeating: "👨‍👩‍👧‍👦", count: cut.count)))
    }

    /// A user cannot keep a push from leaving by a long name: a shape that does not fit is left out.
    @Test func aShapeThatCannotFitIsLeftOut() throws {
        let many = (0..<60).map { "\"n\($0)\":\"{name}\"" }.joined(separator: ",")
        let shape = try self.shape("{\"apnsVoIP\":{\(many)},\"fcm\":{\(many)}}")
        let long = try content(name: String(repeating: "n", count: 256))
        let body = APNs.body(long, isVoIP: true, shape: shape.apnsVoIP)
        #expect(try json(body).fields.map(\.key) == ["aps", "bellwire"] && body.count <= APNs.mostVoIPBytes)
        #expect(try data(long, shape).count == 1)
        #expect(try json(APNs.body(try content(), isVoIP: true, shape: shape.apnsVoIP)).fields.count == 62)
    }

    @Test func mistakesAreNamed() throws {
        let place = "apps.default.shape"
        #expect(
            try refusal(#""flutter""#)
                == "\(place): flutter: expected bellwire, flutter_callkit_incoming, callkeep, or an object")
        #expect(try refusal(#"{"web":{}}"#)?.hasPrefix("\(place).web: unknown field") == true)
        #expect(try refusal("7") == "\(place): expected a JSON object")
        #expect(try refusal(#"{"fcm":[]}"#) == "\(place).fcm: expected a JSON object")
        let unknown = try refusal(#"{"fcm":{"a":{"b":["","{nme}"]}}}"#)
        #expect(unknown?.hasPrefix("\(place).fcm.a.b[1]: unknown {…}") == true)
        for open in ["{", "{name", "x{", "{ name}", "{}"] {
            #expect(try refusal("{\"fcm\":{\"a\":\"\(open)\"}}")?.contains("unknown {…}") == true)
        }
        for name in ["aps", "bellwire"] {
            let reason = try refusal("{\"apns\":{\"\(name)\":1}}")
            #expect(reason == "\(place).apns.\(name): this member is Bellwire's own")
        }
        #expect(try refusal(#"{"fcm":{"a":1,"a":2}}"#) == "\(place).fcm.a: stands twice")
        #expect(try refusal(#"{"fcm":{"google.x":1}}"#) == "\(place).fcm.\"google.x\": FCM keeps this name for itself")
        #expect(try refusal(#"{"apns":{"from":1}}"#) == nil)
        let most = PushTemplate.mostBytes - #"{"a":""}"#.utf8.count
        #expect(try refusal("{\"fcm\": { \"a\" : \"\(String(repeating: "x", count: most))\" } }") == nil)
        #expect(
            try refusal("{\"fcm\":{\"a\":\"\(String(repeating: "x", count: most + 1))\"}}")
                == "\(place).fcm: 1025 bytes as compact JSON, over 1024")
    }

    /// The setting reaches the requests to the providers.
    @Test func theSettingsFileNamesTheShape() throws {
        let directory = try TemporaryDirectory()
        try directory.write("key.p8", try Keys.apns.pem())
        let settings = try PushSettings(
            file: try directory.write(
                "push.json",
                """
                {"apps":{"default":{"apns":{"keyFile":"key.p8","keyID":"K","teamID":"T","bundleID":"com.example"},
                "shape":"callkeep"}}}
                """))
        let request = try PushProviders(settings).request(try push(.apnsVoIP))
        #expect(try json(request.body)["callerName"]?.string == "Alice")
        #expect(try json(try PushProviders(settings).request(try push(.apns)).body)["callerName"] == nil)
    }
}
