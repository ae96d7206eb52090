import SignalingProtocol
import Testing

/// The reading of well-formed messages (docs/protocol.md, section 2).
struct UpMessageTests {
    @Test func inviteHasTheContractsDefaults() throws {
        let expected = Request.Invite(invitees: users("bob"))
        #expect(try body(#"{"type":"call.invite","id":"r1","invitees":["bob"]}"#) == .invite(expected))
        #expect(expected.mode == .common)
        #expect(expected.timeout == nil)
        #expect(!expected.notReceivedCheck)
        #expect(expected.joinPolicy == .invited)
        #expect(expected.autoEnd)
        #expect(expected.ifBusy == .ring)
        #expect(expected.glare == .ring)
    }

    @Test func inviteWithEveryField() throws {
        let text = """
            {"type":"call.invite","id":"r1","callID":"c1","invitees":["bob","carol"],"mode":"advanced","timeout":30,
             "media":"video","extendedData":"x","notReceivedCheck":true,"notReceivedAfter":7,"joinPolicy":"anyone",
             "autoEnd":false,"ifBusy":"reject","glare":"merge",
             "push":{"title":"t","content":"c","payload":"p","missed":{"title":"m","content":"n"}}}
            """
        let expected = Request.Invite(
            invitees: users("bob", "carol"), callID: CallID("c1"), mode: .advanced, timeout: 30, media: "video",
            extendedData: "x", notReceivedCheck: true, notReceivedAfter: 7, joinPolicy: .anyone, autoEnd: false,
            ifBusy: .reject, glare: .merge,
            push: .init(title: "t", content: "c", payload: "p", missed: .init(title: "m", content: "n")))
        #expect(try body(text) == .invite(expected))
    }

    @Test func rejectDeclinesUnlessItSaysOtherwise() throws {
        let call = CallID("c")!
        #expect(try body(#"{"type":"call.reject","id":"r","callID":"c"}"#) == .reject(.init(callID: call)))
        #expect(Request.Reject(callID: call).reason == "declined")
        #expect(
            try body(#"{"type":"call.reject","id":"r","callID":"c","reason":"busy"}"#)
                == .reject(.init(callID: call, reason: "busy")))
        #expect(
            try body(#"{"type":"call.reject","id":"r","callID":"c","reason":""}"#)
                == .reject(.init(callID: call, reason: "")))
    }

