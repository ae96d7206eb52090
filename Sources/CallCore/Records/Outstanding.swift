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

    package static func message(_ id: RecordID, by user: UserID) -> Outstanding {
        Outstanding(kind: .messages, user: user, name: id.string)
    }
}

/// How many things of one kind are outstanding of a user whose time ends after a moment.
package struct OutstandingCount: Hashable, Sendable {
    package let kind: Outstanding.Kind
    package let user: UserID
    package let after: Milliseconds

    package init(_ kind: Outstanding.Kind, of user: UserID, after: Milliseconds) {
        self.kind = kind
        self.user = user
        self.after = after
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
