internal import SignalingProtocol

/// One call as this device's app was told of it, so that what is told next is news: also when two events name a change, when events were
/// missed, and after a reconnect.
struct CallStory: Sendable {
    private let user: UserID
    private let device: DeviceID
    /// The newest state.
    private(set) var call: CallSnapshot
    private var told: [UserID: MemberSnapshot] = [:]

    /// Nothing was told.
    init(_ call: CallSnapshot, user: UserID, device: DeviceID) {
        self.user = user
        self.device = device
        self.call = call
    }

    /// It begins with the answer to a request of this device, made at `time`: the app's list of the others is from before it.
    init(_ call: CallSnapshot, user: UserID, device: DeviceID, answeredAt time: Int64) {
        self.init(call, user: user, device: device)
        for member in call.members where member.userID != user && member.updatedAt < time {
            told[member.userID] = member
        }
    }

    /// Nothing more is told of this call.
    var isOver: Bool {
        guard call.state != .ended, let own = call.member(user) else { return true }
        return !own.state.isLive || isElsewhere(own)
    }

    /// `isOwnDoing`: the answer to a request of this device.
    mutating func heard(_ call: CallSnapshot, isOwnDoing: Bool = false) -> [Notice] {
        let known = told
        let before = known[user]
        let changed = call.members.filter(isNews)
        self.call = call
        for member in call.members { told[member.userID] = member }
        guard let own = call.member(user) else { return [] }
        if isElsewhere(own) || !isOwnDoing && isAnswer(own, to: before) {
            guard before?.state.isLive == true else { return states(changed.filter { $0.userID != user }, []) }
            return [.overHere(call, own: own)]
        }
        switch own.state {
        case .inviting, .notYetReceived, .received:
            if call.state != .ended, isInvitation(own, before) { return [.received(call, own: own)] }
            return states(changed.filter { $0.userID != user }, []) + end(own, isOwnDoing)
        case .cancelled where before?.state.isPending == true: return [.cancelled(call, own: own)]
        case .timeout where before?.state.isPending == true: return [.timeout(call)]
        case .quit where before?.state == .accepted && !isOwnDoing: return states(changed, []) + left(own)
        case .accepted, .rejected, .cancelled, .timeout, .quit:
            return states(changed, answers(changed, known, isOwnDoing)) + end(own, isOwnDoing)
        }
    }

    /// Another device of the user is in the call, and this one is not.
    private func isElsewhere(_ own: MemberSnapshot) -> Bool { own.state == .accepted && own.device != device }

    /// The invitation that rang here was answered, and not by a request of this device.
    private func isAnswer(_ own: MemberSnapshot, to before: MemberSnapshot?) -> Bool {
        before?.state.isPending == true && (own.state == .rejected || own.state == .quit)
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

    private func states(_ members: [MemberSnapshot], _ answers: [MemberSnapshot]) -> [Notice] {
        members.isEmpty ? [] : [.states(call.callID, members, answers: answers)]
    }

    /// Whose invitation was pending for all that the app knows. Of a member who has not been told of, only the answer to an invitation that this
    /// device has just made is one: other answers were given to an earlier run of the app.
    private func answers(
        _ members: [MemberSnapshot], _ known: [UserID: MemberSnapshot], _ isOwnDoing: Bool
    ) -> [MemberSnapshot] {
        members.filter { member in
            guard member.invitedBy == user, known[member.userID]?.state.isPending ?? isOwnDoing else { return false }
            return member.state == .accepted || member.state == .rejected || member.state == .timeout
        }
    }

    private func end(_ own: MemberSnapshot, _ isOwnDoing: Bool) -> [Notice] {
        guard call.mode == .advanced, call.state == .ended, own.state.isLive else { return [] }
        // Who ends a call knows it from the callback. The answer to another request that comes late has the call as it is now, and
        // somebody else may have ended it.
        return isOwnDoing && call.endedBy == user ? [] : [.ended(call)]
    }

    /// The user quit, and this device did not ask for that: the call is over for its app, which its own state does not tell the app.
    private func left(_ own: MemberSnapshot) -> [Notice] {
        call.state == .ended ? [.ended(call)] : [.overHere(call, own: own)]
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
