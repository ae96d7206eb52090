/// The protocol's error codes (docs/protocol.md, section 2).
///
/// The type is a struct rather than an enum, so that a client accepts a code that a later service adds.
public struct ErrorCode: RawRepresentable, Hashable, Sendable, CustomStringConvertible {
    public let rawValue: String

    public init(rawValue: String) { self.rawValue = rawValue }

    /// A field is malformed, missing, ill-typed or out of range; the message names the field.
    public static let badRequest = ErrorCode(rawValue: "badRequest")
    public static let unknownType = ErrorCode(rawValue: "unknownType")
    /// The whole request is larger than the limit.
    public static let tooLarge = ErrorCode(rawValue: "tooLarge")
    /// An invite names a `callID` that is already used, and is not a resend.
    public static let callExists = ErrorCode(rawValue: "callExists")
    /// The call does not exist, or this user was never invited to the call. Both cases have the same code, so that
    /// strangers cannot tell whether a call exists.
    public static let callNotFound = ErrorCode(rawValue: "callNotFound")
    public static let notInviter = ErrorCode(rawValue: "notInviter")
    /// The request exists in advanced mode only.
    public static let wrongMode = ErrorCode(rawValue: "wrongMode")
    /// The request is not possible in the state that the error names.
    public static let invalidState = ErrorCode(rawValue: "invalidState")
    /// Another device of the same user has accepted or rejected.
    public static let answeredElsewhere = ErrorCode(rawValue: "answeredElsewhere")
    public static let callEnded = ErrorCode(rawValue: "callEnded")
    /// The user is accepted in another live advanced call; the error names this call.
    public static let alreadyInCall = ErrorCode(rawValue: "alreadyInCall")
    public static let busy = ErrorCode(rawValue: "busy")
    public static let callFull = ErrorCode(rawValue: "callFull")
    /// Every invitee failed; the service makes no call.
    public static let noInvitees = ErrorCode(rawValue: "noInvitees")
    /// A presence message named a session that has ended; the error names this session. The device begins another
    /// session.
    public static let sessionOver = ErrorCode(rawValue: "sessionOver")
    /// The operator has named no media server for calls like this.
    public static let noMedia = ErrorCode(rawValue: "noMedia")
    public static let userNotRegistered = ErrorCode(rawValue: "userNotRegistered")
    public static let rateLimited = ErrorCode(rawValue: "rateLimited")
    /// The store or the service cannot answer now. The device sends the request again.
    public static let unavailable = ErrorCode(rawValue: "unavailable")
    public static let `internal` = ErrorCode(rawValue: "internal")

    /// The reason why the broker is about to disconnect this device, like the next four codes (section 1, Tokens).
    public static let tokenExpired = ErrorCode(rawValue: "tokenExpired")
    public static let tokenRevoked = ErrorCode(rawValue: "tokenRevoked")
    public static let flooding = ErrorCode(rawValue: "flooding")
    public static let slowReader = ErrorCode(rawValue: "slowReader")
    /// An administrator has disabled the user. No request of the user's devices is served.
    public static let userDisabled = ErrorCode(rawValue: "userDisabled")

    /// Every code of this version; a test compares the schemas with this list.
    package static let all: [ErrorCode] = [
        .badRequest, .unknownType, .tooLarge, .callExists, .callNotFound, .notInviter, .wrongMode, .invalidState,
        .answeredElsewhere, .callEnded, .alreadyInCall, .busy, .callFull, .noInvitees, .sessionOver,
        .noMedia, .userNotRegistered, .rateLimited, .unavailable, .internal, .tokenExpired, .tokenRevoked, .flooding,
        .slowReader, .userDisabled,
    ]

    public var description: String { rawValue }
}

/// An error in the form of the wire: `{"code":"…","message":"…"}` and the fields that some codes add (section 2).
public struct SignalingError: Error, Equatable, Sendable, CustomStringConvertible {
    public var code: ErrorCode
    /// A text for people; the wording may change.
    public var message: String
    /// With `invalidState`, `callEnded` and `answeredElsewhere`: the state that prevents the request.
    public var state: String?
    /// With `alreadyInCall`: the user's live call.
    public var callID: CallID?
    /// With `rateLimited`: milliseconds to wait.
    public var retryAfter: Int?
    /// With `sessionOver`: the session that has ended.
    public var session: String?
    /// With `sessionOver`: why the session has ended; `takenOver` when the device has a newer session at another
    /// broker.
    public var reason: String?
    /// With the reason `takenOver`: the newer session. A client that knows the newer session as a former session of its
    /// own connects again: the beginning of that session came late.
    public var newerSession: String?
    /// With `badRequest`: whether this device has used the request's `id` for another request. A gateway answers such a
    /// request with another status.
    package var isIDUsed = false

    public init(
        _ code: ErrorCode, _ message: String, state: String? = nil, callID: CallID? = nil, retryAfter: Int? = nil,
        session: String? = nil, reason: String? = nil
    ) {
        self.code = code
        self.message = message
        self.state = state
        self.callID = callID
        self.retryAfter = retryAfter
        self.session = session
        self.reason = reason
    }

    public var description: String { "\(code): \(message)" }
}

extension SignalingError {
    package func write(to writer: inout JSONWriter) {
        writer.object("error") { writer in
            writer.field("code", code.rawValue)
            writer.field("message", message)
            writer.field("state", state)
            writer.field("callID", callID?.string)
            writer.field("retryAfter", retryAfter)
            writer.field("session", session)
            writer.field("reason", reason)
            writer.field("newerSession", newerSession)
            if isIDUsed { writer.field("idUsed", true) }
        }
    }

    /// Nil when `json` is not an error object with a code.
    package init?(json: JSONObject) {
        guard let code = json["code"]?.string else { return nil }
        self.init(
            ErrorCode(rawValue: code), json["message"]?.string ?? "", state: json["state"]?.string,
            callID: json["callID"]?.string.flatMap(CallID.init), retryAfter: json["retryAfter"]?.integer.map(Int.init),
            session: json["session"]?.string, reason: json["reason"]?.string)
        newerSession = json["newerSession"]?.string
        isIDUsed = json["idUsed"]?.bool ?? false
    }
}
