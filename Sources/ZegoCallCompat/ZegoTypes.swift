internal import BellwireClientCore
public import Foundation
internal import SignalingProtocol
internal import ZegoCallProtocol

/// The error of a failed request, with a code of document 003.
public enum ZegoError: Error, Equatable, Sendable {
    /// There is no such call, or the service refuses for a reason without a code of its own.
    case failed
    /// The path or the parameters do not match document 003, or name a user other than the connected user.
    case paramInvalid
    case notInit
    /// There was no response within 10 s: the broker or the service cannot be reached.
    case networkError
    /// The request came before `connect` succeeded or after `disconnect`, or another connection has this device id.
    case notLogin
    /// The state of the call, or of the user, does not allow the request.
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

/// `localizedDescription` says what the code means. `BellwireConfiguration.log` gets the reason of a failed connection.
extension ZegoError: LocalizedError {
    public var errorDescription: String? {
        switch self {
        case .failed: "there is no such call, or the service refuses"
        case .paramInvalid: "a user id, the broker's address, the device id, a path or a parameter is not valid"
        case .notInit: "init has not been called"
        case .networkError: "broker and service were not reached within 10 s, or the broker refuses this user"
        case .notLogin: "there is no connection: connect has not succeeded, or another connection has this device id"
        case .callStatusWrong: "the state of the call, or of the user, does not allow the request"
        case .tokenExpired: "the token has ended"
        case .other(let code): "error \(code)"
        }
    }
}

/// The way in which a callee declines.
public enum DeclineType: Int, Sendable {
    case decline = 1
    case busy = 2
}

/// The `type` of a call in `start_call`.
public enum CallType: Int, Sendable {
    case voice = 1
    case video = 2
}

extension ZegoError {
    /// Converts an error of the client or of the service.
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
