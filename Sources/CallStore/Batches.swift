import CallCore
import SignalingProtocol

/// The outcomes of a batch of commits, and the answers to the queries after the commits.
package struct Written: Sendable {
    package var outcomes: [CommitOutcome]
    /// The answers; nil when the commits succeeded and the store could not be read afterwards.
    package var answers: [QueryAnswer]?

    package init(outcomes: [CommitOutcome], answers: [QueryAnswer]?) {
        self.outcomes = outcomes
        self.answers = answers
    }
}

/// Batches that hold a single kind of query or write.
extension RecordStore {
    /// Returns the records under these ids, in this order; nil for an id without a record.
    package func load(_ ids: [RecordID]) async throws(StoreError) -> [StoredRecord?] {
        try await read(ids.map(Query.record)).map(\.record)
    }

    package func load(_ callIDs: [CallID]) async throws(StoreError) -> [StoredRecord?] {
        try await load(callIDs.map(RecordID.call))
    }

    /// Returns the call that holds each claim; nil for a claim without a holder.
    package func holders(of claims: [Claim]) async throws(StoreError) -> [ClaimHolder?] {
        try await read(claims.map(Query.holder)).map(\.holder)
    }

    /// Returns the profiles of the known users; nil for the other users.
    package func profiles(of users: [UserID]) async throws(StoreError) -> [UserProfile?] {
        try await read(users.map(Query.profile)).map(\.profile)
    }

    /// Returns the devices of each user, including offline devices that the store has not forgotten yet.
    package func devices(of users: [UserID]) async throws(StoreError) -> [[DevicePresence]] {
        try await read(users.map(Query.devices)).map(\.devices)
    }

    package func calls(_ list: CallList) async throws(StoreError) -> [CallID] {
        try await read([.calls(list)])[0].calls
    }

    package func messages(_ list: MessageList) async throws(StoreError) -> [RecordID] {
        try await read([.messages(list)])[0].messages
    }

    /// Returns for each block whether the block is in force.
    package func isBlocked(_ blocks: [Block]) async throws(StoreError) -> [Bool] {
        try await read(blocks.map(Query.block)).map(\.isBlocked)
    }

    package func commit(_ commits: [Commit]) async throws(StoreError) -> [CommitOutcome] {
        try await write(commits, [], thenRead: []).outcomes
    }

    /// Merges acks, heartbeats and reports into the data that the store keeps beside the calls.
    package func note(_ notes: [Note]) async throws(StoreError) { _ = try await write([], notes, thenRead: []) }
}
