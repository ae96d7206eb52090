import SignalingProtocol

/// All that an operator may set about how calls are served. `bellwire serve --help` lists the flags.
package struct ServiceSettings: Sendable, Equatable {
    package var topics = Topics.standard
    package var calls = CallSettings()
    package var presence = PresencePolicy()
    /// Told to devices in `welcome`, in milliseconds.
    package var heartbeatInterval: Milliseconds = 20_000
    /// How large a request may be, in bytes.
    package var maxPayload = Limits.requestBytes
    /// How long a cancel that came before its invite is remembered.
    package var cancelMemory: Milliseconds = 30_000
    /// How long an ended call is kept for `call.get`.
    package var historyRetention = Retention.history
    /// Who may be invited and sent messages.
    package var users = UsersPolicy.any
    package var limits = RateLimits()
    package var quotas = UserQuotas()
    /// How long a peer message waits for an ack when the sender does not say.
    package var messageTTL: Milliseconds = 30_000
    /// How long a finished peer message is remembered, so that a resent request changes nothing.
    package var messageMemory: Milliseconds = 600_000
    package var trace = TracePolicy.all
    /// This replica's name in timelines.
    package var coordinator = "coordinator"

    package init() {}
}

/// How much a user may make the service hold, at all coordinators together (docs/protocol.md, section 2, Rate limits).
package struct UserQuotas: Sendable, Equatable {
    /// Invitations of one user that nobody has answered: each is sent again until it is acked or over.
    package var liveInvitations = 100
    /// Those among them that ring at the same user.
    package var pairInvitations = 5
    /// Messages of one user that wait for an ack.
    package var waitingMessages = 100
    /// Bytes of the calls that a user has made and that are kept, with their timelines; 0 for no limit. A call of two takes some
    /// five thousand, so that this is a thousand calls a day.
    package var storedBytes = 32 * 1024 * 1024

    package init() {}
}

/// Who may be invited and sent messages (docs/protocol.md, section 2, Users).
package enum UsersPolicy: String, Sendable, CaseIterable {
    case any
    /// Registered users only: those of whom a device was online once, or who sent `user.update`.
    case known
}

/// The bounds of the service's own work.
package enum ServiceBounds {
    /// How often a call is judged again because somebody else changed it meanwhile. Beyond it: `unavailable`.
    package static let commitAttempts = 8
    /// How often a decision may ask for something more that it must know.
    package static let lookupsPerDecision = 64
    /// How long after a decision it may be written, in milliseconds.
    package static let decisionLife: Milliseconds = 3_000
    /// How far the clock of who decides may be ahead of the store's, in milliseconds: more than clocks drift.
    package static let clockDifference: Milliseconds = 1_000
    /// What came has waited for so long that new work is refused, in milliseconds: half of what is left of a device's patience, which
    /// sends again after a second.
    package static let lateAfter: Int64 = 500
    /// When to ask again of a service that has more to do than it can, in milliseconds.
    package static let overloadRetry = 2_000
    /// How many messages are served in one go, at most.
    package static let messagesPerRound = 64
    /// How many deadlines are served in one go, at most, so that requests are not kept waiting.
    package static let deadlinesPerRound = 256
    /// How many calls devices that came or went are told of in one go, by and large.
    package static let callsPerPresence = 256
    /// How many calls a `welcome` looks at. Beyond it the oldest are left out.
    package static let callsPerWelcome = 50
    /// How many live calls of a user are looked at where all are meant.
    package static let callsOfUser = 1_000
    /// How many waiting messages are sent to a device that comes online. The others follow by their resends.
    package static let messagesPerWelcome = 64
    /// A session is new for so many milliseconds after its presence: the clocks of store and coordinator differ a little.
    package static let newSession: Milliseconds = 500
    /// How many messages may wait for one user. One more is refused: `rateLimited`.
    package static let messagesPerRecipient = 256
    /// When a sender to such a user should try again, in milliseconds.
    package static let fullInboxRetry = 5_000
    /// When a user with as many live invitations, or waiting messages, as may be should try again, in milliseconds.
    package static let outstandingRetry = 5_000
    /// The same for one whose calls take as much room as they may: some are forgotten every day.
    package static let storedBytesRetry = 60_000
    /// What is kept of a call beside its record, in bytes: keys, claims, the entries in lists and indexes, of each member and in all.
    package static let bytesBesideCall = 600
    package static let bytesBesideMember = 300
    /// What an entry of a timeline takes, by and large.
    package static let bytesPerTraceEntry = 200
    /// Of how many calls it is remembered how many entries of their timelines were counted; beyond it a long timeline may be counted
    /// twice.
    package static let timelinesCounted = 20_000
    /// How many calls a page loads at once.
    package static let callsPerLoad = 20
    /// How many calls a page of `call.query` has that does not say.
    package static let callsPerPage = 20
    /// How often in a row a user's list is put right, some hundreds of entries each time.
    package static let tidyings = 8
    /// How many live calls of an invitee are looked at to see whether the user is busy.
    package static let callsPerBusyCheck = 20
    /// The longest topic that MQTT can carry.
    package static let topicBytes = 65_535
    /// How many devices of one user may acknowledge events of one call. What more devices acknowledge is not kept.
    package static let acksPerUser = 32
    /// How often a claim's holder without a call is looked at again, after a brief pause, before it is fenced.
    package static let looksBeforeFencing = 3
    /// How many lookups that nobody foresaw a round makes while all its works wait for them; the others are made in the next attempt, when
    /// what could be decided without them is done.
    package static func lookups(_ attempt: Int) -> Int { attempt > 2 ? .max : 16 << (2 * attempt) }
    /// How long a void record is kept, in milliseconds: longer than any commit can be delayed.
    package static let voidRecordLife: Milliseconds = 3_600_000
    /// How long after a call's end those who were woken because of it are told what became of it.
    package static let ringCheckLife: Milliseconds = 86_400_000
    /// How many expired records one cleaning removes.
    package static let recordsPerCleaning = 500
    /// Seconds after which the broker drops a message that is no invitation.
    package static let messageExpirySeconds: UInt32 = 60
}
