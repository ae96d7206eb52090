public import DropInSupport
public import Foundation

/// CallAPI's signalling channel, and the connection of a user, over Bellwire: what `CallRtmManager` and `CallRtmSignalClient` are together.
///
/// All methods may be called from any thread. Callbacks, listeners and the delegate hear on the main queue, one after another, never from
/// inside the call that caused it.
public class BellwireSignalClient: NSObject, ISignalClient {
    private let session: SignalSession

    /// A user's channel; nothing is connected before `login`. What is not of its form is told by `login`.
    public init(configuration: BellwireConfiguration, userId: String) {
        session = SignalSession(configuration, userID: userId)
        super.init()
    }

    deinit { session.logout() }

    // MARK: The connection

    /// Hears of the connection. Held weakly.
    public weak var delegate: (any ICallRtmManagerListener)? {
        get { session.audience.delegate }
        set { session.audience.delegate = newValue }
    }

    /// Messages can be sent and received: as the delegate was told last.
    public var isConnected: Bool { session.audience.isConnected }

    /// How long a message may take to reach a device of its peer, in seconds: 10 by default, 1 to 600. What `sendMessage` finds set counts.
    public var messageTimeout: Int {
        get { session.audience.messageTimeout }
        set { session.audience.messageTimeout = newValue }
    }

    /// Connects; `completion` gets nil when messages can be sent and received. With an error (`SignalClientError`) the client is logged out
    /// again. After it the client keeps itself connected until `logout`.
    ///
    /// The token is that of `renewToken(_:)` or, without one, the configuration's provider's.
    public func login(completion: @escaping (NSError?) -> Void) { session.login(OnMain(completion)) }

    /// Disconnects. Messages that are on their way fail for the app.
    public func logout() { session.logout() }

    /// Another token: the client connects with it, and messages wait meanwhile. Before `login`: the one to log in with.
    public func renewToken(_ token: String) { session.renew(token) }

    // MARK: Messages

    /// Sends a message of at most 32 KiB (as JSON) to all devices of the user. `completion` is called once: with nil when one of them has it,
    /// with an error (`SignalClientError`) when none has it within `messageTimeout`, at most 3 s after that time.
    ///
    /// Messages to one user arrive in the order in which they were sent, each once. A user who is not there gets what comes within the time.
    public func sendMessage(userId: String, message: String, completion: ((NSError?) -> Void)?) {
        session.send(message, to: userId, OnMain(completion))
    }

    /// Held weakly; one that is added twice hears once. Before `login` none misses anything.
    public func addListener(listener: any ISignalClientListener) { session.audience.add(listener) }

    public func removeListener(listener: any ISignalClientListener) { session.audience.remove(listener) }
}
