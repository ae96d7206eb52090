import SignalingProtocol

/// What ZEGO Call's clients know as failures (docs/migrate/zego-call-server.md, Answers).
package enum ZegoCode: Int, Sendable, CaseIterable {
    case failed = 1001
    case paramInvalid = 1002
    case notInit = 1003
    case networkError = 1004
    case notLogin = 1005
    case callStatusWrong = 2001
    case tokenExpired = 2002

    /// Where nothing failed.
    package static let success = 0

    /// Of a refusal by the service. What has no code of its own is `failed`.
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
    /// Of a cancel whose callee has accepted before.
    package var cameAfterAccept: Bool { code == .invalidState && state == MemberState.accepted.rawValue }
}
