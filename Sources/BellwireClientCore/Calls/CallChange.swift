import SignalingProtocol

/// What becomes of a call, each thing once.
public enum CallChange: Sendable, Equatable {
    /// A member was invited, or its state is another one than what was told of it last; this user's own changes too. `by`: who did it, where
    /// that is known.
    case member(MemberSnapshot, by: UserID?)
    /// The call is active: somebody answered.
    case active
    /// Another device of this user has answered, or taken the call over.
    case handledElsewhere(DeviceID?)
    /// The invitation's time has passed and the service has said nothing, as to a device that cannot be reached: stop ringing. What has become
    /// of the call follows when the service tells; should it ring again, `incomingCalls` tells so too.
    case invitationExpired
    /// Another member sent this within the call.
    case signal(Signal)
    /// Final: this user is not in the call any more, and it goes on without.
    case left
    /// Final. The reason is nil when the call ended while this device could not be reached, and how is not known.
    case ended(EndReason?)
}

/// What was told of a call, so that what is told next is news: also when two events name a change, an event was missed, or the connection
/// was lost in between.
package struct CallTracker: Sendable {
    /// The newest state.
    package private(set) var snapshot: CallSnapshot
    private var told: [UserID: MemberSnapshot] = [:]
    private var isActive = false
    private var isOver = false
    private var isElsewhere = false
    /// What is known is that its time has passed.
    package private(set) var isExpired = false

    /// Nothing of the call was told.
    package init(_ snapshot: CallSnapshot) { self.snapshot = snapshot }

    /// What is news in `call`, which the machine holds for the newest state.
    package mutating func received(_ call: CallSnapshot, by actor: UserID? = nil) -> [CallChange] {
        snapshot = call
        isExpired = false
        var changes: [CallChange] = []
        for member in call.members where isNews(member) {
            told[member.userID] = member
            changes.append(.member(member, by: actor))
        }
        if call.state == .active, !isActive {
            isActive = true
            changes.append(.active)
        }
        return changes + (call.state == .ended ? over(.ended(call.endReason)) : [])
    }

    private func isNews(_ member: MemberSnapshot) -> Bool {
        guard let last = told[member.userID] else { return true }
        // Invited once more: what was in between was missed.
        return last.state != member.state || member.state.isPending && last.expiresAt != member.expiresAt
    }

    /// It is over for this user, which the app is told once.
    package mutating func over(_ change: CallChange) -> [CallChange] {
        guard !isOver else { return [] }
        isOver = true
        return [change]
    }

    /// Another device of the user `own` has it; told once, until this device has it again.
    package mutating func handledElsewhere(_ own: MemberSnapshot?) -> [CallChange] {
        guard !isElsewhere else { return [] }
        isElsewhere = true
        return [.handledElsewhere(own?.device)]
    }

    package mutating func isHere() { isElsewhere = false }

    /// Its time has passed here.
    package mutating func expired() -> [CallChange] {
        guard !isOver, !isExpired else { return [] }
        isExpired = true
        return [.invitationExpired]
    }
}

extension CallTracker {
    /// How a user leaves a call.
    enum Leaving: Sendable, Equatable {
        case reject, cancel, quit, end
    }

    /// Nil when there is nothing to leave.
    func leaving(_ user: UserID) -> Leaving? {
        guard snapshot.state != .ended, let own = snapshot.member(user) else { return nil }
        if own.state.isPending { return .reject }
        guard own.state == .accepted else { return nil }
        let others = snapshot.members.filter { $0.userID != user && $0.state.isLive }
        if snapshot.state == .ringing, snapshot.inviter == user, !others.isEmpty { return .cancel }
        guard snapshot.mode == .advanced else { return nil }
        return others.count > 1 ? .quit : .end
    }
}
