import SignalingProtocol

/// The times and numbers that limit stored data without a setting of its own, the same for all stores.
package enum Retention {
    /// The retention of ended calls and the data beside the calls, in milliseconds.
    package static let history: Milliseconds = 7 * 86_400_000
    /// The bound on ended calls in a user's list.
    package static let historyPerUser = 200
    /// The retention of a user's counts of invitations, in milliseconds: longer than the longest invitation.
    /// `messageList` is the retention of a user's list of peer messages: longer than the longest `ttl`.
    package static let outstanding = Milliseconds(Limits.invitationTimeout.upperBound) * 1_000 + 100_000
    package static let messageList = Milliseconds(Limits.messageTTL.upperBound) * 1_000 + 100_000
}
