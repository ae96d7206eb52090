import SignalingProtocol

/// The error codes of ZEGO Call's clients (docs/migrate/zego-call-server.md, Answers).
package enum ZegoCode: Int, Sendable, CaseIterable {
    case failed = 1001
    case paramInvalid = 1002
    case notInit = 1003
    case networkError = 1004
    case notLogin = 1005
    case callStatusWrong = 2001
    case tokenExpired = 2002

    /// The code of success.
    package static let success = 0

    /// Returns the code for an error of the service; `failed` for an error without a code of its own.
    package init(_ code: ErrorCode) {
        switch code {
        case .badRequest, .unknownType, .tooLarge: self = .paramInvalid
        case .invalidState, .callEnded, .answeredElsewhere, .alreadyInCall, .callExists: self = .callStatusWrong
        case .unavailable: self = .networkError
        default: self = .failed
        }
    }
}

extension SignalingError {
    /// Whether a cancel failed because the callee had accepted before.
    package var cameAfterAccept: Bool { code == .invalidState && state == MemberState.accepted.rawValue }
}