    @Test(
        arguments: [
            (#""type":"call.cancel""#, .cancel(.init(callID: CallID("c")!))),
            (#""type":"call.cancel","invitees":["bob"]"#, .cancel(.init(callID: CallID("c")!, invitees: users("bob")))),
            (#""type":"call.accept","extendedData":"x""#, .accept(.init(callID: CallID("c")!, extendedData: "x"))),
            (
                #""type":"call.add","invitees":["bob"],"timeout":5"#,
                .add(.init(callID: CallID("c")!, invitees: users("bob"), timeout: 5))
            ),
            (#""type":"call.join""#, .join(.init(callID: CallID("c")!))),
            (#""type":"call.quit","extendedData":"""#, .quit(.init(callID: CallID("c")!, extendedData: ""))),
            (#""type":"call.end","reason":"bye""#, .end(.init(callID: CallID("c")!, reason: "bye"))),
            (#""type":"call.get""#, .get(.init(callID: CallID("c")!))),
        ] as [(String, Request.Body)])
    func everyOtherRequestIsRead(_ fields: String, _ expected: Request.Body) throws {
        #expect(try body("{\"id\":\"r\",\"callID\":\"c\",\(fields)}") == expected)
        #expect(expected.callID == CallID("c"))
    }

    @Test func aMessageHasAPlaceInAStream() throws {
        let fields = #""type":"message.send","id":"r","to":"bob","data":1"#
        let (bob, data) = (UserID("bob")!, JSONText("1")!)
        #expect(
            try body("{\(fields),\"seq\":2,\"stream\":\"run_-2\"}")
                == .message(.init(to: bob, data: data, seq: 2, stream: "run_-2")))
        #expect(try body("{\(fields),\"stream\":null}") == .message(.init(to: bob, data: data)))
        for wrong in ["\"\"", "5", "\"a b\"", "\"" + String(repeating: "s", count: 65) + "\""] {
            let refusal = refused("{\(fields),\"stream\":\(wrong)}")
            #expect(refusal?.error.code == .badRequest && refusal?.error.message.hasPrefix("stream") == true)
        }
    }

    @Test func nullCountsAsAbsent() throws {
        let text = """
            {"type":"call.invite","id":"r1","invitees":["bob"],"callID":null,"mode":null,"timeout":null,"media":null,
             "extendedData":null,"notReceivedCheck":null,"notReceivedAfter":null,"joinPolicy":null,"autoEnd":null,
             "ifBusy":null,"glare":null,"push":null}
            """
        #expect(try body(text) == .invite(.init(invitees: users("bob"))))
        #expect(
            try body(#"{"type":"call.invite","id":"r","invitees":["bob"],"push":{"title":null}}"#)
                == .invite(.init(invitees: users("bob"), push: .init())))
        #expect(refused(#"{"type":"call.invite","id":"r1","invitees":null}"#)?.error.code == .badRequest)
    }

    @Test func unknownFieldsAreIgnored() throws {
        let text = #"{"type":"call.get","id":"r","callID":"c","new":{"deep":[1]},"":0,"timeout":"not read here"}"#
        #expect(try body(text) == .get(.init(callID: CallID("c")!)))
    }

    @Test func lastOfTwoEqualFieldsWins() throws {
        #expect(
            try body(#"{"type":"call.end","type":"call.get","id":"r","callID":5,"callID":"c"}"#)
                == .get(.init(callID: CallID("c")!)))
    }

    @Test(arguments: ["60", "60.0", "6e1", "600e-1", "0.6e2"])
    func wholeSecondsMayBeWrittenInManyWays(_ number: String) throws {
        let text = #"{"type":"call.invite","id":"r","invitees":["bob"],"timeout":"# + number + "}"
        #expect(try body(text) == .invite(.init(invitees: users("bob"), timeout: 60)))
    }

    @Test(arguments: [("timeout", 1), ("timeout", 600), ("notReceivedAfter", 1), ("notReceivedAfter", 30)])
    func borderValuesAreAllowed(_ field: String, _ value: Int) throws {
        let text = "{\"type\":\"call.invite\",\"id\":\"r\",\"invitees\":[\"b\"],\"\(field)\":\(value)}"
        #expect(try body(text) != nil)
    }

    @Test func longestAllowedTextsAreRead() throws {
        let long = String(repeating: "é", count: 1024)
        let text = #"{"type":"call.accept","id":"r","callID":"c","extendedData":""# + long + "\"}"
        #expect(try body(text) == .accept(.init(callID: CallID("c")!, extendedData: long)))
        let reason = String(repeating: "r", count: 256)
        #expect(
            try body(#"{"type":"call.reject","id":"r","callID":"c","reason":""# + reason + "\"}")
                == .reject(.init(callID: CallID("c")!, reason: reason)))
        let media = String(repeating: "m", count: 32)
        #expect(
            try body(#"{"type":"call.invite","id":"r","invitees":["b"],"media":""# + media + "\"}")
                == .invite(.init(invitees: users("b"), media: media)))
    }

    @Test func nineInviteesAreAllowedAlsoInTwoSpellingsOfOneLetter() throws {
        let names = (1...7).map { "\"u\($0)\"" }.joined(separator: ",")
        let text = "{\"type\":\"call.invite\",\"id\":\"r\",\"invitees\":[\(names),\"\u{E9}\",\"e\u{301}\"]}"
        guard case .invite(let invite)? = try body(text) else {
            Issue.record("not an invite")
            return
        }
        #expect(invite.invitees.count == 9)
    }

    @Test(
        arguments: [
            (#"{"type":"ack","callID":"c","revision":3}"#, .ackCall(CallID("c")!, revision: 3)),
            (#"{"type":"ack","callID":"c","revision":0}"#, .ackCall(CallID("c")!, revision: 0)),
            (
                #"{"type":"ack","callID":"c","revision":9007199254740993}"#,
                .ackCall(CallID("c")!, revision: 9_007_199_254_740_993)
            ),
            (#"{"type":"ack","messageID":"m"}"#, .ackMessage(MessageID("m")!)),
            (#"{"type":"ack","callID":"c","revision":3,"id":"r"}"#, .ackCall(CallID("c")!, revision: 3)),
            (#"{"type":"call.heartbeat","callID":"c"}"#, .heartbeat(CallID("c")!)),
            (#"{"type":"call.heartbeat","callID":"c","id":5}"#, .heartbeat(CallID("c")!)),
        ] as [(String, UpMessage)])
    func acksAndHeartbeatsNeedNoID(_ text: String, _ expected: UpMessage) throws {
        #expect(try decoded(text) == expected)
    }
}
