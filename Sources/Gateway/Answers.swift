import HTTPServing
import SignalingProtocol

/// Converts responses of the service to HTTP responses.
extension RelayedRequest.Answer {
    /// Returns the HTTP response to a backend; nil when `payload` is no response.
    /// - Parameters:
    ///   - isFirst: whether the request was sent only once. After a resend, the first response may have been lost, so
    ///     `repeated` does not mean an earlier request.
    ///   - wasMissing: whether the call did not exist when the request was sent before.
    func response(_ payload: [UInt8], isFirst: Bool, wasMissing: Bool = false) -> HTTPResponse? {
        guard case .response(let response)? = DownMessage.decode(payload) else { return nil }
        if case .zegoCall(let answer) = self { return answer.response(response.outcome, wasMissing: wasMissing) }
        if case .failure(let error) = response.outcome { return problem(error).response }
        switch (self, response.outcome) {
        case (.created, .success(let success)):
            let isRepeated = isFirst && success.repeated
            var response = Self.passed(on: payload, isRepeated ? 200 : 201)
            response.headers.append(.init("Location", "/v1/calls/\(success.call.callID)"))
            return response
        case (.user, .answer(.users(let users, _))):
            guard let user = users.first else { return Problem(.userNotRegistered).response }
            return .json(200) { writer in writer.object("user") { user.write(to: &$0) } }
        case (.message, .answer(.message(let id, _, _))): return .json(202) { $0.field("messageID", id.string) }
        case (.nothing, _), (.unanswered, _): return HTTPResponse(204)
        default: return Self.passed(on: payload, 200)
        }
    }

    /// A woken device must not learn of calls for which it has no key, and can do nothing about a coordinator that does
    /// not know the request.
    private func problem(_ error: SignalingError) -> Problem {
        guard case .ring = self else { return Problem(error) }
        switch error.code {
        case .callNotFound: return .wrongRingKey
        case .rateLimited, .unavailable, .internal: return Problem(error)
        default: return .unavailable
        }
    }

    /// Returns a response with the payload's fields, except the fields that identify the response.
    static func passed(on payload: [UInt8], _ status: Int) -> HTTPResponse {
        .json(status) { writer in
            try? JSONFields(parsing: payload)?.write(to: &writer, but: ["type", "id", "ok", "repeated"])
        }
    }
}

extension SignalingError {
    static let userNotRegistered = SignalingError(.userNotRegistered, "no such user")
}

extension HTTPResponse {
    static func json(_ status: Int, _ write: (inout JSONWriter) -> Void) -> HTTPResponse {
        HTTPResponse(status, contentType: "application/json", body: JSONWriter.object(write))
    }
}
