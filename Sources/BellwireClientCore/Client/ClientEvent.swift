import SignalingProtocol

/// What the SDK tells an app. Every message about a call carries the whole call, so that an app which missed one is
/// right again with the next.
public enum ClientEvent: Equatable, Sendable {
    /// The service knows this device: it answered the device's presence. Told after each connect and reconnect.
    case online
    /// The connection to the broker is lost. The client reconnects by itself; requests are kept meanwhile.
    case offline(reason: String)
    /// An event of the protocol (docs/protocol.md, section 5), each once and in the order of revisions.
    case event(Event)
    /// The call as a response or a welcome brought it, when that is newer than all that this stream has told.
    case snapshot(CallSnapshot)
    /// The countdown of a ringing invitation passed, and the service said nothing: stop ringing. Told to the invitee,
    /// and to the inviter when nobody answered.
    case invitationExpired(CallSnapshot)
    /// The call is over, and how is not known: it ended while this device could not be reached.
    /// Also told of a call that has to be forgotten because too many ring (`SignalingClient.refusedInvitations`).
    case gone(CallSnapshot)
    /// Another member of a call sent this with `signal`. In the order in which it was sent, as far as it came.
    case signal(Signal)
    /// Another user sent this with `send`. Each once; those of one `stream` of a device in the order of `seq`, as far as they came.
    case message(IncomingMessage)
    /// What has become of a message of this client. Each once.
    case receipt(Receipt)
    /// Where the client stands now. In one order with all else: `connected` comes before `online` and what waited for this device.
    case connection(ConnectionState)
    /// The token ends in so many seconds, and there is no provider that gives another: `SignalingClient.renew(_:)`.
    case tokenWillExpire(seconds: Int)
    /// The service could not read something that this device sent.
    case error(SignalingError)
}

/// Codes of errors that the SDK makes itself. They are never on the wire.
extension ErrorCode {
    /// No response within `SignalingClient.Configuration.requestTimeout`. The request may have been served.
    public static let noResponse = ErrorCode(rawValue: "noResponse")
    /// More requests at once than the client keeps. Nothing was sent.
    public static let tooManyRequests = ErrorCode(rawValue: "tooManyRequests")
    /// The broker cannot be reached, or refuses this device.
    public static let notConnected = ErrorCode(rawValue: "notConnected")
    /// The app disconnected the client before the response came.
    public static let disconnected = ErrorCode(rawValue: "disconnected")
    /// No device of the recipient has taken a message in its time (`SignalingClient.deliver`).
    public static let notDelivered = ErrorCode(rawValue: "notDelivered")
    /// The task that waited was cancelled.
    public static let cancelled = ErrorCode(rawValue: "cancelled")
}
