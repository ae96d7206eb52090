public import DropInSupport
public import Foundation

/// CallAPI's signalling channel, and the connection of a user, over Bellwire: `CallRtmManager` and
/// `CallRtmSignalClient` in a single class.
///
/// All methods may be called from any thread. Callbacks, listeners and the delegate are called on the main queue, in
/// order, never from within the call that caused them.
public class BellwireSignalClient: NSObject, ISignalClient {
    private let session: SignalSession

    /// Creates a user's channel, without a connection before `login`. `login` reports an invalid user id
    /// (`invalidUserId`) or configuration (`invalidConfiguration`).
    public init(configuration: BellwireConfiguration, userId: String) {
        session = SignalSession(configuration, userID: userId)
        super.init()
    }

    deinit { session.logout() }

    // MARK: The connection

    /// The delegate for the connection, held weakly.
    public weak var delegate: (any ICallRtmManagerListener)? {
        get { session.audience.delegate }
        set { session.audience.delegate = newValue }
    }

    /// Whether messages can be sent and received, as the delegate was told last.
    public var isConnected: Bool { session.audience.isConnected }

    /// The time limit for a message to reach a device of its peer, in seconds: 10 by default, 1 to 600. `sendMessage`
    /// uses the value at the time of its call.
    public var messageTimeout: Int {
        get { session.audience.messageTimeout }
        set { session.audience.messageTimeout = newValue }
    }

    /// Connects; `completion` gets nil when messages can be sent and received. After an error (`SignalClientError`) the
    /// client is logged out again. After success the client keeps itself connected until `logout`.
    ///
    /// The token comes from `renewToken(_:)` or, without that, from the configuration's provider.
    public func login(completion: @escaping (NSError?) -> Void) { session.login(OnMain(completion)) }

    /// Disconnects. Messages that are on their way fail for the app.
    public func logout() { session.logout() }

    /// Connects with another token, while messages wait. Before `login`: sets the token for the login.
    public func renewToken(_ token: String) { session.renew(token) }

    // MARK: Messages

    /// Sends a message of at most 32 KiB (as JSON) to all devices of the user. `completion` is called once: with nil
    /// when a device has acknowledged the message, otherwise with an error (`SignalClientError`). The error comes as
    /// soon as the message has failed, at the latest 3 s after `messageTimeout`.
    ///
    /// Messages to the same user arrive in the order of sending, each once. An offline user gets the messages that
    /// arrive within their time limits.
    public func sendMessage(userId: String, message: String, completion: ((NSError?) -> Void)?) {
        session.send(message, to: userId, OnMain(completion))
    }

    /// Adds a listener, held weakly; a listener that is added twice is called once. A listener that is added before
    /// `login` misses no messages.
    public func addListener(listener: any ISignalClientListener) { session.audience.add(listener) }

    /// Removes a listener.
    public func removeListener(listener: any ISignalClientListener) { session.audience.remove(listener) }
}
