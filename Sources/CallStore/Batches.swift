import CallCore
import SignalingProtocol

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

/// Batches of one kind.
extension CallStore {
    /// The records under these ids, in this order; nil where there is none.
    public func load(_ ids: [RecordID]) async throws(StoreError) -> [StoredRecord?] {
        try await read(Lookup(records: ids)).records
    }

    public func load(_ callIDs: [CallID]) async throws(StoreError) -> [StoredRecord?] {
        try await load(callIDs.map(RecordID.call))
    }

    /// Which call holds each claim.
    public func holders(of claims: [Claim]) async throws(StoreError) -> [ClaimHolder?] {
        try await read(Lookup(claims: claims)).holders
    }

    /// The profiles of the users who are known; nil for the others.
    public func profiles(of users: [UserID]) async throws(StoreError) -> [UserProfile?] {
        try await read(Lookup(profiles: users)).profiles
    }

    /// The devices of each user, also those that are offline but not yet forgotten.
    public func devices(of users: [UserID]) async throws(StoreError) -> [[DevicePresence]] {
        try await read(Lookup(presence: users)).presence
    }

    public func calls(_ list: CallList) async throws(StoreError) -> [CallID] {
        try await read(Lookup(calls: [list])).calls[0]
    }

    public func messages(_ list: MessageList) async throws(StoreError) -> [RecordID] {
        try await read(Lookup(messages: [list])).messages[0]
    }

    /// Which of the blocks stand.
    public func isBlocked(_ blocks: [Block]) async throws(StoreError) -> [Bool] {
        try await read(Lookup(blocks: blocks)).isBlocked
    }

    public func commit(_ commits: [Commit]) async throws(StoreError) -> [CommitOutcome] {
        try await write(commits, [], thenRead: Lookup()).outcomes
    }

    /// Merges acknowledgments, heartbeats and reports into what is kept beside the calls.
    public func note(_ notes: [Note]) async throws(StoreError) { _ = try await write([], notes, thenRead: Lookup()) }
}
