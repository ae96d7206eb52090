import SignalingProtocol

/// Something that a user has asked of others and that still takes the service's work: an invitation that nobody has answered, a message
/// that waits. It counts until it is settled, or until its time is over: whatever was lost on the way, no count stays for ever.
package struct Outstanding: Hashable, Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        case invitations
        case messages
    }

    package let kind: Kind
    /// Who has asked.
    package let user: UserID
    /// Which of the user's; one text for each.
    package let name: String

    package static func invitation(of invitee: UserID, to callID: CallID, by user: UserID) -> Outstanding {
        Outstanding(kind: .invitations, user: user, name: "\(callID):\(invitee)")
    }

    /// Whom the invitation of this name rings; nil for a name that is none.
    package static func invitee(ofInvitation name: String) -> UserID? {
        // No call id holds a colon.
        guard let colon = name.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        return UserID(String(name[name.utf8.index(after: colon)...]))
    }

    package static func message(_ id: RecordID, by user: UserID) -> Outstanding {
        Outstanding(kind: .messages, user: user, name: id.string)
    }
}

/// How many things of one kind are outstanding of a user whose time ends after a moment. At most `limit` are counted.
package struct OutstandingCount: Hashable, Sendable {
    package let kind: Outstanding.Kind
    package let user: UserID
    package let after: Milliseconds
    package let limit: Int

    /// Whether invitations are counted by invitee as well: not where a user may have so many that reading their names takes long.
    package var isByInvitee: Bool { kind == .invitations && limit <= 1_000 }

    package init(_ kind: Outstanding.Kind, of user: UserID, after: Milliseconds, limit: Int = 1_000) {
        self.kind = kind
        self.user = user
        self.after = after
        self.limit = limit
    }
}

/// The answer to an `OutstandingCount`.
package struct OutstandingNumber: Equatable, Sendable {
    package var count = 0
    /// How many invitations of each invitee; empty for messages.
    package var byInvitee: [UserID: Int] = [:]

    package init(count: Int = 0) { self.count = count }

    /// Of invitations, by their names.
    package init(invitations names: some Sequence<String>) {
        for name in names {
            count += 1
            if let invitee = Outstanding.invitee(ofInvitation: name) { byInvitee[invitee, default: 0] += 1 }
        }
    }

    /// Invitations that were decided, and are not written yet.
    package mutating func add(_ invitees: [UserID]) {
        count += invitees.count
        for invitee in invitees { byInvitee[invitee, default: 0] += 1 }
    }
}

/// What is kept because of a user, counted by periods.
package struct StoredPeriod: Hashable, Sendable {
    package let user: UserID
    /// Periods since the epoch.
    package let number: Int64

    package init(of user: UserID, number: Int64) {
        self.user = user
        self.number = number
    }
}

/// So many more bytes.
package struct StoredCharge: Equatable, Sendable {
    package let period: StoredPeriod
    package let bytes: Int
    /// When the period may be forgotten.
    package let until: Milliseconds

    package init(_ period: StoredPeriod, bytes: Int, until: Milliseconds) {
        self.period = period
        self.bytes = bytes
        self.until = until
    }
}
