import HTTPServing
import SignalingProtocol
import Testing

@testable import Gateway

/// The HTTP responses to a backend.
@Suite struct AnswerTests {
    private let call = CallSnapshot(
        callID: CallID("c")!, revision: 1, mode: .common, state: .ringing, inviter: UserID("a")!, createdAt: 1,
        timeout: 60, members: [])

    private func payload(_ outcome: Response.Outcome) -> [UInt8] {
        DownMessage.response(Response(id: RequestID("r")!, outcome: outcome)).encoded()
    }

    private func text(_ response: HTTPResponse?) -> String { String(decoding: response?.body ?? [], as: UTF8.self) }

    @Test func aCallThatIsMadeIsCreatedAndToldWhereItIs() {
        let response = RelayedRequest.Answer.created.response(
            payload(.success(.init(call: call, time: 1))), isFirst: true)
        #expect(response?.status == 201 && response?.headers == [.init("Location", "/v1/calls/c")])
        #expect(text(response).hasPrefix(#"{"callID":"c","revision":1,"#))
    }

    /// When the gateway has sent a request twice, the first copy may have been its own.
    @Test(arguments: [(true, 200), (false, 201)])
    func aCallThatWasThereIsNotCreated(isFirst: Bool, status: Int) {
        let repeated = payload(.success(.init(call: call, time: 1, repeated: true)))
        let response = RelayedRequest.Answer.created.response(repeated, isFirst: isFirst)
        #expect(response?.status == status)
        #expect(!text(response).contains("repeated"))
    }

    @Test func aUserIsToldAloneOrIsNotThere() {
        let known = UserSnapshot(userID: UserID("a")!, name: "A", isOnline: true)
        let answer = RelayedRequest.Answer.user
        #expect(
            text(answer.response(payload(.answer(.users([known], errors: []))), isFirst: true))
                == #"{"user":{"userID":"a","name":"A","online":true}}"#)
        let unknown = UserError(userID: UserID("a")!, code: .userNotRegistered)
        #expect(answer.response(payload(.answer(.users([], errors: [unknown]))), isFirst: true)?.status == 404)
    }

    @Test func whatIsNoResponseIsNone() {
        for bytes in ["", "{}", #"{"type":"event"}"#, #"{"type":"response","id":"r"}"#] {
            #expect(RelayedRequest.Answer.fields.response(Array(bytes.utf8), isFirst: true) == nil)
        }
    }

    @Test(
        arguments: [
            (.badRequest, 400), (.unknownType, 400), (.notInviter, 403), (.callNotFound, 404),
            (.userNotRegistered, 404),
            (.invalidState, 409), (.callEnded, 409), (.answeredElsewhere, 409), (.alreadyInCall, 409),
            (.callExists, 409),
            (.noInvitees, 409), (.callFull, 409), (.wrongMode, 409), (.tooLarge, 413), (.rateLimited, 429),
            (.internal, 500), (.unavailable, 503),
        ] as [(ErrorCode, Int)])
    func aRefusalIsAProblemWithItsStatus(_ code: ErrorCode, _ status: Int) {
        let refusal = payload(.failure(SignalingError(code, "why", state: "accepted")))
        let response = RelayedRequest.Answer.nothing.response(refusal, isFirst: true)
        #expect(response?.status == status && response?.contentType == "application/problem+json")
        #expect(text(response).contains(#""code":"\#(code)","state":"accepted""#))
    }

    @Test func aKeyOfAnotherRequestIsNoMistakeInTheRequest() {
        var error = SignalingError(.badRequest, "id: was used for another request, call.invite")
        error.isIDUsed = true
        let response = RelayedRequest.Answer.created.response(payload(.failure(error)), isFirst: true)
        #expect(response?.status == 422 && response?.contentType == "application/problem+json")
        #expect(text(response).contains(#""title":"Unprocessable Content","status":422"#))
        #expect(text(response).contains(#""code":"badRequest""#))
    }

    @Test func whenToAskAgainIsToldInWholeSeconds() {
        for (milliseconds, seconds) in [(1, "1"), (1_000, "1"), (1_001, "2")] {
            let problem = Problem(SignalingError(.rateLimited, "", retryAfter: milliseconds))
            #expect(problem.response.headers == [.init("Retry-After", seconds)])
        }
        #expect(Problem.unavailable.response.headers == [.init("Retry-After", "1")])
    }
}
