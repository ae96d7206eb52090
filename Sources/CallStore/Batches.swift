import CallCore
import SignalingProtocol

/// What became of commits, and what was read after them.
package struct Written: Sendable {
    package var outcomes: [CommitOutcome]
    /// Nil when it could not be read any more.
    package var findings: Findings?

    package init(outcomes: [CommitOutcome], findings: Findings?) {
        self.outcomes = outcomes
        self.findings = findings
    }
}

/// Batches of one kind.
extension RecordStore {
    /// The records under these ids, in this order; nil where there is none.
    package func load(_ ids: [RecordID]) async throws(StoreError) -> [StoredRecord?] {
        try await read(Lookup(records: ids)).records
    }

    package func load(_ callIDs: [CallID]) async throws(StoreError) -> [StoredRecord?] {
        try await load(callIDs.map(RecordID.call))
    }

    /// Which call holds each claim.
    package func holders(of claims: [Claim]) async throws(StoreError) -> [ClaimHolder?] {
        try await read(Lookup(claims: claims)).holders
    }

    /// The profiles of the users who are known; nil for the others.
    package func profiles(of users: [UserID]) async throws(StoreError) -> [UserProfile?] {
        try await read(Lookup(profiles: users)).profiles
    }

    /// The devices of each user, also those that are offline but not yet forgotten.
    package func devices(of users: [UserID]) async throws(StoreError) -> [[DevicePresence]] {
        try await read(Lookup(presence: users)).presence
    }

    package func calls(_ list: CallList) async throws(StoreError) -> [CallID] {
        try await read(Lookup(calls: [list])).calls[0]
    }

    package func messages(_ list: MessageList) async throws(StoreError) -> [RecordID] {
        try await read(Lookup(messages: [list])).messages[0]
    }

    /// Which of the blocks stand.
    package func isBlocked(_ blocks: [Block]) async throws(StoreError) -> [Bool] {
        try await read(Lookup(blocks: blocks)).isBlocked
    }

    package func commit(_ commits: [Commit]) async throws(StoreError) -> [CommitOutcome] {
        try await write(commits, [], thenRead: Lookup()).outcomes
    }

    /// Merges acknowledgments, heartbeats and reports into what is kept beside the calls.
    package func note(_ notes: [Note]) async throws(StoreError) { _ = try await write([], notes, thenRead: Lookup()) }
}
