import SignalingProtocol

/// What is to be read in one go.
package struct Lookup: Sendable {
    package var records: [RecordID]
    /// Whose devices, also those that are offline but not yet forgotten.
    package var presence: [UserID]
    package var claims: [Claim]
    /// Whose profiles. A user becomes known by coming online or by a profile, for good.
    package var profiles: [UserID]
    package var blocks: [Block]
    package var calls: [CallList]
    package var messages: [MessageList]
    package var outstanding: [OutstandingCount]
    /// How many bytes.
    package var stored: [StoredPeriod]
    /// Whether any device of theirs is registered for pushes.
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

/// A user's calls that are live or ended after a moment, the newest first.
package struct CallList: Sendable {
    package let user: UserID
    package let endedAfter: Milliseconds
    package let limit: Int

    package init(of user: UserID, endedAfter: Milliseconds, limit: Int) {
        self.user = user
        self.endedAfter = endedAfter
        self.limit = limit
    }

    /// Those that are live.
    package static func live(of user: UserID, limit: Int) -> CallList {
        // No call ends as late as that.
        CallList(of: user, endedAfter: .max - 1, limit: limit)
    }
}

/// The peer messages that wait for a user, the oldest first.
package struct MessageList: Hashable, Sendable {
    package let user: UserID
    package let limit: Int

    package init(for user: UserID, limit: Int) {
        self.user = user
        self.limit = limit
    }
}

/// Where a call stands in its user's history.
package struct HistoryPlace: Equatable, Sendable, Comparable {
    package let createdAt: Milliseconds
    package let callID: CallID

    package init(createdAt: Milliseconds, callID: CallID) {
        self.createdAt = createdAt
        self.callID = callID
    }

    /// Whether the call is older.
    package static func < (lhs: HistoryPlace, rhs: HistoryPlace) -> Bool {
        (lhs.createdAt, lhs.callID) < (rhs.createdAt, rhs.callID)
    }
}

extension HistoryPlace {
    /// One text for each: the creation, "-", the id.
    package var text: String { "\(createdAt)-\(callID)" }

    /// Nil when `text` is none of these.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let createdAt = UInt64(parts[0]), createdAt <= Int64.max,
            let callID = CallID(String(parts[1]))
        else { return nil }
        self.init(createdAt: Milliseconds(createdAt), callID: callID)
        // Numbers have more than one spelling.
        guard self.text == text else { return nil }
    }
}

/// What was read, each in the order in which it was asked for.
package struct Findings: Sendable {
    /// Nil where there is none.
    package var records: [StoredRecord?] = []
    package var presence: [[DevicePresence]] = []
    /// Which call holds each claim.
    package var holders: [ClaimHolder?] = []
    /// Nil for users who are not known.
    package var profiles: [UserProfile?] = []
    /// Which blocks stand.
    package var isBlocked: [Bool] = []
    package var calls: [[CallID]] = []
    package var messages: [[RecordID]] = []
    package var outstanding: [OutstandingNumber] = []
    package var stored: [Int] = []
    package var isRegistered: [Bool] = []

    package init() {}
}
