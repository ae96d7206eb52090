import HTTPServing
import SignalingProtocol

/// The refusal of an HTTP request, as in RFC 9457, with `code` and the other fields of a protocol error
/// (docs/backend.md, Errors).
struct Problem: Error, Equatable {
    let status: Int
    let error: SignalingError
    var headers: [HTTPResponse.Header] = []
    /// Whether the token has expired, but was valid before.
    var isAboutExpiry = false

    /// Makes a refusal from an error of the service.
    init(_ error: SignalingError) {
        self.error = error
        status = error.isIDUsed ? 422 : Self.status(of: error.code)
        if let seconds = retryAfter { headers = [.init("Retry-After", String(seconds))] }
    }

    private init(_ status: Int, _ code: String, _ message: String, _ headers: [HTTPResponse.Header] = []) {
        self.status = status
        error = SignalingError(ErrorCode(rawValue: code), message)
        self.headers = headers
    }

    static func badRequest(_ message: String) -> Problem { Problem(SignalingError(.badRequest, message)) }
    static let noToken = unauthorized("expected Authorization: Bearer and a token with role server")
    static func unauthorized(_ reason: String) -> Problem {
        Problem(401, "unauthorized", reason, [.init("WWW-Authenticate", "Bearer")])
    }
    static let noUsersToken = unauthorized("expected Authorization: Bearer and the user's own token")
    static var expired: Problem {
        var problem = unauthorized("the token is not valid: expired")
        problem.isAboutExpiry = true
        return problem
    }
    static let wrongUsersRole = Problem(403, "forbidden", "the token has a role; expected the token of a user")
    static let wrongRole = Problem(403, "forbidden", "the token's role is not server; expected a backend's token")
    static let noAdminToken = unauthorized("expected Authorization: Bearer and a token with role admin")
    static let wrongAdminRole = Problem(
        403, "forbidden", "the token's role is not admin; expected an administrator's token")
    static let disabledUser = Problem(403, "forbidden", "an administrator has disabled this user")
    static let unknownPath = Problem(404, "notFound", "unknown path")
    static let unknownEndpoint = Problem(404, "notFound", "there is no webhook endpoint of this name")
    static let tooManyLetters = Problem(
        SignalingError(
            .tooLarge,
            "the endpoint has more than \(AdminBounds.letterBytes >> 20) MiB of events and dead letters: use bellwire webhooks"
        ))
    static let noPage = Problem(
        404, "notFound", "this gateway serves no call page; docs/browsers.md describes how to build and serve the page")
    /// The same refusal for every mistake in a ring check, so that strangers do not learn which calls exist.
    static let wrongRingKey = Problem(404, "notFound", "no invitation of this device has this key")
    static func wrongMethod(_ allowed: [String]) -> Problem {
        let list = allowed.joined(separator: ", ")
        return Problem(405, "methodNotAllowed", "only \(list)", [.init("Allow", list)])
    }
    static let noPrivateKey = Problem(
        501, "notImplemented", "this gateway has no private key and cannot make tokens (--keys)")
    /// The request may or may not have been served; the client may repeat the request with the same key.
    static let unavailable = Problem(
        SignalingError(.unavailable, "no answer in time, or not possible now: repeat it with the same Idempotency-Key"))
    static let overloaded = Problem(
        SignalingError(.unavailable, "the gateway is overloaded", retryAfter: 1_000))

    static let tooManyStreams = Problem(
        SignalingError(.rateLimited, "this user has \(StreamDeskBounds.perUser) streams already", retryAfter: 1_000))

    /// Converts a refusal of the HTTP server itself.
    @Sendable static func response(_ refusal: HTTPRefusal) -> HTTPResponse {
        switch refusal.status {
        case 413: Problem(SignalingError(.tooLarge, refusal.reason)).response
        case 503: Problem(SignalingError(.unavailable, refusal.reason)).response
        case 501: Problem(501, "notImplemented", refusal.reason).response
        default: Problem.badRequest(refusal.reason).response
        }
    }

    /// Seconds, rounded up.
    private var retryAfter: Int? {
        if let retryAfter = error.retryAfter { return max(1, (retryAfter + 999) / 1_000) }
        return error.code == .unavailable ? 1 : nil
    }

    private static func status(of code: ErrorCode) -> Int {
        switch code {
        case .badRequest, .unknownType: 400
        case .notInviter: 403
        case .callNotFound, .userNotRegistered: 404
        case .tooLarge: 413
        case .rateLimited: 429
        case .unavailable: 503
        case .internal: 500
        // A race, or a state that does not allow the request.
        default: 409
        }
    }

    var response: HTTPResponse {
        let body = JSONWriter.object { writer in
            writer.field("type", "about:blank")
            writer.field("title", title)
            writer.field("status", status)
            writer.field("detail", error.message)
            writer.field("code", error.code.rawValue)
            writer.field("state", error.state)
            writer.field("callID", error.callID?.string)
            writer.field("retryAfter", error.retryAfter)
        }
        return HTTPResponse(status, contentType: "application/problem+json", headers: headers, body: body)
    }

    private var title: String {
        switch status {
        case 400: "Bad Request"
        case 401: "Unauthorized"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 405: "Method Not Allowed"
        case 409: "Conflict"
        case 413: "Content Too Large"
        case 422: "Unprocessable Content"
        case 429: "Too Many Requests"
        case 501: "Not Implemented"
        case 503: "Service Unavailable"
        default: "Internal Server Error"
        }
    }
}
