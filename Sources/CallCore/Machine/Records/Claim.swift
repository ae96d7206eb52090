import SignalingProtocol

/// Something of which there is one in all, and which a call may hold.
package enum Claim: Hashable, Sendable {
    /// The user is accepted in this live advanced call.
    case activeCall(of: UserID)
    /// The user rings the other one alone; looked at by the other one's invitation (section 3, Glare).
    case ringing(from: UserID, to: UserID)
}

/// Which call holds a claim, and at which version of its record it took it: a call that was fenced meanwhile and takes its claim again
/// is another holder, so that whoever has fenced it does not take the claim from under its next commit.
package struct ClaimHolder: Hashable, Sendable {
    package let callID: CallID
    /// 0 in a store where a claim is taken in one step with the commit.
    package let version: Int64

    package init(_ callID: CallID, version: Int64) {
        self.callID = callID
        self.version = version
    }
}

/// A user does not want to hear of another one.
package struct Block: Hashable, Sendable {
    package let user: UserID
    package let blocked: UserID

    package init(by user: UserID, of blocked: UserID) {
        self.user = user
        self.blocked = blocked
    }
}
