internal import BellwireClient
internal import BellwireClientCore
internal import Foundation
internal import SignalingProtocol

/// The errors of `BellwireSignalClient`: `NSError`s of `domain` with these codes, and the reason as the description.
public enum SignalClientError {
    public static let domain = "BellwireSignalClient"
    /// The own user id, or the peer's, is empty, `"0"`, or not a valid user id. The message was not sent.
    public static let invalidUserId = -1
    /// The request came before `login` or after `logout`, or another connection has this device id.
    public static let notLoggedIn = -2
    /// No device of the peer acknowledged the message, as far as the client knows when the time limit ends. The
    /// description says so when this device has no connection.
    public static let notDelivered = -3
    /// The message has more than 32 KiB as JSON, and was not sent.
    public static let tooLarge = -4
    /// More messages wait than the client keeps (1024). The message was not sent.
    public static let tooManyMessages = -5
    /// The service refuses the message.
    public static let refused = -6
    /// The broker and the service cannot be reached, or refuse this user.
    public static let notConnected = -7
    /// The token has ended.
    public static let tokenExpired = -8
    /// The configuration is not valid: the description names the mistake.
    public static let invalidConfiguration = -9

    static func make(_ code: Int, _ reason: String) -> NSError {
        NSError(domain: domain, code: code, userInfo: [NSLocalizedDescriptionKey: reason])
    }

    /// Returns the error for a failed login.
    static func ofLogin(_ error: SignalingError) -> NSError {
        switch error.code {
        case .tokenExpired: make(tokenExpired, error.message)
        case .badRequest: make(invalidConfiguration, error.message)
        case .disconnected: make(notLoggedIn, error.message)
        default: make(notConnected, error.message)
        }
    }
}
