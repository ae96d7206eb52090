internal import BellwireClient
internal import SignalingProtocol

/// The reason why a request of the app failed.
struct Refusal: Error, Sendable, Equatable {
    var code: ZIMErrorCode
    /// A text for people.
    var message: String

    static let notConfigured = Refusal(code: .commonModuleEngineNotInit, message: "ZIM.configure was not called")
    static let notLoggedIn = Refusal(code: .networkModuleUserIsNotLogged, message: "no user is logged in")
    static let alreadyLoggedIn = Refusal(code: .networkModuleUserHasAlreadyLogged, message: "log out first")
    static let unexpected = Refusal(code: .commonModuleIMServerError, message: "the response does not fit this request")

    static func badParameter(_ message: String) -> Refusal {
        Refusal(code: .commonModuleParamsInvalid, message: message)
    }
}

extension Refusal {
    init(_ error: SignalingError) {
        self.init(code: ZIMErrorCode(error.code), message: error.message)
    }
}

extension ZIMErrorCode {
    init(_ code: ErrorCode) {
        self = Self.codes[code] ?? .commonModuleIMServerError
    }

    private static let codes: [ErrorCode: ZIMErrorCode] = [
        .badRequest: .commonModuleParamsInvalid,
        .tooLarge: .commonModuleParamsInvalid,
        .callExists: .messageModuleCallAlreadyExists,
        .callNotFound: .messageModuleCallDoseNotExist,
        .notInviter: .messageModuleIsNotInvitor,
        .alreadyInCall: .messageModuleUserAlreadyInTheCall,
        .noInvitees: .messageModuleCallInviteUserDoesNotExist,
        .userNotRegistered: .messageModuleCallInviteUserDoesNotExist,
        .invalidState: .messageModuleCallError,
        .answeredElsewhere: .messageModuleCallError,
        .callEnded: .messageModuleCallError,
        .wrongMode: .messageModuleCallError,
        .callFull: .messageModuleCallError,
        .busy: .messageModuleCallError,
        .rateLimited: .commonModuleTriggerServerFrequencyLimit,
        .tooManyRequests: .commonModuleTriggerServerFrequencyLimit,
        .flooding: .commonModuleTriggerServerFrequencyLimit,
        .unavailable: .messageModuleCallServerError,
        .internal: .messageModuleCallServerError,
        .unknownType: .messageModuleCallServerError,
        .noResponse: .networkModuleRequestTimeout,
        .notConnected: .networkModuleNetworkError,
        .slowReader: .networkModuleNetworkError,
        .disconnected: .networkModuleUserIsNotLogged,
        .tokenExpired: .networkModuleTokenExpired,
        .tokenRevoked: .networkModuleTokenInvalid,
        .userDisabled: .networkModuleTokenInvalid,
    ]
}
