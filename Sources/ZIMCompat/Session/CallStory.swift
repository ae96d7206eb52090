internal import BellwireClient
internal import SignalingProtocol

/// A call as the app knows it, so that the next report has news only: even when two events name a change, when events
/// were missed, and after a reconnect.
struct CallStory: Sendable {
    private let user: UserID
    private let device: DeviceID
    /// The newest state.
    private(set) var call: CallSnapshot
    private var told = ReportedMembers()

    /// Creates a story of which the app knows nothing yet.
    init(_ call: CallSnapshot, user: UserID, device: DeviceID) {
        self.user = user
        self.device = device
        self.call = call
    }

    /// Creates a story that begins with the response to a request of this device. `time` is the time of the call's
    /// revision in this response. The app knows the states that the other members had before that.
    init(_ call: CallSnapshot, user: UserID, device: DeviceID, answeredAt time: Int64) {
        self.init(call, user: user, device: device)
        for member in call.members where member.userID != user && member.updatedAt < time {
            told.note(member)
        }
    }

    /// Whether the app gets no more notices of this call.
    var isOver: Bool {
        guard call.state != .ended, let own = call.member(user) else { return true }
        return !own.state.isLive || isElsewhere(own)
    }

    /// Returns the news in `call`. With `isOwnDoing` the call comes from the response to a request of this device.
    mutating func heard(_ call: CallSnapshot, isOwnDoing: Bool = false) -> [Notice] {
        let known = told
        let before = known[user]
        let changed = told.news(in: call)
        self.call = call
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

    /// Whether the user is in the call on another device, and not on this device.
    private func isElsewhere(_ own: MemberSnapshot) -> Bool { own.state == .accepted && own.device != device }

    /// Whether the invitation that rang here was answered without a request of this device.
    private func isAnswer(_ own: MemberSnapshot, to before: MemberSnapshot?) -> Bool {
        before?.state.isPending == true && (own.state == .rejected || own.state == .quit)
    }

    private func isInvitation(_ own: MemberSnapshot, _ before: MemberSnapshot?) -> Bool {
        guard let before, before.state.isPending else { return true }
        return before.expiresAt != own.expiresAt
    }

    private func states(_ members: [MemberSnapshot], _ answers: [MemberSnapshot]) -> [Notice] {
        members.isEmpty ? [] : [.states(call.callID, members, answers: answers)]
    }

    /// Returns the members who have answered an invitation that was pending as far as the app knows. For a member that
    /// is new to the app, only the answer to an invitation that this device has just made counts: other answers were
    /// given to an earlier run of the app.
    private func answers(
        _ members: [MemberSnapshot], _ known: ReportedMembers, _ isOwnDoing: Bool
    ) -> [MemberSnapshot] {
        members.filter { member in
            guard member.invitedBy == user, known[member.userID]?.state.isPending ?? isOwnDoing else { return false }
            return member.state == .accepted || member.state == .rejected || member.state == .timeout
        }
    }

    private func end(_ own: MemberSnapshot, _ isOwnDoing: Bool) -> [Notice] {
        guard call.mode == .advanced, call.state == .ended, own.state.isLive else { return [] }
        // An app that ends a call learns of the end from the callback. But a late response to another request has the
        // present state of the call, and another user may have ended the call.
        return isOwnDoing && call.endedBy == user ? [] : [.ended(call)]
    }

    /// Reports the end of the call to the app when the user has quit without a request of this device: the user's own
    /// state would not tell the app that the call has ended.
    private func left(_ own: MemberSnapshot) -> [Notice] {
        call.state == .ended ? [.ended(call)] : [.overHere(call, own: own)]
    }

    // MARK: Ends without news from the service

    /// Lets the pending invitations time out, after their time has passed.
    mutating func expired() -> [Notice] {
        var call = call
        for index in call.members.indices where call.members[index].state.isPending {
            call.members[index].state = .timeout
        }
        return heard(call)
    }

    /// Ends a call that has ended in an unknown way.
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
