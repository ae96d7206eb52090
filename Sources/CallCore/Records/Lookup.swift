import SignalingProtocol

/// What is to be read in one go.
public struct Lookup: Sendable {
    public var records: [RecordID]
    /// Whose devices, also those that are offline but not yet forgotten.
    public var presence: [UserID]
    public var claims: [Claim]
    /// Whose profiles. A user becomes known by coming online or by a profile, for good.
    public var profiles: [UserID]
    public var blocks: [Block]
    public var calls: [CallList]
    public var messages: [MessageList]
    public var outstanding: [OutstandingCount]
    /// How many bytes.
    public var stored: [StoredPeriod]

    public init(
        records: [RecordID] = [], presence: [UserID] = [], claims: [Claim] = [], profiles: [UserID] = [],
        blocks: [Block] = [], calls: [CallList] = [], messages: [MessageList] = [],
        outstanding: [OutstandingCount] = [], stored: [StoredPeriod] = []
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
    }

    public var isEmpty: Bool {
        records.isEmpty && presence.isEmpty && claims.isEmpty && profiles.isEmpty && blocks.isEmpty && calls.isEmpty
            && messages.isEmpty && outstanding.isEmpty && stored.isEmpty
    }
}

/// A user's calls that are live or ended after a moment, the newest first.
public struct CallList: Sendable {
    public let user: UserID
    public let endedAfter: Milliseconds
    public let limit: Int

    public init(of user: UserID, endedAfter: Milliseconds, limit: Int) {
        self.user = user
        self.endedAfter = endedAfter
        self.limit = limit
    }

    /// Those that are live.
    public static func live(of user: UserID, limit: Int) -> CallList {
        // No call ends as late as that.
        CallList(of: user, endedAfter: .max - 1, limit: limit)
    }
}

/// The peer messages that wait for a user, the oldest first.
public struct MessageList: Hashable, Sendable {
    public let user: UserID
    public let limit: Int

    public init(for user: UserID, limit: Int) {
        self.user = user
        self.limit = limit
    }
}

/// Where a call stands in its user's history.
public struct HistoryPlace: Equatable, Sendable, Comparable {
    public let createdAt: Milliseconds
    public let callID: CallID

    public init(createdAt: Milliseconds, callID: CallID) {
        self.createdAt = createdAt
        self.callID = callID
    }

    /// Whether the call is older.
    public static func < (lhs: HistoryPlace, rhs: HistoryPlace) -> Bool {
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
public struct Findings: Sendable {
    /// Nil where there is none.
    public var records: [StoredRecord?] = []
    public var presence: [[DevicePresence]] = []
    /// Which call holds each claim.
    public var holders: [ClaimHolder?] = []
    /// Nil for users who are not known.
    public var profiles: [UserProfile?] = []
    /// Which blocks stand.
    public var isBlocked: [Bool] = []
    public var calls: [[CallID]] = []
    public var messages: [[RecordID]] = []
    public var outstanding: [Int] = []
    public var stored: [Int] = []

    public init() {}
}
