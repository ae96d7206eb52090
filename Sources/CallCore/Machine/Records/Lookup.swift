import SignalingProtocol

/// A set of queries that the store answers together.
package struct Lookup: Sendable {
    package var records: [RecordID]
    /// The users whose devices are read, including offline devices that the store has not forgotten yet.
    package var presence: [UserID]
    package var claims: [Claim]
    /// The users whose profiles are read. A user becomes known, for good, by coming online or by setting a profile.
    package var profiles: [UserID]
    package var blocks: [Block]
    package var calls: [CallList]
    package var messages: [MessageList]
    package var outstanding: [OutstandingCount]
    /// The periods whose bytes are read.
    package var stored: [StoredPeriod]
    /// The users for whom the store tells whether any of their devices is registered for pushes.
    package var registered: [UserID]

    package init(
        records: [RecordID] = [], presence: [UserID] = [], claims: [Claim] = [], profiles: [UserID] = [],
        blocks: [Block] = [], calls: [CallList] = [], messages: [MessageList] = [],
        outstanding: [OutstandingCount] = [], stored: [StoredPeriod] = [], registered: [UserID] = []
    ) {
        self.records = records
        self.presence = presence
        self.claims = claims
        self.profiles = profiles
        self.blocks = blocks
        self.calls = calls
        self.messages = messages
        self.outstanding = outstanding
        self.stored = stored
        self.registered = registered
    }

    package var isEmpty: Bool {
        records.isEmpty && presence.isEmpty && claims.isEmpty && profiles.isEmpty && blocks.isEmpty && calls.isEmpty
            && messages.isEmpty && outstanding.isEmpty && stored.isEmpty && registered.isEmpty
    }
}

/// A query for a user's calls that are live or ended after a moment, the newest first.
package struct CallList: Sendable {
    package let user: UserID
    package let endedAfter: Milliseconds
    package let limit: Int

    package init(of user: UserID, endedAfter: Milliseconds, limit: Int) {
        self.user = user
        self.endedAfter = endedAfter
        self.limit = limit
    }

    /// Returns the query for a user's live calls.
    package static func live(of user: UserID, limit: Int) -> CallList {
        // No call ends as late as this.
        CallList(of: user, endedAfter: .max - 1, limit: limit)
    }
}

/// A query for the queued peer messages of a user, the oldest first.
package struct MessageList: Hashable, Sendable {
    package let user: UserID
    package let limit: Int

    package init(for user: UserID, limit: Int) {
        self.user = user
        self.limit = limit
    }
}

/// The place of a call in the history of its user.
package struct HistoryPlace: Equatable, Sendable, Comparable {
    package let createdAt: Milliseconds
    package let callID: CallID

    package init(createdAt: Milliseconds, callID: CallID) {
        self.createdAt = createdAt
        self.callID = callID
    }

    /// Whether the left call is older.
    package static func < (lhs: HistoryPlace, rhs: HistoryPlace) -> Bool {
        (lhs.createdAt, lhs.callID) < (rhs.createdAt, rhs.callID)
    }
}

extension HistoryPlace {
    /// The text of the place: the time of creation, "-", the call id. Each place has its own text.
    package var text: String { "\(createdAt)-\(callID)" }

    /// Returns nil when `text` is not the text of a place.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let createdAt = UInt64(parts[0]), createdAt <= Int64.max,
            let callID = CallID(String(parts[1]))
        else { return nil }
        self.init(createdAt: Milliseconds(createdAt), callID: callID)
        // A number has more than a single spelling, and only the shortest is valid.
        guard self.text == text else { return nil }
    }
}

/// The facts: the answers to the queries of a `Lookup`, each in the order of its queries.
package struct Findings: Sendable {
    /// The records; nil for an id without a record.
    package var records: [StoredRecord?] = []
    package var presence: [[DevicePresence]] = []
    /// The call that holds each claim; nil for a claim without a holder.
    package var holders: [ClaimHolder?] = []
    /// The profiles; nil for unknown users.
    package var profiles: [UserProfile?] = []
    /// Whether each block is in force.
    package var isBlocked: [Bool] = []
    package var calls: [[CallID]] = []
    package var messages: [[RecordID]] = []
    package var outstanding: [OutstandingNumber] = []
    package var stored: [Int] = []
    package var isRegistered: [Bool] = []

    package init() {}
}
