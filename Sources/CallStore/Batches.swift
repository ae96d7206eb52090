import CallCore
import SignalingProtocol

/// The outcomes of a batch of commits, and the facts that the store read after the commits.
package struct Written: Sendable {
    package var outcomes: [CommitOutcome]
    /// The facts; nil when the commits succeeded and the store could not be read afterwards.
    package var findings: Findings?

    package init(outcomes: [CommitOutcome], findings: Findings?) {
        self.outcomes = outcomes
        self.findings = findings
    }
}

/// Batches that hold a single kind of query or write.
extension RecordStore {
    /// Returns the records under these ids, in this order; nil for an id without a record.
    package func load(_ ids: [RecordID]) async throws(StoreError) -> [StoredRecord?] {
        try await read(Lookup(records: ids)).records
    }

    package func load(_ callIDs: [CallID]) async throws(StoreError) -> [StoredRecord?] {
        try await load(callIDs.map(RecordID.call))
    }

    /// Returns the call that holds each claim; nil for a claim without a holder.
    package func holders(of claims: [Claim]) async throws(StoreError) -> [ClaimHolder?] {
        try await read(Lookup(claims: claims)).holders
    }

    /// Returns the profiles of the known users; nil for the other users.
    package func profiles(of users: [UserID]) async throws(StoreError) -> [UserProfile?] {
        try await read(Lookup(profiles: users)).profiles
    }

    /// Returns the devices of each user, including offline devices that the store has not forgotten yet.
    package func devices(of users: [UserID]) async throws(StoreError) -> [[DevicePresence]] {
        try await read(Lookup(presence: users)).presence
    }

    package func calls(_ list: CallList) async throws(StoreError) -> [CallID] {
        try await read(Lookup(calls: [list])).calls[0]
    }

    package func messages(_ list: MessageList) async throws(StoreError) -> [RecordID] {
        try await read(Lookup(messages: [list])).messages[0]
    }

    /// Returns for each block whether the block is in force.
    package func isBlocked(_ blocks: [Block]) async throws(StoreError) -> [Bool] {
        try await read(Lookup(blocks: blocks)).isBlocked
    }

    package func commit(_ commits: [Commit]) async throws(StoreError) -> [CommitOutcome] {
        try await write(commits, [], thenRead: Lookup()).outcomes
    }

    /// Merges acks, heartbeats and reports into the data that the store keeps beside the calls.
    package func note(_ notes: [Note]) async throws(StoreError) { _ = try await write([], notes, thenRead: Lookup()) }
}
