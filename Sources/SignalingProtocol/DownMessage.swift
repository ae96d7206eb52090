/// A message that the service publishes to a device (docs/protocol.md, sections 1, 2 and 5).
package enum DownMessage: Equatable, Sendable {
    case response(Response)
    case event(Event)
    case welcome(Welcome)
    /// An error outside of a response: a refused message had no usable request id, a session is over, or the broker is
    /// about to disconnect the device (section 1).
    case error(SignalingError)
    /// A signal from another member of a call. Devices do not ack signals.
    case signal(BellwireSignal)
    /// A peer message. The device acks peer messages.
    case message(BellwireIncomingMessage)
    /// The receipt of a peer message that this device sent. Devices do not ack receipts.
    case receipt(BellwireReceipt)
    /// The end of the device's token, in milliseconds since the epoch. Devices do not ack this message.
    case tokenWillExpire(at: Int64)
}

/// The only response to a request (section 2).
public struct Response: Equatable, Sendable {
    package var id: RequestID
    package var outcome: Outcome

    package init(id: RequestID, outcome: Outcome) {
        self.id = id
        self.outcome = outcome
    }

    package enum Outcome: Equatable, Sendable {
        /// The outcome of a request about a call.
        case success(Success)
        /// The outcome of any other request.
        case answer(Answer)
        case failure(SignalingError)
    }

    public struct Success: Equatable, Sendable {
        public var call: CallSnapshot
        /// The creation time of the call's revision.
        public var time: Int64
        /// In responses to `call.invite` and `call.add`: the invitees without an online device.
        public var offline: [UserID]?
        /// Users whose part of an otherwise successful request failed.
        public var errors: [UserError]
        /// Whether the service turned the invitation into the acceptance of the invitee's own invitation (section 3,
        /// Glare).
        public var merged: Bool
        /// Whether the request had succeeded before; the repeated request changed no state.
        public var repeated: Bool
        /// In responses to `call.report`, `call.get` and `call.trace`: the milestones that devices have reported.
        public var reports: [DeviceReport]
        /// In responses to `call.trace`: the call's timeline.
        public var timeline: Timeline?
        /// In responses to `call.invite`, `call.accept`, `call.join` and `call.media`: the data for the call's room at
        /// its media server.
        public var mediaSession: BellwireMediaSession?

        public init(
            call: CallSnapshot, time: Int64, offline: [UserID]? = nil, errors: [UserError] = [], merged: Bool = false,
            repeated: Bool = false, reports: [DeviceReport] = [], timeline: Timeline? = nil,
            mediaSession: BellwireMediaSession? = nil
        ) {
            self.call = call
            self.time = time
            self.offline = offline
            self.errors = errors
            self.merged = merged
            self.repeated = repeated
            self.reports = reports
            self.timeline = timeline
            self.mediaSession = mediaSession
        }
    }
}

/// A problem with a single user in an otherwise successful request (section 2).
public struct UserError: Equatable, Sendable {
    public var userID: UserID
    public var code: ErrorCode

    public init(userID: UserID, code: ErrorCode) {
        self.userID = userID
        self.code = code
    }
}

/// An event about a call for a device (section 5).
public struct Event: Equatable, Sendable {
    public var name: EventName
    public var revision: Int
    /// The creation time of this revision.
    public var time: Int64
    /// The user behind the latest change; nil when a deadline caused the change.
    public var actor: UserID?
    public var changes: [MemberChange]
    public var call: CallSnapshot
    /// With `call.invited`: milliseconds until the invitation expires.
    public var expiresIn: Int?
    /// In `call.cancelled`, `call.timeout` and `call.ended`: whether the user never responded on any device.
    public var missed: Bool
    /// Whether the members' `extendedData` was left out, in `call` and in `changes`, because the event would have been
    /// too large (section 2, Rate limits). A device gets the left-out data by `call.get`, unless
    /// the response would be too large as well.
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

/// A TURN server in the form that `RTCPeerConnection` takes (section 1, Welcome).
public struct BellwireIceServer: Equatable, Sendable {
    /// URLs that begin with `turn:` or `turns:`.
    public var urls: [String]
    public var username: String
    public var credential: String

    public init(urls: [String], username: String, credential: String) {
        self.urls = urls
        self.username = username
        self.credential = credential
    }
}

/// The service's answer to a device that came online (section 1).
package struct Welcome: Equatable, Sendable {
    package var session: String
    package var serverTime: Int64
    /// The interval between heartbeats of the device, in seconds.
    package var heartbeatInterval: Int
    /// The time without a heartbeat until a member leaves the call, in seconds.
    package var heartbeatTimeout: Int
    /// The user's live calls, the newest first.
    package var calls: [CallSnapshot]
    /// The number of live calls that were left out because the message would have been too large.
    package var omittedCalls: Int
    /// The time until a silent device no longer counts as online, in seconds; nil when the service does not send this
    /// field.
    package var presenceLease: Int?
    /// The end of the device's token, in milliseconds since the epoch; nil when the broker checks no tokens.
    package var tokenExpiresAt: Int64?
    /// TURN servers for media between devices that have no direct path; empty when the operator has named no servers.
    /// The credentials last for an hour, and each welcome brings new credentials.
    package var iceServers: [BellwireIceServer]
    /// The media sessions of the live calls in which this device is accepted.
    package var mediaSessions: [CallMediaSession]

    package init(
        session: String, serverTime: Int64, heartbeatInterval: Int, heartbeatTimeout: Int, calls: [CallSnapshot],
        omittedCalls: Int = 0, presenceLease: Int? = nil, tokenExpiresAt: Int64? = nil,
        iceServers: [BellwireIceServer] = [], mediaSessions: [CallMediaSession] = []
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
        self.mediaSessions = mediaSessions
    }
}
