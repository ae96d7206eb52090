import SignalingProtocol

/// A user's open invitation or queued peer message, as long as it costs the service work. The entry counts until the
/// invitation is answered or the message is finished, or until its time ends, so that an entry whose removal was lost
/// does not count for ever.
package struct Outstanding: Hashable, Sendable {
    package enum Kind: String, Sendable, CaseIterable {
        case invitations
        case messages
    }

    package let kind: Kind
    /// The user who sent the invitation or the message.
    package let user: UserID
    /// The entry's name among the user's entries. Each entry has its own name.
    package let name: String

    package static func invitation(of invitee: UserID, to callID: CallID, by user: UserID) -> Outstanding {
        Outstanding(kind: .invitations, user: user, name: "\(callID):\(invitee)")
    }

    /// Returns the invitee in the name of an invitation; nil for another text.
    package static func invitee(ofInvitation name: String) -> UserID? {
        // No call id holds a colon.
        guard let colon = name.utf8.firstIndex(of: UInt8(ascii: ":")) else { return nil }
        return UserID(String(name[name.utf8.index(after: colon)...]))
    }

    package static func message(_ id: RecordID, by user: UserID) -> Outstanding {
        Outstanding(kind: .messages, user: user, name: id.string)
    }
}

/// A query for the number of a user's entries of a kind that end after a moment. At most `limit` entries are counted.
package struct OutstandingCount: Hashable, Sendable {
    package let kind: Outstanding.Kind
    package let user: UserID
    package let after: Milliseconds
    package let limit: Int

    /// Whether the store also counts the invitations of each invitee. With a higher limit, reading the names of all
    /// entries would take too long.
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
    /// The number of invitations of each invitee; empty for messages.
    package var byInvitee: [UserID: Int] = [:]

    package init(count: Int = 0) { self.count = count }

    /// Counts invitations by their names.
    package init(invitations names: some Sequence<String>) {
        for name in names {
            count += 1
            if let invitee = Outstanding.invitee(ofInvitation: name) { byInvitee[invitee, default: 0] += 1 }
        }
    }

    /// Adds invitations that were decided and are not written yet.
    package mutating func add(_ invitees: [UserID]) {
        count += invitees.count
        for invitee in invitees { byInvitee[invitee, default: 0] += 1 }
    }
}

/// A period in the count of the bytes that the store keeps because of a user.
package struct StoredPeriod: Hashable, Sendable {
    package let user: UserID
    /// The number of the period since the Unix epoch.
    package let number: Int64

    package init(of user: UserID, number: Int64) {
        self.user = user
        self.number = number
    }
}

/// A query for the bytes of some of a user's periods. The store answers the periods of a user together.
package struct StoredPeriods: Hashable, Sendable {
    package let user: UserID
    package let numbers: [Int64]

    package init(of user: UserID, numbers: [Int64]) {
        self.user = user
        self.numbers = numbers
    }

    package var periods: [StoredPeriod] { numbers.map { StoredPeriod(of: user, number: $0) } }
}

/// A number of bytes to add to a period's count.
package struct StoredCharge: Equatable, Sendable {
    package let period: StoredPeriod
    package let bytes: Int
    /// The earliest time for forgetting the period.
    package let until: Milliseconds

    package init(_ period: StoredPeriod, bytes: Int, until: Milliseconds) {
        self.period = period
        self.bytes = bytes
        self.until = until
    }
}
