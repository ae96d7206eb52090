import SignalingProtocol
import Testing

/// The content of a request (docs/protocol.md, section 2).
struct RequestDigestTests {
    private func digest(_ fields: String) throws -> Int64? {
        guard case .request(let request) = try decoded(fields) else { return nil }
        return request.body.digest
    }

    private let invite = #"{"type":"call.invite","id":"r","invitees":["a","b"],"extendedData":"ü","timeout":60}"#

    @Test(arguments: [
        #"{ "timeout" : 60.0, "extendedData":"\u00fc","invitees":["a", "b"],"id":"r","type":"call.invite"}"#,
        #"{"type":"call.invite","id":"other","callID":"c","invitees":["a","b"],"extendedData":"ü","timeout":60}"#,
        #"{"type":"call.invite","id":"r","invitees":["a","b"],"extendedData":"ü","timeout":60,"later":1,"media":null}"#,
        #"{"type":"call.invite","id":"r","invitees":["a","b"],"extendedData":"ü","timeout":60,"mode":"common"}"#,
    ])
    func theSameFieldsAreTheSameContent(_ other: String) throws {
        #expect(try digest(invite) == digest(other))
    }

    @Test(arguments: [
        #"{"type":"call.invite","id":"r","invitees":["b","a"],"extendedData":"ü","timeout":60}"#,
        #"{"type":"call.invite","id":"r","invitees":["a","b"],"extendedData":"u","timeout":60}"#,
        #"{"type":"call.invite","id":"r","invitees":["a","b"],"extendedData":"ü"}"#,
        #"{"type":"call.invite","id":"r","invitees":["a","b"],"extendedData":"ü","timeout":60,"media":"voice"}"#,
        #"{"type":"call.invite","id":"r","invitees":["a","b"],"extendedData":"ü","timeout":60,"push":{"title":""}}"#,
        #"{"type":"call.invite","id":"r","invitees":["a","b"],"extendedData":"ü","timeout":60,"autoEnd":false}"#,
    ])
    func otherFieldsAreOtherContent(_ other: String) throws {
        #expect(try digest(invite) != digest(other))
    }

    private func digest(data: String, _ more: String = "") throws -> Int64? {
        try digest(#"{"type":"message.send","id":"r","to":"bob","data":\#(data)\#(more)}"#)
    }

    @Test(arguments: [
        (#"{"a":1,"b":{"c":[null,true],"d":"é"}}"#, #"{ "b":{"d":"\u00e9", "c":[null,true]},"a":1e0 }"#),
        ("60", "60.0"), ("0", "-0.0"), (#""/""#, #""\/""#), ("[ ]", "[]"),
    ])
    func dataIsTheSameHoweverItIsWritten(_ one: String, _ other: String) throws {
        #expect(try digest(data: one) == digest(data: other))
    }

    @Test func whatIsNearbyIsOther() throws {
        let values = [
            "null", "true", "false", "0", "1", "0.5", #""""#, #""0""#, #""null""#, "[]", "{}", "[0]", "[[]]", "[0,1]",
            "[1,0]",
            "[[0],1]", "[[0,1]]", #"{"a":0}"#, #"{"a":1}"#, #"{"b":0}"#, #"{"a":0,"b":1}"#, #"{"a":1,"b":0}"#,
            #"{"a":{"b":1}}"#,
            #"["a",0]"#, #"{"a":null}"#, #"[{"a":1},{"b":2}]"#, #"[{"b":2},{"a":1}]"#, #"{"a":[1],"b":[2]}"#,
            #"{"a":[2],"b":[1]}"#,
        ]
        let digests = try values.map { try digest(data: $0) }
        #expect(Set(digests).count == values.count)
    }

    /// A sender that begins its stream anew, or names a message, sends the same message.
    @Test func thePlaceInTheStreamIsNoContent() throws {
        let first = try digest(data: "1")
        #expect(try digest(data: "1", #","seq":5,"stream":"s","messageID":"m""#) == first)
        #expect(try digest(data: "1", #","ttl":5"#) != first)
    }

    /// Records hold digests: with another digest, the service would refuse a request that was made before an update and
    /// is sent again after the update.
    @Test func digestsStayWhatTheyAre() throws {
        #expect(try digest(invite) == 8_042_661_515_598_678_070)
        #expect(try digest(data: #"{"a":[1,"x",null,true,0.5]}"#) == 61_682_044_620_696_133)
    }

    @Test func whatIsNotRememberedHasNone() throws {
        #expect(try digest(#"{"type":"call.get","id":"r","callID":"c"}"#) == nil)
        #expect(try digest(#"{"type":"user.update","id":"r","name":"A"}"#) == nil)
    }
}
