import SignalingProtocol
import Testing

struct PresenceMessageTests {
    private func decode(_ text: String) throws -> PresenceMessage { try PresenceMessage.decode(utf8(text)).get() }

    @Test(arguments: [
        (#"{"online":true,"session":"s1"}"#, PresenceMessage(.online, session: "s1")),
        (#"{"online":true}"#, PresenceMessage(.online, session: "")),
        (#"{"online":true,"session":null,"reason":null}"#, PresenceMessage(.online, session: "")),
        (#"{"online":false,"reason":"lost","session":"s1"}"#, PresenceMessage(.offline(.lost), session: "s1")),
        (#"{"online":false,"reason":"logout","session":"s1"}"#, PresenceMessage(.offline(.logout), session: "s1")),
        (#"{"online":false,"session":"s1"}"#, PresenceMessage(.offline(.lost), session: "s1")),
        (#"{"online":false}"#, PresenceMessage(.offline(.lost), session: "")),
        (#"{"online":true,"reason":"lost","x":1}"#, PresenceMessage(.online, session: "")),
    ])
    func isReadAsTheContractSays(_ text: String, _ expected: PresenceMessage) throws {
        #expect(try decode(text) == expected)
    }

    @Test(arguments: [
        ("{}", "online"), (#"{"online":null}"#, "online"), (#"{"online":1}"#, "online"),
        (#"{"online":"true"}"#, "online"),
        (#"{"online":false,"reason":"tired"}"#, "reason"), (#"{"online":false,"reason":5}"#, "reason"),
        (#"{"online":true,"session":5}"#, "session"), (#"{"online":true,"session":[]}"#, "session"),
        ("{\"online\":true,\"session\":\"" + String(repeating: "s", count: 65) + "\"}", "session"),
    ])
    func aBadFieldIsNamed(_ text: String, _ field: String) throws {
        let error = #expect(throws: SignalingError.self) { try decode(text) }
        #expect(error?.code == .badRequest)
        #expect(error?.message.hasPrefix(field) == true)
    }

    @Test(arguments: ["", "true", "[]", "{", "{\"online\":true}x", "{\"online\":true,\"session\":\"\\ud800\"}"])
    func whatIsNoObjectIsABadRequest(_ text: String) throws {
        let error = #expect(throws: SignalingError.self) { try decode(text) }
        #expect(error?.code == .badRequest)
    }

    @Test func aLongestSessionIsAllowed() throws {
        let session = String(repeating: "é", count: 32)
        #expect(try decode("{\"online\":true,\"session\":\"\(session)\"}").session == session)
    }

    @Test func isTooLargeBeyondTheLimit() throws {
        let text = "{\"online\":true,\"pad\":\"" + String(repeating: "x", count: 70_000) + "\"}"
        let error = #expect(throws: SignalingError.self) { try decode(text) }
        #expect(error?.code == .tooLarge)
    }

    @Test func isWrittenAsTheContractShowsIt() {
        #expect(PresenceMessage(.online, session: "s").encoded() == utf8(#"{"online":true,"session":"s"}"#))
        #expect(
            PresenceMessage(.offline(.lost), session: "s").encoded()
                == utf8(#"{"online":false,"reason":"lost","session":"s"}"#))
    }
}
