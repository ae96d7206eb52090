import SignalingProtocol

/// The place of a call in the history of its user.
package struct HistoryPlace: Equatable, Sendable, Comparable {
    package let createdAt: Milliseconds
    package let callID: CallID

    package init(createdAt: Milliseconds, callID: CallID) {
        self.createdAt = createdAt
        self.callID = callID
    }

    /// Whether the left call is older.
    package static func < (lhs: HistoryPlace, rhs: HistoryPlace) -> Bool {
        (lhs.createdAt, lhs.callID) < (rhs.createdAt, rhs.callID)
    }
}

extension HistoryPlace {
    /// The text of the place: the time of creation, "-", the call id. Each place has its own text.
    package var text: String { "\(createdAt)-\(callID)" }

    /// Returns nil when `text` is not the text of a place.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
        guard parts.count == 2, let createdAt = UInt64(parts[0]), createdAt <= Int64.max,
            let callID = CallID(String(parts[1]))
        else { return nil }
        self.init(createdAt: Milliseconds(createdAt), callID: callID)
        // A number has more than a single spelling, and only the shortest is valid.
        guard self.text == text else { return nil }
    }
}
