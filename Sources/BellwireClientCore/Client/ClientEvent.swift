import SignalingProtocol

/// An event that the SDK delivers to an app. Every event about a call carries the whole call, so an app that has missed
/// an event is up to date with the next event.
public enum ClientEvent: Equatable, Sendable {
    /// The service has answered the device's presence, after each connect and reconnect: calls ring on this device.
    case online
    /// The broker connection is lost. The client reconnects by itself and keeps the requests meanwhile. `reason` is
    /// text for people.
    case offline(reason: String)
    /// An event of the protocol (docs/protocol.md, section 5), each once and in the order of revisions.
    case event(Event)
    /// The state of a call from a response or a welcome, when that state is newer than all earlier events of this
    /// stream.
    case snapshot(CallSnapshot)
    /// The countdown of a ringing invitation has passed without news from the service: stop ringing. The invitee gets
    /// this event, and the inviter when no invitee has answered.
    case invitationExpired(CallSnapshot)
    /// The call has ended in an unknown way, while this device could not be reached. Also delivered for a call that the
    /// client has to forget because too many calls ring (`SignalingClient.refusedInvitations`).
    case gone(CallSnapshot)
    /// Another member of a call sent this data with `signal` (section 2, Signals). In the order of sending; lost
    /// signals are left out.
    case signal(BellwireSignal)
    /// Another user sent this data with `send` (section 2, Peer messages). Each message comes once. Messages of
    /// the same `stream` and device come in the order of `seq`; lost messages are left out.
    case message(BellwireIncomingMessage)
    /// The outcome of a message of this client: `delivered` or `expired`. Each once.
    case receipt(BellwireReceipt)
    /// The new connection state, in order with all other events: `connected` comes before `online` and before the
    /// deliveries that waited for this device.
    case connection(BellwireConnectionState)
    /// The token ends in this many seconds, and there is no token provider: call `SignalingClient.renew(_:)`.
    case tokenWillExpire(seconds: Int)
    /// The service refused data of this device outside of a request, such as a signal (section 2, Error codes).
    case error(SignalingError)
}

/// The codes of errors that the SDK makes itself. They are never on the wire.
extension ErrorCode {
    /// No response came within the request's time limit (`SignalingClient.Configuration.requestTimeout`). The service
    /// may have served the request.
    public static let noResponse = ErrorCode(rawValue: "noResponse")
    /// More requests are unanswered than the client keeps. The request was not sent.
    public static let tooManyRequests = ErrorCode(rawValue: "tooManyRequests")
    /// The broker cannot be reached, or refuses this device.
    public static let notConnected = ErrorCode(rawValue: "notConnected")
    /// The app disconnected the client before the response came.
    public static let disconnected = ErrorCode(rawValue: "disconnected")
    /// No device of the recipient acknowledged a message in time (`SignalingClient.deliver`).
    public static let notDelivered = ErrorCode(rawValue: "notDelivered")
    /// The waiting task was cancelled.
    public static let cancelled = ErrorCode(rawValue: "cancelled")
}
