internal import BellwireClientCore
internal import SignalingProtocol
internal import ZegoCallProtocol

/// Why a request failed.
public enum ZegoError: Error, Equatable, Sendable {
    /// There is no such call, or the service refuses for a reason that has no code of its own.
    case failed
    /// Path or parameters are not those of document 003, or name another user than the one who is connected.
    case paramInvalid
    case notInit
    /// No answer: broker or service cannot be reached.
    case networkError
    /// Before `connect` succeeded, after `disconnect`, or another connection has this device id.
    case notLogin
    /// Not possible in the state of the call, or of the user.
    case callStatusWrong
    case tokenExpired
    case other(Int32)

    public var code: Int32 {
        switch self {
        case .failed: Int32(ZegoCode.failed.rawValue)
        case .paramInvalid: Int32(ZegoCode.paramInvalid.rawValue)
        case .notInit: Int32(ZegoCode.notInit.rawValue)
        case .networkError: Int32(ZegoCode.networkError.rawValue)
        case .notLogin: Int32(ZegoCode.notLogin.rawValue)
        case .callStatusWrong: Int32(ZegoCode.callStatusWrong.rawValue)
        case .tokenExpired: Int32(ZegoCode.tokenExpired.rawValue)
        case .other(let code): code
        }
    }
}

/// How a callee declines.
public enum DeclineType: Int, Sendable {
    case decline = 1
    case busy = 2
}

/// What is spoken of in `start_call`.
public enum CallType: Int, Sendable {
    case voice = 1
    case video = 2
}

extension ZegoError {
    /// The client's refusal of a request, or the service's.
    init(_ error: SignalingError) {
        switch error.code {
        case .noResponse, .notConnected: self = .networkError
        case .disconnected: self = .notLogin
        case .tokenExpired, .tokenRevoked: self = .tokenExpired
        default: self.init(ZegoCode(error.code))
        }
    }

    private init(_ code: ZegoCode) {
        switch code {
        case .failed: self = .failed
        case .paramInvalid: self = .paramInvalid
        case .notInit: self = .notInit
        case .networkError: self = .networkError
        case .notLogin: self = .notLogin
        case .callStatusWrong: self = .callStatusWrong
        case .tokenExpired: self = .tokenExpired
        }
    }
}
