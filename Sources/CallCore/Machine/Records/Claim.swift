import SignalingProtocol

/// An entry that spans calls and that a single call at a time may hold.
package enum Claim: Hashable, Sendable {
    /// The user is accepted in this live advanced call.
    case activeCall(of: UserID)
    /// The user rings only the other user. The other user's invitation checks this claim (section 3, Glare).
    case ringing(from: UserID, to: UserID)
}

/// The call that holds a claim, and the version of the call's record at which the call took the claim. A call that
/// takes its claim again after another writer fenced the claim is a new holder. The other writer therefore cannot take
/// the claim away from the call's next commit.
package struct ClaimHolder: Hashable, Sendable {
    package let callID: CallID
    /// The version; 0 in a store that sets a claim in the same step as the commit.
    package let version: Int64

    package init(_ callID: CallID, version: Int64) {
        self.callID = callID
        self.version = version
    }
}

/// A user's refusal of another user's invitations and peer messages.
package struct Block: Hashable, Sendable {
    package let user: UserID
    package let blocked: UserID

    package init(by user: UserID, of blocked: UserID) {
        self.user = user
        self.blocked = blocked
    }
}
