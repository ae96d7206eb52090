import SignalingProtocol

/// One record to be written.
package struct Commit: Sendable {
    package let id: RecordID
    package let record: Record
    /// The version that was loaded; 0 when there was no record.
    package let expected: Int64
    package let deadline: Milliseconds?
    /// When the record may be removed; nil while the call is live.
    package let expiresAt: Milliseconds?
    /// Written together with the record.
    package var notes: [Note] = []
    /// The commit fails unless each of these is held as given.
    package var expectedHolders: [(claim: Claim, holder: ClaimHolder?)] = []
    /// Taken by this call.
    package var claims: [Claim] = []
    /// Given up, if this call holds them.
    package var releases: [Claim] = []
    /// The users who are new in the call: it is entered into their indexes before it is written.
    package var newMembers: [UserID] = []
    /// The users in whose lists the call stands, and must not any more.
    package var formerMembers: [UserID] = []
    /// What users have asked of others, until when it counts, and what is settled.
    package var asked: [(what: Outstanding, until: Milliseconds)] = []
    package var settled: [Outstanding] = []
    /// The call was live before this commit and is not after it.
    package var hasJustEnded = false
    /// What is owed to endpoints because of it, written with the record.
    package var owed: Owed?
    /// Somebody may have to be woken because of it: the call is entered into the queue of pushes with the record.
    package var pushes = false
    /// Outside of these moments, by its own clock, the store refuses the commit: whoever decided it stood still meanwhile, or has a wrong
    /// clock.
    package var validity: ClosedRange<Milliseconds>?

    package init(
        _ id: RecordID, record: Record, expected: Int64, deadline: Milliseconds?, expiresAt: Milliseconds?
    ) {
        self.id = id
        self.record = record
        self.expected = expected
        self.deadline = deadline
        self.expiresAt = expiresAt
    }

    /// As whom it takes claims.
    package var holder: ClaimHolder? { id.callID.map { ClaimHolder($0, version: expected) } }

    /// The users in whose index the call stands.
    package var members: [UserID] {
        if case .call(let call) = record { call.participants } else { [] }
    }
}

package enum CommitOutcome: Equatable, Sendable {
    /// Nothing was written.
    package var isLost: Bool { if case .committed = self { false } else { true } }

    case committed(version: Int64)
    /// Somebody else changed the record: load it and judge again.
    case conflict
    /// A claim is held by another call than expected.
    case claimHeld
    /// It came outside of its `validity`.
    case stale
}
