/// What the service publishes to a device (docs/protocol.md, sections 1, 2 and 5).
package enum DownMessage: Equatable, Sendable {
    case response(Response)
    case event(Event)
    case welcome(Welcome)
    /// To a message that had no usable request id.
    case error(SignalingError)
    /// From another member of a call. Not acked.
    case signal(Signal)
    /// From another user. To be acked.
    case message(IncomingMessage)
    /// What has become of a message of this device. Not acked.
    case receipt(Receipt)
    /// The token with which this device connected ends then, in milliseconds since the epoch. Not acked.
    case tokenWillExpire(at: Int64)
}

/// The one outcome of a request (section 2).
public struct Response: Equatable, Sendable {
    package var id: RequestID
    package var outcome: Outcome

    package init(id: RequestID, outcome: Outcome) {
        self.id = id
        self.outcome = outcome
    }

    package enum Outcome: Equatable, Sendable {
        /// To a request about a call.
        case success(Success)
        /// To any other request.
        case answer(Answer)
        case failure(SignalingError)
    }

    public struct Success: Equatable, Sendable {
        public var call: CallSnapshot
        /// When the call's revision was made.
        public var time: Int64
        /// To `call.invite` and `call.add`: the invitees without an online device.
        public var offline: [UserID]?
        /// Users for whom an otherwise successful request failed.
        public var errors: [UserError]
        /// The invitation became the acceptance of the invitee's own (section 3, Glare).
        public var merged: Bool
        /// The request had succeeded before: nothing has changed this time.
        public var repeated: Bool
        /// To `call.report`, `call.get` and `call.trace`: what devices reported.
        public var reports: [DeviceReport]
        /// To `call.trace`.
        public var timeline: Timeline?

        public init(
            call: CallSnapshot, time: Int64, offline: [UserID]? = nil, errors: [UserError] = [], merged: Bool = false,
            repeated: Bool = false, reports: [DeviceReport] = [], timeline: Timeline? = nil
        ) {
            self.call = call
            self.time = time
            self.offline = offline
            self.errors = errors
            self.merged = merged
            self.repeated = repeated
            self.reports = reports
            self.timeline = timeline
        }
    }
}

/// A per-user problem in an otherwise successful request (section 2).
public struct UserError: Equatable, Sendable {
    public var userID: UserID
    public var code: ErrorCode

    public init(userID: UserID, code: ErrorCode) {
        self.userID = userID
        self.code = code
    }
}

/// What a device is owed of a call (section 5).
public struct Event: Equatable, Sendable {
    public var name: EventName
    public var revision: Int
    /// When this revision was made.
    public var time: Int64
    /// Who caused the latest change; nil for a timer.
    public var actor: UserID?
    public var changes: [MemberChange]
    public var call: CallSnapshot
    /// With `call.invited`: milliseconds until the invitation expires.
    public var expiresIn: Int?
    /// With `call.cancelled` and `call.timeout`: the user never responded on any device.
    public var missed: Bool
    /// The members' `extendedData` was left out, here and in `changes`, since the event would have been too large (section 2, Rate
    /// limits). `call.get` gives it.
    public var omitsExtendedData: Bool

    public var callID: CallID { call.callID }

    public init(
        name: EventName, revision: Int, time: Int64, actor: UserID? = nil, changes: [MemberChange] = [],
        call: CallSnapshot, expiresIn: Int? = nil, missed: Bool = false, omitsExtendedData: Bool = false
    ) {
        self.name = name
        self.revision = revision
        self.time = time
        self.actor = actor
        self.changes = changes
        self.call = call
        self.expiresIn = expiresIn
        self.missed = missed
        self.omitsExtendedData = omitsExtendedData
    }
}

/// A server for what goes between devices, as `RTCPeerConnection` takes it (section 1, Welcome).
public struct IceServer: Equatable, Sendable {
    /// `turn:` or `turns:`.
    public var urls: [String]
    public var username: String
    public var credential: String

    public init(urls: [String], username: String, credential: String) {
        self.urls = urls
        self.username = username
        self.credential = credential
    }
}

/// The answer to a device that came online (section 1).
package struct Welcome: Equatable, Sendable {
    package var session: String
    package var serverTime: Int64
    /// Seconds.
    package var heartbeatInterval: Int
    /// Seconds.
    package var heartbeatTimeout: Int
    /// The user's live calls, the newest first.
    package var calls: [CallSnapshot]
    /// How many live calls were left out because the message would have been too large.
    package var omittedCalls: Int
    /// Seconds after which a silent device no longer counts as online; nil from a service that does not say.
    package var presenceLease: Int?
    /// When the token with which the device connected ends, in milliseconds since the epoch; nil when the broker checks none.
    package var tokenExpiresAt: Int64?
    /// Servers by which media reach devices that no direct way leads to; empty when the service names none. Their credentials last for an
    /// hour, and each welcome brings new ones.
    package var iceServers: [IceServer]

    package init(
        session: String, serverTime: Int64, heartbeatInterval: Int, heartbeatTimeout: Int, calls: [CallSnapshot],
        omittedCalls: Int = 0, presenceLease: Int? = nil, tokenExpiresAt: Int64? = nil, iceServers: [IceServer] = []
    ) {
        self.session = session
        self.serverTime = serverTime
        self.heartbeatInterval = heartbeatInterval
        self.heartbeatTimeout = heartbeatTimeout
        self.calls = calls
        self.omittedCalls = omittedCalls
        self.presenceLease = presenceLease
        self.tokenExpiresAt = tokenExpiresAt
        self.iceServers = iceServers
    }
}
