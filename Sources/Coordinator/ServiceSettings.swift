import CallCore
import CallStore
import SignalingProtocol

/// All that an operator may set about how calls are served. `bellwire serve --help` lists the flags.
public struct ServiceSettings: Sendable, Equatable {
    public var topics = Topics.standard
    public var calls = CallSettings()
    public var presence = PresencePolicy()
    /// Told to devices in `welcome`, in milliseconds.
    public var heartbeatInterval: Milliseconds = 20_000
    /// How large a request may be, in bytes.
    public var maxPayload = Limits.requestBytes
    /// How long a cancel that came before its invite is remembered.
    public var cancelMemory: Milliseconds = 30_000
    /// How long an ended call is kept for `call.get`.
    public var historyRetention: Milliseconds = 7 * 86_400_000

    public init() {}
}

/// The bounds of the service's own work.
public enum ServiceBounds {
    /// How often a call is judged again because somebody else changed it meanwhile. Beyond it: `unavailable`.
    static let commitAttempts = 8
    /// How many deadlines are served in one go, so that requests are not kept waiting.
    public static let deadlinesPerRound = 256
    /// How many calls a `welcome` looks at. Beyond it the oldest are left out.
    static let callsPerWelcome = 50
    /// How many live calls of an invitee are looked at to see whether the user is busy.
    static let callsPerBusyCheck = 20
    /// The longest topic that MQTT can carry.
    static let topicBytes = 65_535
    /// How many devices of one user may acknowledge events of one call. What more devices acknowledge is not kept.
    static let acksPerUser = 32
    /// How often a claim's holder without a call is looked at again, after a brief pause, before it is fenced.
    static let looksBeforeFencing = 3
    /// How long a void record is kept, in milliseconds: longer than any commit can be delayed.
    static let voidRecordLife: Milliseconds = 3_600_000
    /// How many expired records one cleaning removes.
    static let recordsPerCleaning = 500
    /// Seconds after which the broker drops a message that is no invitation.
    static let messageExpirySeconds: UInt32 = 60
}
