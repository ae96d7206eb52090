import SignalingProtocol
import Testing

@testable import Gateway

/// The requests of the protocol that a backend's requests become.
@Suite struct OperationTests {
    private func asked(
        _ route: Route, _ parameters: [String: String] = [:], query: [(name: String, value: String)] = [],
        body: String = "", key: String? = "k"
    ) throws(Problem) -> Operation {
        try Asked(
            route: route, parameters: parameters, query: query, body: Array(body.utf8),
            key: key.map { RequestID($0)! }
        ).operation { RequestID("new")! }
    }

    /// Returns the device and the request, as a coordinator reads them.
    private func relayed(
        _ route: Route, _ parameters: [String: String] = [:], query: [(name: String, value: String)] = [],
        body: String = "", key: String? = "k"
    ) throws -> (device: String, request: Request) {
        guard case .relay(let request) = try asked(route, parameters, query: query, body: body, key: key),
            case .success(.request(let decoded)) = UpMessage.decode(request.payload, maxBytes: 65_536)
        else { throw Missing() }
        return ("\(request.device)", decoded)
    }

    private struct Missing: Error {}

    @Test func anInviteIsTheInvitersAsTheDeviceServer() throws {
        let (device, request) = try relayed(
            .invite, body: #"{"inviter":"alice","invitees":["bob"],"callID":"c","type":"x","id":"y"}"#)
        #expect(device == "alice/server")
        #expect(
            request
                == Request(id: RequestID("k")!, body: .invite(.init(invitees: [UserID("bob")!], callID: CallID("c")!))))
    }

    @Test func aDeviceThatIsNamedActs() throws {
        let (device, request) = try relayed(
            .accept, ["callID": "c"], body: #"{"userID":"bob","device":"web","callID":"other","extendedData":"x"}"#,
            key: nil)
        #expect(device == "bob/web")
        #expect(
            request == Request(id: RequestID("new")!, body: .accept(.init(callID: CallID("c")!, extendedData: "x"))))
    }

    @Test func aMessageGoesToTheUserOfThePathByteForByte() throws {
        let (device, request) = try relayed(
            .message, ["userID": "b o/b"], body: #"{"from":"alice","to":"x","data":{"a" : 1.50},"seq":2,"stream":"s"}"#)
        #expect(device == "alice/server")
        let message = Request.Message(
            to: UserID("b o/b")!, data: JSONText(#"{"a" : 1.50}"#)!, seq: 2, stream: "s")
        #expect(request.body == .message(message))
    }

    @Test func whatHasNoBodyIsAskedByTheUserOfThePath() throws {
        #expect(try relayed(.user, ["userID": "a"]).request.body == .userQuery(.init(userIDs: [UserID("a")!])))
        #expect(try relayed(.deleteUser, ["userID": "a"]).request.body == .userDelete)
        #expect(try relayed(.signOut, ["userID": "a", "device": "d"]).request.body == .userSignOut(DeviceID("d")!))
        let page = try relayed(.history, ["userID": "a"], query: [("count", "7"), ("cursor", "x"), ("count", "9")])
        #expect(page.request.body == .query(.init(count: 7, cursor: "x")))
    }

    @Test func aHeartbeatHasNoResponse() throws {
        guard case .relay(let request) = try asked(.heartbeat, ["callID": "c"], body: #"{"userID":"a"}"#) else {
            throw Missing()
        }
        #expect(request.payload == UpMessage.heartbeat(CallID("c")!).encoded())
        guard case .unanswered = request.answer else { throw Missing() }
    }

    @Test(
        arguments: [
            (.invite, [:], "", "the body is not JSON"), (.invite, [:], "[]", "the body: expected a JSON object"),
            (.invite, [:], "{}", "inviter"), (.invite, [:], #"{"inviter":""}"#, "inviter"),
            (.accept, ["callID": "c"], #"{"userID":5}"#, "userID"),
            (.accept, ["callID": "c"], #"{"userID":"a","device":"a b"}"#, "device"),
            (.user, ["userID": ""], "", "userID"), (.signOut, ["userID": "a", "device": "a/b"], "", "device"),
            (.token, [:], #"{"userID":"a","ttl":0}"#, "ttl"), (.token, [:], #"{"userID":"a","ttl":86401}"#, "ttl"),
        ] as [(Route, [String: String], String, String)])
    func whatIsWrongIsNamed(_ route: Route, _ parameters: [String: String], _ body: String, _ name: String) {
        #expect {
            try asked(route, parameters, body: body)
        } throws: { error in
            let problem = error as? Problem
            return problem?.status == 400 && problem?.error.message.hasPrefix(name) ?? false
        }
    }

    @Test func aCallThatCannotBeIsNoCall() {
        #expect(throws: Problem(SignalingError(.callNotFound, "no such call"))) { try asked(.call, ["callID": "a/b"]) }
    }
}
