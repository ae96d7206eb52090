import SignalingProtocol

/// What is owed to endpoints because of a commit, and is written with it (docs/decisions/0019).
package struct Owed: Sendable, Equatable {
    /// One revision of a record, as it stood then.
    package struct Revision: Sendable, Equatable {
        /// Grows with each revision of the record: of a call it is the revision.
        package let number: Int64
        /// When the revision was made, by the store's clock.
        package let time: Milliseconds
        package let record: Record
    }

    package let to: [EndpointName]
    /// In their order; the last one is what the commit writes.
    package let revisions: [Revision]

    /// How many bytes the outbox holds because of the commit, about: each endpoint has copies of its own.
    package var approximateBytes: Int { to.count * revisions.reduce(0) { $0 + $1.record.approximateBytes } }
}

/// A worker from its start to its end, as the store knows it: an incarnation. What it has claimed is void once its lease is over.
package struct WorkerID: Hashable, Sendable, CustomStringConvertible {
    package let string: String
    package var description: String { string }

    package init(_ string: String) { self.string = string }
}

/// How long a worker is known to live after it was last heard of, and how often it is to be heard, in milliseconds: whoever is there
/// goes on 3 s after another one died.
package enum WorkerLease {
    package static let life: Milliseconds = 2_000
    package static let renewal: Milliseconds = 500
    package static let search: Milliseconds = 500
}

/// One revision that is owed to one endpoint, claimed by a worker.
package struct OutboxItem: Sendable, Equatable {
    package let endpoint: EndpointName
    package let id: RecordID
    package let number: Int64
    /// When the revision was made.
    package let time: Milliseconds
    /// The record as it stood then, as it is stored.
    package let record: [UInt8]
    /// How often it was tried, and when first, by the store's clock; nil when it was not.
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

/// What became of an item that a worker had claimed.
package struct Settlement: Sendable, Equatable {
    package enum Outcome: Sendable, Equatable {
        /// The endpoint has it.
        case taken
        /// It is tried again after so many milliseconds.
        case again(after: Milliseconds)
        /// It becomes a dead letter.
        case givenUp
        /// It was not tried: whoever comes first goes on.
        case released
    }

    package let item: OutboxItem
    package let outcome: Outcome

    package init(_ item: OutboxItem, _ outcome: Outcome) {
        self.item = item
        self.outcome = outcome
    }
}

/// What follows for the worker.
package enum Settled: Sendable, Equatable {
    /// The claim was void: somebody else goes on.
    case void
    /// The claim is given up; there is nothing more to do, or not yet.
    case done
    /// The claim stands for the next revision.
    case next(OutboxItem)
}

/// An endpoint as the store knows it, so that every coordinator writes for it.
package struct KeptEndpoint: Sendable, Equatable {
    package let name: EndpointName
    /// Which events it wants: patterns, with spaces between them.
    package let patterns: String
    /// Where they go: one that said that it is gone is off until this changes.
    package let url: String
    /// What may be kept for it: every coordinator holds it to that.
    package let backlog: Int
    package let bytes: Int
    package var isOff: Bool
    /// What the last attempt that was written down came to, for operators: "HTTP 401", or why there was no answer. Nil when nothing was.
    package var lastAttempt: String?
    /// It wants events of calls, or of messages, at least some: which of them, a worker finds out.
    package let wantsCalls: Bool
    package let wantsMessages: Bool

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
    }

    package var bounds: OutboxBounds { OutboxBounds(backlog: backlog, bytes: bytes) }

}

/// What may be kept for one endpoint.
package struct OutboxBounds: Sendable, Equatable {
    /// How many revisions wait; beyond it the oldest become dead letters.
    package var backlog: Int
    /// What waits and dead letters together; beyond it the oldest dead letters of the user are deleted who has the most bytes, and then the
    /// oldest of that user that wait.
    package var bytes: Int
    package var deadLetters: Int
    /// For how long a dead letter is kept, in milliseconds.
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

/// What is kept for one endpoint.
package struct OutboxCount: Sendable, Equatable {
    package var waiting = 0
    package var dead = 0
    package var bytes = 0
    /// When the oldest revision that waits was made.
    package var oldest: Milliseconds?

    package init() {}
}

/// What the bounds cost.
package struct OutboxLoss: Sendable, Equatable {
    package var becameDead = 0
    package var deleted = 0

    package init(becameDead: Int = 0, deleted: Int = 0) {
        self.becameDead = becameDead
        self.deleted = deleted
    }
}

/// A revision that its endpoint did not take.
package struct DeadLetter: Sendable, Equatable {
    package let id: RecordID
    package let number: Int64
    /// When the revision was made.
    package let time: Milliseconds
    /// The record as it stood then, as it is stored.
    package let record: [UInt8]

    package init(id: RecordID, number: Int64, time: Milliseconds, record: [UInt8]) {
        self.id = id
        self.number = number
        self.time = time
        self.record = record
    }
}
