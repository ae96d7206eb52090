import SignalingProtocol

/// Something that a user has asked of others and that still takes the service's work: an invitation that nobody has answered, a message
/// that waits. It counts until it is settled, or until its time is over: whatever was lost on the way, no count stays for ever.
public struct Outstanding: Hashable, Sendable {
    public enum Kind: String, Sendable, CaseIterable {
        case invitations
        case messages
    }

    public let kind: Kind
    /// Who has asked.
    public let user: UserID
    /// Which of the user's; one text for each.
    public let name: String

    public static func invitation(of invitee: UserID, to callID: CallID, by user: UserID) -> Outstanding {
        Outstanding(kind: .invitations, user: user, name: "\(callID):\(invitee)")
    }

    public static func message(_ id: RecordID, by user: UserID) -> Outstanding {
        Outstanding(kind: .messages, user: user, name: id.string)
    }
}

/// How many things of one kind are outstanding of a user whose time ends after a moment.
public struct OutstandingCount: Hashable, Sendable {
    public let kind: Outstanding.Kind
    public let user: UserID
    public let after: Milliseconds

    public init(_ kind: Outstanding.Kind, of user: UserID, after: Milliseconds) {
        self.kind = kind
        self.user = user
        self.after = after
    }
}

/// What is kept because of a user, counted by periods.
public struct StoredPeriod: Hashable, Sendable {
    public let user: UserID
    /// Periods since the epoch.
    public let number: Int64

    public init(of user: UserID, number: Int64) {
        self.user = user
        self.number = number
    }
}

/// So many more bytes.
public struct StoredCharge: Equatable, Sendable {
    public let period: StoredPeriod
    public let bytes: Int
    /// When the period may be forgotten.
    public let until: Milliseconds

    public init(_ period: StoredPeriod, bytes: Int, until: Milliseconds) {
        self.period = period
        self.bytes = bytes
        self.until = until
    }
}
