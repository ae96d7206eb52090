import HTTPServing
import SignalingProtocol
import Testing
import Tokens
import ZegoCallProtocol

@testable import Gateway

/// The requests of the protocol that the requests of ZEGO Call's clients become, and the answers
/// (docs/migrate/zego-call-server.md).
@Suite struct ZegoCallTests {
    private func bearer(_ user: String = "alice", device: String? = nil) -> Bearer {
        var token = Token(user: UserID(user)!, expiresAt: .max)
        token.device = device.map { DeviceID($0)! }
        return Bearer(text: "t", token: token)
    }

    private func asked(_ route: Route, _ body: String, _ user: Bearer? = nil) throws(Problem) -> Operation {
        try Asked(
            route: route, parameters: [:], query: [], body: Array(body.utf8), key: RequestID("k")!,
            user: user ?? bearer()
        ).operation { RequestID("new")! }
    }

    private func relayed(_ route: Route, _ body: String, _ user: Bearer? = nil) throws -> (String, Request.Body) {
        guard case .relay(let request) = try asked(route, body, user),
            case .success(.request(let decoded)) = UpMessage.decode(request.payload)
        else { throw Missing() }
        return ("\(request.device)", decoded.body)
    }

    private struct Missing: Error {}

    @Test func aStartIsAnAdvancedInvitationOfAMinute() throws {
        let body = #"""
            {"call_id":"a call","caller":{"id":"alice","name":"A\"ü"},"callees":[{"id":"bob","name":"B"}],"type":2}
            """#
        let (device, request) = try relayed(.zegoStart, body)
        #expect(device == "alice/zegocall")
        guard case .invite(let invite) = request else { throw Missing() }
        #expect(invite.callID == ZegoCall.callID("a call") && invite.invitees == [UserID("bob")!])
        #expect(invite.mode == .advanced && invite.timeout == 60 && invite.media == "video" && invite.autoEnd)
        let data =
            #"{"zegoCall":{"call_id":"a call","caller":{"id":"alice","name":"A\"ü"},"#
            + #""callees":[{"id":"bob","name":"B"}],"type":2}}"#
        #expect(invite.extendedData == data)
    }

    @Test func theOthersAreTheirRequests() throws {
        let call = CallID("c")!
        let base = #"{"id":"alice","call_id":"c""#
        #expect(
            try relayed(.zegoCancel, base + #","callee_id":"bob"}"#).1
                == .cancel(.init(callID: call, invitees: [UserID("bob")!])))
        #expect(try relayed(.zegoAccept, base + "}").1 == .accept(.init(callID: call)))
        for (type, reason) in [(1, "declined"), (2, "busy")] {
            let body = base + #","caller_id":"bob","type":\#(type)}"#
            #expect(try relayed(.zegoDecline, body).1 == .reject(.init(callID: call, reason: reason)))
        }
        #expect(try relayed(.zegoEnd, base + "}").1 == .end(.init(callID: call)))
        guard case .heartbeat(let beat, call) = try asked(.zegoHeartbeat, base + "}") else { throw Missing() }
        #expect(UpMessage.decode(beat.payload) == .success(.heartbeat(call)))
    }

    @Test func aDeviceThatTheTokenNamesActsAsItself() throws {
        func device(_ name: String?) throws -> String {
            try relayed(.zegoAccept, #"{"id":"alice","call_id":"c"}"#, bearer(device: name)).0
        }
        #expect(try device(nil) == "alice/zegocall")
        #expect(try device("web") == "alice/zegocall.web")
        let long = String(repeating: "x", count: 64)
        #expect(try device(long) == "alice/zegocall." + ZegoCall.shortened(long))
    }

    @Test func whoeverIsNotTheTokensUserIsRefused() {
        for (route, body) in [
            (Route.zegoEnd, #"{"id":"bob","call_id":"c"}"#), (.zegoEnd, #"{"call_id":"c"}"#),
            (
                .zegoStart,
                #"{"call_id":"c","caller":{"id":"bob","name":""},"callees":[{"id":"eve","name":""}],"type":1}"#
            ),
        ] {
            #expect(throws: Problem.self) { try asked(route, body) }
        }
    }

    @Test func whatDoesNotFitIntoAnInvitationIsRefused() throws {
        func start(_ name: Int) throws(Problem) -> Operation {
            let name = String(repeating: "n", count: name)
            return try asked(
                .zegoStart,
                #"{"call_id":"c","caller":{"id":"alice","name":"\#(name)"},"callees":[{"id":"bob"}],"type":1}"#)
        }
        let rest = ZegoCall(
            id: "c", caller: .init(id: "alice", name: ""), callees: [.init(id: "bob", name: "")], kind: .voice)
        let room = Limits.extendedDataBytes - rest.extendedData.utf8.count
        _ = try start(room)
        #expect(throws: Problem.self) { try start(room + 1) }
    }

    // MARK: Answers

    private func response(
        _ answer: ZegoAnswer, _ outcome: Response.Outcome, wasMissing: Bool = false
    ) -> (Int, String) {
        let payload = DownMessage.response(Response(id: RequestID("r")!, outcome: outcome)).encoded()
        let response = RelayedRequest.Answer.zegoCall(answer).response(payload, isFirst: true, wasMissing: wasMissing)
        return (response?.status ?? 0, String(decoding: response?.body ?? [], as: UTF8.self))
    }

    private func call(_ device: String) -> CallSnapshot {
        CallSnapshot(
            callID: CallID("c")!, revision: 2, mode: .advanced, state: .active, inviter: UserID("alice")!,
            createdAt: 1, timeout: 60,
            members: [
                MemberSnapshot(userID: UserID("alice")!, state: .accepted, device: DeviceID(device)!, updatedAt: 1)
            ])
    }

    @Test func successIsZero() {
        let (status, body) = response(.done, .success(.init(call: call("zegocall"), time: 1)))
        #expect(status == 200 && body == #"{"code":0,"message":""}"#)
    }

    @Test(
        arguments: [
            (.badRequest, 400, 1002), (.tooLarge, 413, 1002), (.callNotFound, 404, 1001), (.notInviter, 403, 1001),
            (.invalidState, 409, 2001), (.callEnded, 409, 2001), (.answeredElsewhere, 409, 2001),
            (.alreadyInCall, 409, 2001), (.callExists, 409, 2001), (.rateLimited, 429, 1001),
            (.unavailable, 503, 1004), (.internal, 500, 1001),
        ] as [(ErrorCode, Int, Int)])
    func aRefusalHasItsCode(_ code: ErrorCode, _ status: Int, _ number: Int) {
        let (found, body) = response(.done, .failure(SignalingError(code, "why")))
        #expect(found == status && body == #"{"code":\#(number),"message":"why"}"#)
    }

    @Test func aTokenThatDoesNotCountIsNoLogin() {
        #expect(ZegoCode(.noUsersToken) == .notLogin && ZegoCode(.wrongUsersRole) == .notLogin)
        #expect(ZegoCode(.expired) == .tokenExpired)
    }

    @Test func aCancelThatWasFirstHasSucceeded() {
        let cancelled = Response.Outcome.failure(SignalingError(.invalidState, "", state: "cancelled"))
        let accepted = Response.Outcome.failure(SignalingError(.invalidState, "", state: "accepted"))
        #expect(response(.cancel, cancelled, wasMissing: true).0 == 200)
        #expect(response(.cancel, cancelled).0 == 409)
        #expect(response(.cancel, accepted, wasMissing: true).0 == 409)
        let missing = Response.Outcome.failure(SignalingError(.callNotFound, ""))
        #expect(ZegoAnswer.cancel.isMissing(missing) && !ZegoAnswer.accept.isMissing(missing))
    }

    // MARK: A cancel that came too late

    private func cancel() throws -> RelayedRequest {
        let body = #"{"id":"alice","call_id":"c","callee_id":"bob"}"#
        guard case .relay(let request) = try asked(.zegoCancel, body) else { throw Missing() }
        return request
    }

    private func body(_ request: RelayedRequest?) -> Request? {
        guard let request, case .success(.request(let decoded)) = UpMessage.decode(request.payload) else { return nil }
        return decoded
    }

    private func call(_ states: MemberState...) -> Response.Outcome {
        var call = call("zegocall")
        call.members += zip(["bob", "carol", "dave"], states).map { name, state in
            MemberSnapshot(userID: UserID(name)!, state: state, invitedBy: UserID("alice")!, updatedAt: 1)
        }
        return .success(.init(call: call, time: 1))
    }

    private let late = Response.Outcome.failure(SignalingError(.invalidState, "", state: "accepted"))

    @Test func aCancelThatLosesToTheAcceptEndsTheCallOfTwo() throws {
        let look = try #require(try cancel().next(after: late))
        #expect(look.device == bearer().zegoCallDevice && body(look)?.body == .get(.init(callID: CallID("c")!)))
        let end = try #require(look.next(after: call(.accepted)))
        #expect(end.device == bearer().zegoCallDevice && body(end)?.body == .end(.init(callID: CallID("c")!)))
        #expect(end.next(after: call(.accepted)) == nil)
        #expect(end.answer.response(encoded(call(.accepted)), isFirst: true)?.status == 200)
    }

    @Test(
        arguments: [
            [.accepted, .accepted], [.accepted, .received], [.accepted, .cancelled, .inviting],
        ] as [[MemberState]])
    func aCancelThatComesTooLateInAGroupLeavesTheOthers(_ states: [MemberState]) throws {
        let look = try #require(try cancel().next(after: late))
        let found = call(states[0], states[1], states.count > 2 ? states[2] : .rejected)
        #expect(look.next(after: found) == nil)
        let answer = try #require(look.answer.response(encoded(found), isFirst: true))
        #expect(answer.status == 409 && String(decoding: answer.body, as: UTF8.self).hasPrefix(#"{"code":2001"#))
    }

    @Test func aCancelThatComesTooLateEndsTheCallWhoseOthersAreGone() throws {
        let look = try #require(try cancel().next(after: late))
        #expect(look.next(after: call(.accepted, .cancelled, .rejected)) != nil)
    }

    /// The cancel has an Idempotency-Key: its `call.end` has the same id, and so the same answer.
    @Test func aLateCancelThatIsSentAgainHasTheSameAnswer() throws {
        let end = try #require(try cancel().next(after: late)?.next(after: call(.accepted)))
        let again = try cancel().next(after: .failure(SignalingError(.callEnded, "", state: "accepted")))
        #expect(body(again) == body(end) && body(end)?.id != RequestID("k")!)
    }

    @Test(arguments: ["rejected", "timeout", "cancelled"])
    func aCancelThatLosesToAnotherAnswerIsRefused(_ state: String) throws {
        #expect(try cancel().next(after: .failure(SignalingError(.invalidState, "", state: state))) == nil)
    }

    private func encoded(_ outcome: Response.Outcome) -> [UInt8] {
        DownMessage.response(Response(id: RequestID("k")!, outcome: outcome)).encoded()
    }

    @Test func theCallerOfAnAcceptedCallBeginsToBeat() throws {
        func caller(_ device: String, _ answer: ZegoAnswer = .accept) -> DeviceAddress? {
            answer.caller(.success(.init(call: call(device), time: 1)))?.device
        }
        #expect(caller("zegocall.web").map { "\($0)" } == "alice/zegocall.web")
        #expect(caller("phone") == nil && caller("server") == nil && caller("zegocall", .done) == nil)
    }
}
