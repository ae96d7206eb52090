import SignalingProtocol

/// The outcome of a call for the user of this phone, with the exit status for scripts.
enum CallOutcome: String {
    case answered, rejected, timeout, busy, cancelled, error

    var exitStatus: Int32 {
        switch self {
        case .answered: 0
        case .error: 1
        case .rejected: 2
        case .timeout: 3
        case .busy: 4
        case .cancelled: 5
        }
    }
}

extension CallOutcome {
    /// The outcome for the inviter: answered if any invitee accepted.
    init(outgoing call: CallSnapshot) {
        let wasAnswered = call.members.contains { member in
            member.userID != call.inviter && (member.state == .accepted || member.state == .quit)
        }
        guard !wasAnswered, call.acceptedAt == nil else {
            self = .answered
            return
        }
        switch call.endReason {
        case .answered: self = .answered
        case .rejected: self = .rejected
        case .busy: self = .busy
        case .timeout: self = .timeout
        case .cancelled, .callerLost, .hangup, .quit: self = .cancelled
        case .heartbeatTimeout, nil: self = .error
        }
    }

    /// The outcome for an invitee: the outcome of the invitation.
    init(incoming call: CallSnapshot, user: UserID) {
        let own = call.member(user)
        switch own?.state {
        case .accepted, .quit: self = .answered
        case .rejected: self = own?.reason == WellKnownReason.busy ? .busy : .rejected
        case .timeout: self = .timeout
        case .cancelled: self = .cancelled
        case .inviting, .notYetReceived, .received, nil: self = .error
        }
    }
}
