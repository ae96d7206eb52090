import SignalingProtocol

/// All settings of the service. `bellwire serve --help` lists the flags.
package struct ServiceSettings: Sendable, Equatable {
    package var topics = Topics.standard
    package var calls = CallSettings()
    package var presence = PresencePolicy()
    /// The interval of heartbeats that `welcome` tells devices, in milliseconds.
    package var heartbeatInterval: Milliseconds = 20_000
    /// The largest size of a request, in bytes.
    package var maxPayload = Limits.requestBytes
    /// The time, in milliseconds, that an early cancel is remembered.
    package var cancelMemory: Milliseconds = 30_000
    /// The time, in milliseconds, that an ended call is kept for `call.get`.
    package var historyRetention = Retention.history
    /// The users who may get invitations and messages.
    package var users = UsersPolicy.any
    package var limits = RateLimits()
    package var quotas = UserQuotas()
    /// The time, in milliseconds, that a peer message waits for an ack when the sender names no time.
    package var messageTTL: Milliseconds = 30_000
    /// The time, in milliseconds, that a finished peer message is remembered, so that a resent request changes no
    /// state.
    package var messageMemory: Milliseconds = 600_000
    package var trace = TracePolicy.all
    /// The media servers of calls; nil when no calls have media servers.
    package var media: MediaUse?
    /// This coordinator's name in timelines.
    package var coordinator = "coordinator"
    /// The names of the deployment's brokers, 1 to `BrokerSet.mostBrokers`.
    package var brokers: [BrokerName] = ["broker"]

    package init() {}

    /// Whether the deployment has several brokers, so that a message has to be routed.
    package var isRouting: Bool { brokers.count > 1 }
}

/// The users who may get invitations and messages (docs/protocol.md, section 2, Users).
package enum UsersPolicy: String, Sendable, CaseIterable {
    case any
    /// Only registered users: users with a device that was online at least once, and users who have sent `user.update`.
    case known
}

/// The bounds of the service's own work.
package enum ServiceBounds {
    /// The number of times that a call is decided again because another writer changed the call meanwhile. After that,
    /// the response is `unavailable`.
    package static let commitAttempts = 8
    /// The number of times that a decision may ask for further facts.
    package static let queriesPerDecision = 64
    /// The time, in milliseconds, that a commit is valid after its decision.
    package static let decisionLife: Milliseconds = 3_000
    /// The largest lead, in milliseconds, of a deciding coordinator's clock over the store's clock: more than clocks
    /// drift.
    package static let clockDifference: Milliseconds = 1_000
    /// The longest wait of queued messages, in milliseconds, before new requests are refused: half of the second that a
    /// device waits before it resends a request.
    package static let lateAfter: Int64 = 500
    /// The delay, in milliseconds, before a device should ask an overloaded service again.
    package static let overloadRetry = 2_000
    /// The time, in milliseconds, without a message of a broker after which the broker is away, when the caller's grace
    /// is shorter: three canaries.
    package static let brokerPatience: Milliseconds = 6_000
    /// The longest age, in microseconds, of the list of disabled users that a coordinator still sends to brokers.
    package static let disabledUsersAge: Int64 = 5_000_000
    /// The number of disabled users whom a coordinator signs out after each reading of the list.
    package static let signOutsPerReading = 100
    /// The largest number of messages in a batch.
    package static let messagesPerBatch = 64
    /// The largest number of deadlines in a batch, so that requests do not wait too long.
    package static let deadlinesPerBatch = 256
    /// The approximate number of calls in a batch for devices that came online or went offline.
    package static let callsPerPresence = 256
    /// The number of calls that a `welcome` considers. Beyond this number, the oldest are left out.
    package static let callsPerWelcome = 50
    /// The number of a user's live calls that are loaded when all of them are meant.
    package static let callsOfUser = 1_000
    /// The number of queued messages that a device gets when the device comes online. The others follow by their
    /// resends.
    package static let messagesPerWelcome = 64
    /// The time, in milliseconds, that a session counts as new after its presence message: the clocks of store and
    /// coordinator differ a little.
    package static let newSession: Milliseconds = 500
    /// The number of messages that may wait for a user. A further message is refused with `rateLimited`.
    package static let messagesPerRecipient = 256
    /// The delay, in milliseconds, before a sender to such a user should try again.
    package static let fullInboxRetry = 5_000
    /// The bytes that the store keeps of a call beside its record: keys, claims, and entries in lists and indexes.
    /// `bytesBesideMember` is the part of each member.
    package static let bytesBesideCall = 600
    package static let bytesBesideMember = 300
    /// The approximate number of bytes of a timeline entry.
    package static let bytesPerTraceEntry = 200
    /// The bound on calls of which a coordinator remembers how many timeline entries it has counted (`StoredUsage`). At
    /// the bound all are forgotten, so a long timeline may be counted twice.
    package static let timelinesCounted = 20_000
    /// The number of calls that a page loads at once.
    package static let callsPerLoad = 20
    /// The number of calls on a page of `call.query` when the request names no number.
    package static let callsPerPage = 20
    /// The number of times in a row that a user's list is corrected, some hundreds of entries each time.
    package static let tidyings = 8
    /// The number of an invitee's live calls that are checked to see whether the user is busy.
    package static let callsPerBusyCheck = 20
    /// The longest topic that MQTT can carry, in bytes.
    package static let topicBytes = 65_535
    /// The number of a user's devices whose acks of a call are kept. The acks of further devices are not kept.
    package static let acksPerUser = 32
    /// How often the service looks again for the call that a claim names, each time after a brief pause. Afterwards the
    /// service writes to the record of this call, so that a commit under way that would create the call fails.
    package static let looksBeforeFencing = 3
    /// Returns the number of unforeseen queries that a batch makes in this attempt, while all calls of the batch wait.
    /// The other queries follow in the next attempt, after the calls that need no further facts are done.
    package static func unforeseenQueries(_ attempt: Int) -> Int { attempt > 2 ? .max : 16 << (2 * attempt) }
    /// The time, in milliseconds, that a void record is kept: longer than any commit can be delayed.
    package static let voidRecordLife: Milliseconds = 3_600_000
    /// The time, in milliseconds, that devices that a push woke get the outcome of a call after its end.
    package static let ringCheckLife: Milliseconds = 86_400_000
    /// The time, in milliseconds, after the answer of a common call in which its members get media sessions.
    package static let mediaAfterAnswer: Milliseconds = 60_000
    /// The number of expired records that a cleaning removes.
    package static let recordsPerCleaning = 500
    /// The life, in seconds, of a message other than an invitation at the broker.
    package static let messageExpirySeconds: UInt32 = 60
}
