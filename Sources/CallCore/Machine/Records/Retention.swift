import SignalingProtocol

/// For how long, and how many of them, stores keep what no setting says otherwise: one set of figures for all of them.
package enum Retention {
    /// Ended calls, and what lies beside them, in milliseconds.
    package static let history: Milliseconds = 7 * 86_400_000
    /// Ended calls in a user's list.
    package static let historyPerUser = 200
    /// What counts invitations, or lists messages, of a user: longer than the longest of them lasts, in milliseconds.
    package static let outstanding = Milliseconds(Limits.invitationTimeout.upperBound) * 1_000 + 100_000
    package static let messageList = Milliseconds(Limits.messageTTL.upperBound) * 1_000 + 100_000
}
