import SignalingProtocol

/// The outbox entries that a commit causes, written with the commit (docs/decisions/0019).
package struct OutboxEntries: Sendable, Equatable {
    /// A revision of a record, as the record was at that revision.
    package struct Revision: Sendable, Equatable {
        /// A number that grows with each revision of the record; for a call, the call's revision.
        package let number: Int64
        /// The time of the revision, by the store's clock.
        package let time: Milliseconds
        package let record: Record
    }

    package let to: [EndpointName]
    /// The revisions in order. The last is the revision that the commit writes.
    package let revisions: [Revision]

    /// Whether a webhook endpoint gets the revisions; `areForRooms`: whether the worker of a media server gets them.
    package var areForWebhooks: Bool { to.contains { $0.mediaServer == nil } }
    package var areForRooms: Bool { to.contains { $0.mediaServer != nil } }

    /// The approximate size in the outbox, in bytes. Each endpoint has its own copies.
    package var approximateBytes: Int { to.count * revisions.reduce(0) { $0 + $1.record.approximateBytes } }
}

/// The identity of a worker from its start to its end. A restarted worker has a new identity. The claims of a worker
/// are void when its lease has expired.
package struct WorkerID: Hashable, Sendable, CustomStringConvertible {
    package let string: String
    package var description: String { string }

    package init(_ string: String) { self.string = string }
}

/// The times of a worker's lease, in milliseconds: its length, the interval of renewals, and the interval at which
/// workers look for expired leases. Another worker continues 3 s after the death of a worker.
package enum WorkerLease {
    package static let life: Milliseconds = 2_000
    package static let renewal: Milliseconds = 500
    package static let search: Milliseconds = 500
}

/// An outbox entry that a worker has claimed: a revision of a record for one endpoint.
package struct OutboxItem: Sendable, Equatable {
    package let endpoint: EndpointName
    package let id: RecordID
    package let number: Int64
    /// The time of the revision.
    package let time: Milliseconds
    /// The record at that revision, in its stored form.
    package let record: [UInt8]
    /// The number of attempts so far. `firstAttempt` is the time of the first attempt by the store's clock; nil before
    /// the first attempt.
    package let attempts: Int
    package let firstAttempt: Milliseconds?

    package init(
        endpoint: EndpointName, id: RecordID, number: Int64, time: Milliseconds, record: [UInt8], attempts: Int,
        firstAttempt: Milliseconds?
    ) {
        self.endpoint = endpoint
        self.id = id
        self.number = number
        self.time = time
        self.record = record
        self.attempts = attempts
        self.firstAttempt = firstAttempt
    }
}

/// The result of a claimed entry.
package struct Settlement: Sendable, Equatable {
    package enum Outcome: Sendable, Equatable {
        /// The endpoint has taken the entry.
        case taken
        /// The worker makes the next attempt after this delay.
        case again(after: Milliseconds)
        /// The entry becomes a dead letter.
        case givenUp
        /// No attempt was made, and the next worker may claim the line at once.
        case released
    }

    package let item: OutboxItem
    package let outcome: Outcome

    package init(_ item: OutboxItem, _ outcome: Outcome) {
        self.item = item
        self.outcome = outcome
    }
}

/// The consequence of a settlement for the worker.
package enum Settled: Sendable, Equatable {
    /// The claim was void, and another worker continues.
    case void
    /// The claim has ended. The line is empty or not due yet.
    case done
    /// The claim stays for the next revision of the line.
    case next(OutboxItem)
}

/// An endpoint as the store keeps it, so that every coordinator writes entries for the endpoint.
package struct KeptEndpoint: Sendable, Equatable {
    package let name: EndpointName
    /// The patterns of the events that the endpoint wants, separated by spaces.
    package let patterns: String
    /// The URL of the endpoint. An endpoint that answered that it is gone (410) stays off until its URL changes.
    package let url: String
    /// The bounds of the endpoint's outbox, enforced by every coordinator: the number of revisions, and the bytes.
    package let backlog: Int
    package let bytes: Int
    package var isOff: Bool
    /// The result of the last stored attempt, for operators: "HTTP 401", or the reason that the endpoint gave no
    /// response. Nil before the first stored attempt.
    package var lastAttempt: String?
    /// Whether the endpoint wants any event of calls. `wantsMessages` is true when the endpoint wants any event of peer
    /// messages. The worker finds out for each event whether the endpoint wants the event.
    package let wantsCalls: Bool
    package let wantsMessages: Bool
    /// The calls with rooms at a media server; nil for a webhook endpoint.
    private let rooms: RoomPatterns?

    package init(
        name: EndpointName, patterns: String, url: String, backlog: Int = 100_000, bytes: Int = 64 * 1024 * 1024,
        isOff: Bool = false, lastAttempt: String? = nil
    ) {
        self.name = name
        self.patterns = patterns
        self.url = url
        self.backlog = backlog
        self.bytes = bytes
        self.isOff = isOff
        self.lastAttempt = lastAttempt
        let wanted = patterns.split(separator: " ")
        wantsCalls = wanted.contains { $0 == "*" || $0.hasPrefix("call.") }
        wantsMessages = wanted.contains { $0 == "*" || $0.hasPrefix("message.") }
        rooms = RoomPatterns(patterns)
    }

    /// Whether the call has a room at the media server of this outbox.
    package func hasRoom(of call: Call) -> Bool { rooms?.matches(call.media) ?? false }

    package var bounds: OutboxBounds { OutboxBounds(backlog: backlog, bytes: bytes) }
}

/// The bounds of an endpoint's outbox.
package struct OutboxBounds: Sendable, Equatable {
    /// The number of revisions that may wait. Beyond this number, the oldest revisions become dead letters.
    package var backlog: Int
    /// The bytes of queued entries and dead letters together. Beyond this size, entries of the user with the most bytes
    /// are deleted: first the oldest dead letters, then the oldest queued entries.
    package var bytes: Int
    package var deadLetters: Int
    /// The retention of a dead letter, in milliseconds.
    package var deadLetterLife: Milliseconds

    package init(
        backlog: Int = 100_000, bytes: Int = 64 * 1024 * 1024, deadLetters: Int = 100_000,
        deadLetterLife: Milliseconds = 7 * 86_400_000
    ) {
        self.backlog = backlog
        self.bytes = bytes
        self.deadLetters = deadLetters
        self.deadLetterLife = deadLetterLife
    }
}

/// The numbers of an endpoint's stored entries.
package struct OutboxCount: Sendable, Equatable {
    package var waiting = 0
    package var dead = 0
    package var bytes = 0
    /// The time of the oldest queued revision.
    package var oldest: Milliseconds?

    package init() {}
}

/// The entries that the bounds have cost.
package struct OutboxLoss: Sendable, Equatable {
    package var becameDead = 0
    package var deleted = 0

    package init(becameDead: Int = 0, deleted: Int = 0) {
        self.becameDead = becameDead
        self.deleted = deleted
    }
}

/// An outbox entry that was given up, kept for replay.
package struct DeadLetter: Sendable, Equatable {
    package let id: RecordID
    package let number: Int64
    /// The time of the revision.
    package let time: Milliseconds
    /// The record at that revision, in its stored form.
    package let record: [UInt8]

    package init(id: RecordID, number: Int64, time: Milliseconds, record: [UInt8]) {
        self.id = id
        self.number = number
        self.time = time
        self.record = record
    }
}
