import CallCore
import SignalingProtocol

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
