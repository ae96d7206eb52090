import CallCore
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
public struct MessageList: Sendable {
    public let user: UserID
    public let limit: Int

    public init(for user: UserID, limit: Int) {
        self.user = user
        self.limit = limit
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

/// What a store was asked for and will answer.
public struct Pending<Value> {
    private let finish: () throws(StoreError) -> Value

    init(_ finish: @escaping () throws(StoreError) -> Value) { self.finish = finish }

    init(_ value: Value) { finish = { () throws(StoreError) in value } }

    /// Waits for the answer. To be called once.
    public func value() throws(StoreError) -> Value { try finish() }
}

/// What became of commits, and what was read after them.
public struct Written: Sendable {
    public var outcomes: [CommitOutcome]
    /// Nil when it could not be read any more.
    public var findings: Findings?

    public init(outcomes: [CommitOutcome], findings: Findings?) {
        self.outcomes = outcomes
        self.findings = findings
    }
}

/// A store that does nothing while nobody waits for it.
extension CallStore {
    public func begin(_ lookup: Lookup) throws(StoreError) -> Pending<Findings> { Pending(try read(lookup)) }

    public func begin(
        _ commits: [Commit], _ notes: [Note], thenRead lookup: Lookup
    ) throws(StoreError) -> Pending<Written> {
        Pending(try write(commits, notes, thenRead: lookup))
    }
}

/// Batches of one kind.
extension CallStore {
    /// The records under these ids, in this order; nil where there is none.
    public func load(_ ids: [RecordID]) throws(StoreError) -> [StoredRecord?] { try read(Lookup(records: ids)).records }

    public func load(_ callIDs: [CallID]) throws(StoreError) -> [StoredRecord?] { try load(callIDs.map(RecordID.call)) }

    /// Which call holds each claim.
    public func holders(of claims: [Claim]) throws(StoreError) -> [ClaimHolder?] {
        try read(Lookup(claims: claims)).holders
    }

    /// The profiles of the users who are known; nil for the others.
    public func profiles(of users: [UserID]) throws(StoreError) -> [UserProfile?] {
        try read(Lookup(profiles: users)).profiles
    }

    /// The devices of each user, also those that are offline but not yet forgotten.
    public func devices(of users: [UserID]) throws(StoreError) -> [[DevicePresence]] {
        try read(Lookup(presence: users)).presence
    }

    public func calls(_ list: CallList) throws(StoreError) -> [CallID] { try read(Lookup(calls: [list])).calls[0] }

    public func messages(_ list: MessageList) throws(StoreError) -> [RecordID] {
        try read(Lookup(messages: [list])).messages[0]
    }

    /// Which of the blocks stand.
    public func isBlocked(_ blocks: [Block]) throws(StoreError) -> [Bool] { try read(Lookup(blocks: blocks)).isBlocked }

    public func commit(_ commits: [Commit]) throws(StoreError) -> [CommitOutcome] {
        try write(commits, [], thenRead: Lookup()).outcomes
    }

    /// Merges acknowledgments, heartbeats and reports into what is kept beside the calls.
    public func note(_ notes: [Note]) throws(StoreError) { _ = try write([], notes, thenRead: Lookup()) }
}
