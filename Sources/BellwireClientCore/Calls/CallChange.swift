import SignalingProtocol

/// A change of a call, reported once.
public enum CallChange: Sendable, Equatable {
    /// A member was invited, or has another state than in its last change; this user's own changes too. `by` is the
    /// user who made the change; nil when that user is not known, as for a timeout.
    case member(MemberSnapshot, by: UserID?)
    /// The call is active: an invitee has answered.
    case active
    /// Another device of this user has answered, or taken over the call. The device is nil when not known.
    case handledElsewhere(DeviceID?)
    /// The invitation's countdown has passed without news from the service, as on a device that cannot be reached: stop
    /// ringing. A later change reports the call's outcome; if the call rings again, `incomingCalls` delivers the call
    /// again.
    case invitationExpired
    /// Another member sent this signal within the call.
    case signal(BellwireSignal)
    /// Final: this user has left the call, which goes on.
    case left
    /// Final: the call has ended. The reason is nil when the call ended in an unknown way while this device could not
    /// be reached, or when the client disconnected.
    case ended(EndReason?)
}

/// The changes of a call that were reported, so that the next report has news only: even when two events name a change,
/// an event was missed, or the connection was lost in between.
package struct CallTracker: Sendable {
    /// The newest state.
    package private(set) var snapshot: CallSnapshot
    private var members = ReportedMembers()
    private var isActive = false
    private var isOver = false
    private var isElsewhere = false
    /// Whether the last news is that the countdown has passed.
    package private(set) var isExpired = false

    /// Creates a tracker that has reported no changes.
    package init(_ snapshot: CallSnapshot) { self.snapshot = snapshot }

    /// Returns the changes that `call` brings. `call` is the newest state that the machine knows.
    package mutating func received(_ call: CallSnapshot, by actor: UserID? = nil) -> [CallChange] {
        snapshot = call
        isExpired = false
        var changes = members.news(in: call).map { CallChange.member($0, by: actor) }
        if call.state == .active, !isActive {
            isActive = true
            changes.append(.active)
        }
        return changes + (call.state == .ended ? over(.ended(call.endReason)) : [])
    }

    /// Ends the call for this user; reported once.
    package mutating func over(_ change: CallChange) -> [CallChange] {
        guard !isOver else { return [] }
        isOver = true
        return [change]
    }

    /// Reports that another device of the user `own` has the call; once, until this device has the call again.
    package mutating func handledElsewhere(_ own: MemberSnapshot?) -> [CallChange] {
        guard !isElsewhere else { return [] }
        isElsewhere = true
        return [.handledElsewhere(own?.device)]
    }

    package mutating func isHere() { isElsewhere = false }

    /// Reports that the countdown has passed on this device.
    package mutating func expired() -> [CallChange] {
        guard !isOver, !isExpired else { return [] }
        isExpired = true
        return [.invitationExpired]
    }
}

extension CallTracker {
    /// The way in which a user leaves a call.
    enum Leaving: Sendable, Equatable {
        case reject, cancel, quit, end
    }

    /// Returns how the user leaves the call; nil when the user is not in the call.
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
