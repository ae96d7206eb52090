import SignalingProtocol
import Testing

/// Each message that a side writes reads as the same message at the other side.
struct RoundTripTests {
    static let seeds = Array(UInt64(1)...20)

    @Test(arguments: seeds)
    func everyUpMessageSurvives(_ seed: UInt64) throws {
        var messages = RandomMessages(seed: seed)
        for _ in 0..<200 {
            let message = messages.upMessage()
            let bytes = message.encoded()
            #expect(UpMessage.decode(bytes) == .success(message), "\(String(decoding: bytes, as: UTF8.self))")
        }
    }

    @Test(arguments: seeds)
    func everyDownMessageSurvives(_ seed: UInt64) throws {
        var messages = RandomMessages(seed: seed)
        for _ in 0..<100 {
            let message = messages.downMessage()
            let bytes = message.encoded()
            #expect(DownMessage.decode(bytes) == message, "\(String(decoding: bytes, as: UTF8.self))")
        }
    }

    @Test(arguments: seeds)
    func everyPresenceMessageSurvives(_ seed: UInt64) throws {
        var messages = RandomMessages(seed: seed)
        for _ in 0..<100 {
            let message = messages.presence()
            #expect(PresenceMessage.decode(message.encoded()) == .success(message))
        }
    }

    /// Optional fields that are null may stand or be left out (section 4); a client reads both the same.
    @Test func nullFieldsOfACallCountAsAbsent() throws {
        let call = """
            {"callID":"c","revision":3,"mode":"advanced","state":"active","media":null,"inviter":"alice",
             "createdAt":1790000000000,"acceptedAt":null,"endedAt":null,"endReason":null,"endedBy":null,"timeout":60,
             "extendedData":null,"members":[{"userID":"alice","state":"accepted","device":"phone","invitedBy":null,
             "updatedAt":1790000000000,"reason":null,"new":1}],"new":{}}
            """
        let object = try #require(try parse(call).object)
        let snapshot = try #require(CallSnapshot(json: object))
        #expect(snapshot.acceptedAt == nil)
        #expect(snapshot.member(UserID("alice")!)?.device == DeviceID("phone"))
        #expect(snapshot.member(UserID("alice")!)?.reason == nil)
        #expect(snapshot.member(UserID("bob")!) == nil)
    }

    @Test(arguments: [
        "", "[]", "{}", #"{"type":"news"}"#, #"{"type":"response","id":"r"}"#,
        #"{"type":"response","id":"r","ok":true}"#,
        #"{"type":"event","event":"call.unheardOf","callID":"c","revision":1,"time":1,"call":{}}"#,
        #"{"type":"error"}"#, #"{"type":"error","error":{}}"#, #"{"type":"welcome"}"#,
    ])
    func aClientIgnoresWhatItDoesNotKnow(_ text: String) {
        #expect(DownMessage.decode(utf8(text)) == nil)
    }

    /// Only a strange service sends such counts; no such count would be written again as it came.
    @Test func aNegativeCountOfWhatWasLeftOutIsNone() throws {
        let text = """
            {"type":"welcome","session":"s","serverTime":1,"heartbeatInterval":20,"heartbeatTimeout":60,
             "omittedCalls":-1,"calls":[]}
            """
        let welcome = Welcome(session: "s", serverTime: 1, heartbeatInterval: 20, heartbeatTimeout: 60, calls: [])
        #expect(DownMessage.decode(utf8(text)) == .welcome(welcome))
    }

    /// A timeline from a store may be damaged.
    @Test func aTimelineOfTimesFarApartCanBeWritten() {
        var messages = RandomMessages(seed: 1)
        var call = messages.call()
        call.createdAt = .max
        let entries = [Int64.min, .max, 0].map { TraceEntry(time: $0, coordinator: "c", step: .deadline(late: 0)) }
        let success = Response.Success(call: call, time: 1, timeline: Timeline(entries: entries))
        let message = DownMessage.response(Response(id: RequestID("r")!, outcome: .success(success)))
        #expect(DownMessage.decode(message.encoded()) == message)
    }

    @Test func aClientMeetsANewErrorCodeWithoutFailing() {
        let text = #"{"type":"response","id":"r","ok":false,"error":{"code":"brandNew","message":"m"}}"#
        let error = SignalingError(ErrorCode(rawValue: "brandNew"), "m")
        #expect(DownMessage.decode(utf8(text)) == .response(.init(id: RequestID("r")!, outcome: .failure(error))))
    }
}
