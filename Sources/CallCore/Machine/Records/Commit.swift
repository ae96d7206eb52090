import SignalingProtocol

/// The write of a record.
package struct Commit: Sendable {
    package let id: RecordID
    package let record: Record
    /// The version that was loaded; 0 when the record did not exist.
    package let expected: Int64
    package let deadline: Milliseconds?
    /// The earliest time for removing the record; nil while the call is live.
    package let expiresAt: Milliseconds?
    /// Notes that are written together with the record.
    package var notes: [Note] = []
    /// The expected holders of claims. The commit fails unless each claim has this holder.
    package var expectedHolders: [(claim: Claim, holder: ClaimHolder?)] = []
    /// The claims that this call takes.
    package var claims: [Claim] = []
    /// The claims to give up, as far as this call holds them.
    package var releases: [Claim] = []
    /// The new members of the call. The call is entered into their lists before the record is written.
    package var newMembers: [UserID] = []
    /// The former members, with the call still in their lists.
    package var formerMembers: [UserID] = []
    /// The users' new open invitations and peer messages, each with its end. `settled` holds the entries that count no
    /// longer.
    package var asked: [(what: Outstanding, until: Milliseconds)] = []
    package var settled: [Outstanding] = []
    /// Whether the call was live before this commit and is not live afterwards.
    package var hasJustEnded = false
    /// The change of the counts of live calls and invitations; nil when no count changes.
    package var liveChange: LiveChange?
    /// The outbox entries that the commit causes, written with the record.
    package var outboxEntries: OutboxEntries?
    /// Whether a device may need a push because of the commit: the call is then entered into the queue of pushes with
    /// the record.
    package var pushes = false
    /// The times, by the store's own clock, within which the store takes the commit. Outside of this range, the
    /// deciding process was stopped meanwhile or has a wrong clock.
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

    /// The holder for which this commit takes claims.
    package var holder: ClaimHolder? { id.callID.map { ClaimHolder($0, version: expected) } }

    /// The users whose lists hold the call.
    package var members: [UserID] {
        if case .call(let call) = record { call.participants } else { [] }
    }
}

/// A change of the index of live calls, from which `LiveCounts` are read.
package enum LiveChange: Equatable, Sendable {
    /// The call is live, and this number of its invitations is pending.
    case live(ringing: Int)
    case over

    /// Returns the change from one state of a call to another; nil when the numbers stay.
    package init?(from before: Call?, to after: Call) {
        let change = Self(after)
        guard before.map(Self.init) ?? .over != change else { return nil }
        self = change
    }

    private init(_ call: Call) {
        self = call.isLive ? .live(ringing: call.members.count(where: \.state.isPending)) : .over
    }
}

package enum CommitOutcome: Equatable, Sendable {
    /// Whether the commit wrote no data.
    package var isLost: Bool { if case .committed = self { false } else { true } }

    case committed(version: Int64)
    /// Another writer changed the record. The caller must load the record and decide again.
    case conflict
    /// Another call than expected holds a claim.
    case claimHeld
    /// The commit came outside of its `validity`.
    case stale
}
