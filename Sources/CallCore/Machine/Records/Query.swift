import SignalingProtocol

/// A question to the store that a decision needs. The store answers many queries in a single round trip.
///
/// A further kind of query is a case here, with its answer below, and a case in each store (`MemoryCallStore.answer`,
/// `SQLiteCallStore.answer`, `RedisCallStore+queries.swift`); `Facts` keeps the answers that decisions use.
package enum Query: Hashable, Sendable {
    case record(RecordID)
    /// The devices of a user, including offline devices that the store has not forgotten yet.
    case devices(UserID)
    case holder(Claim)
    /// The profile of a user. A user becomes known, for good, by coming online or by setting a profile.
    case profile(UserID)
    case block(Block)
    case calls(CallList)
    case messages(MessageList)
    case outstanding(OutstandingCount)
    case storedBytes(StoredPeriods)
    /// Whether any of the user's devices is registered for pushes.
    case registration(UserID)
}

/// The answer to a query. The store gives the answers in the order of the queries, each with the case of its query.
package enum QueryAnswer: Sendable {
    /// The record; nil for an id without a record.
    indirect case record(StoredRecord?)
    case devices([DevicePresence])
    /// The call that holds the claim; nil for a claim without a holder.
    case holder(ClaimHolder?)
    /// The profile; nil for an unknown user.
    case profile(UserProfile?)
    /// Whether the block is in force.
    case block(Bool)
    case calls([CallID])
    case messages([RecordID])
    case outstanding(OutstandingNumber)
    /// The bytes of each period, in the order of the query.
    case storedBytes([Int])
    case registration(Bool)

    package var record: StoredRecord? { if case .record(let record) = self { record } else { mismatch() } }
    package var devices: [DevicePresence] { if case .devices(let devices) = self { devices } else { mismatch() } }
    package var holder: ClaimHolder? { if case .holder(let holder) = self { holder } else { mismatch() } }
    package var profile: UserProfile? { if case .profile(let profile) = self { profile } else { mismatch() } }
    package var isBlocked: Bool { if case .block(let isBlocked) = self { isBlocked } else { mismatch() } }
    package var calls: [CallID] { if case .calls(let calls) = self { calls } else { mismatch() } }
    package var messages: [RecordID] { if case .messages(let messages) = self { messages } else { mismatch() } }
    package var outstanding: OutstandingNumber {
        if case .outstanding(let number) = self { number } else { mismatch() }
    }
    package var storedBytes: [Int] { if case .storedBytes(let bytes) = self { bytes } else { mismatch() } }
    package var isRegistered: Bool {
        if case .registration(let isRegistered) = self { isRegistered } else { mismatch() }
    }

    private func mismatch() -> Never { preconditionFailure("the answer belongs to a query of another kind") }
}

/// A query for a user's calls that are live or ended after a moment, the newest first.
package struct CallList: Hashable, Sendable {
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
