internal import SignalingProtocol

/// One call as this device's app was told of it, so that what is told next is news: also when two events name a change, when events were
/// missed, and after a reconnect.
struct CallStory: Sendable {
    private let user: UserID
    /// The newest state.
    private(set) var call: CallSnapshot
    private var told: [UserID: MemberSnapshot] = [:]

    /// Nothing was told.
    init(_ call: CallSnapshot, user: UserID) {
        self.user = user
        self.call = call
    }

    /// It begins with the answer to a request of this device, made at `time`: the app's list of the others is from before it.
    init(_ call: CallSnapshot, user: UserID, answeredAt time: Int64) {
        self.init(call, user: user)
        for member in call.members where member.userID != user && member.updatedAt < time {
            told[member.userID] = member
        }
    }

    /// Nothing more is told of this call.
    var isOver: Bool { call.state == .ended || !(call.member(user)?.state.isLive ?? false) }

    /// `isOwnDoing`: the answer to a request of this device.
    mutating func heard(_ call: CallSnapshot, isOwnDoing: Bool = false) -> [Notice] {
        let before = told[user]
        let changed = call.members.filter(isNews)
        self.call = call
        for member in call.members { told[member.userID] = member }
        guard let own = call.member(user) else { return [] }
        switch own.state {
        case .inviting, .notYetReceived, .received:
            if call.state != .ended, isInvitation(own, before) { return [.received(call, own: own)] }
            return states(changed.filter { $0.userID != user }) + end(own, isOwnDoing)
        case .cancelled where before?.state.isPending == true: return [.cancelled(call, own: own)]
        case .timeout where before?.state.isPending == true: return [.timeout(call)]
        case .accepted, .rejected, .cancelled, .timeout, .quit: return states(changed) + end(own, isOwnDoing)
        }
    }

    private func isNews(_ member: MemberSnapshot) -> Bool {
        guard let last = told[member.userID] else { return true }
        // Invited once more: what was in between was missed.
        return last.state != member.state || member.state.isPending && last.expiresAt != member.expiresAt
    }

    private func isInvitation(_ own: MemberSnapshot, _ before: MemberSnapshot?) -> Bool {
        guard let before, before.state.isPending else { return true }
        return before.expiresAt != own.expiresAt
    }

    private func states(_ members: [MemberSnapshot]) -> [Notice] {
        members.isEmpty ? [] : [.states(call.callID, members)]
    }

    private func end(_ own: MemberSnapshot, _ isOwnDoing: Bool) -> [Notice] {
        guard call.mode == .advanced, call.state == .ended, own.state.isLive else { return [] }
        // Who ends a call knows it from the callback. The answer to another request that comes late has the call as it is now, and
        // somebody else may have ended it.
        return isOwnDoing && call.endedBy == user ? [] : [.ended(call)]
    }

    // MARK: What the service did not say

    /// The time of the pending invitations has passed.
    mutating func expired() -> [Notice] {
        var call = call
        for index in call.members.indices where call.members[index].state.isPending {
            call.members[index].state = .timeout
        }
        return heard(call)
    }

    /// The call is over, and how is not known.
    mutating func vanished() -> [Notice] {
        guard !isOver else { return [] }
        var call = call
        if call.mode == .advanced, call.member(user)?.state == .accepted {
            call.state = .ended
            return heard(call)
        }
        for index in call.members.indices where call.members[index].state.isPending {
            call.members[index].state = .cancelled
        }
        return heard(call)
    }
}
