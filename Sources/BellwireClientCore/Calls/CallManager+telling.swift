import SignalingProtocol
import Synchronization

/// What the service tells, and what becomes of the one call.
extension CallManager {
    func rings(_ call: Call) {
        guard call.ownMember?.state.isPending ?? false else { return }
        if begin(.ringing, .remoteCall, call) { return follow(call) }
        guard !crosses(call) else { return }
        isBusy(for: call)
    }

    private func isBusy(for call: Call) {
        switch policies.busy {
        case .tell: waiting.tell(call)
        case .reject: Task { try? await call.reject(WellKnownReason.busy) }
        }
    }

    /// The call that this user makes is the same one, or will be.
    private func crosses(_ call: Call) -> Bool {
        current.withLock { current in
            if current.call?.id == call.id || current.callID == call.id { return true }
            guard policies.glare == .merge, current.state == .calling, current.call == nil,
                current.callees.contains(call.inviter)
            else { return false }
            current.crossing.append(call)
            return true
        }
    }

    /// A call begins if there is none.
    func begin(
        _ state: State, _ reason: Reason, _ call: Call? = nil, id: CallID? = nil, to callees: [UserID] = []
    ) -> Bool {
        current.withLock { current in
            guard current.state == .idle else { return false }
            current = Current(
                number: current.number + 1, state: state, call: call, callID: id ?? call?.id, callees: callees)
            hub.tell(Change(state: state, reason: reason, call: call))
            return true
        }
    }

    func follow(_ call: Call) {
        // With glare it may be another one than was asked for.
        let others = current.withLock { current in
            (current.call, current.callID) = (call, call.id)
            defer { current.crossing = [] }
            return current.crossing.filter { $0.id != call.id && $0.ownMember?.state.isPending ?? false }
        }
        for other in others { isBusy(for: other) }
        let changes = call.changes
        Task { [weak self] in
            for await change in changes {
                self?.changed(call, change)
                // Should it ring again it is followed anew.
                if change == .invitationExpired { return }
            }
        }
    }

    private func changed(_ call: Call, _ change: CallChange) {
        switch change {
        case .active, .member: answered(call)
        case .handledElsewhere: over(call.id, call, .handledElsewhere)
        case .invitationExpired: over(call.id, call, .timeout)
        case .left: over(call.id, call, reason(call, ownReason(call)))
        case .ended(let reason): ended(call, reason)
        case .signal: break
        }
    }

    /// Somebody has: whom this user calls, or this user on this device. That another invitee has changes nothing for one whose phone rings.
    private func answered(_ call: Call) {
        guard call.isHere, call.state == .active || call.endReason == .answered else { return }
        advance(call, to: .connecting, state == .calling ? .remoteAccepted : .localAccepted)
    }

    /// A common call is over for the service as soon as it is answered; for the people it begins.
    private func ended(_ call: Call, _ reason: EndReason?) {
        guard reason == .answered else { return over(call.id, call, self.reason(call, remoteReason(reason))) }
        guard call.isHere else { return over(call.id, call, self.reason(call, ownReason(call))) }
        answered(call)
    }

    /// Why this user is not in the call any more, while others may be.
    private func ownReason(_ call: Call) -> Reason {
        guard let own = call.ownMember else { return .gone }
        switch own.state {
        case .timeout: return .timeout
        case .cancelled: return .remoteCancelled
        case .rejected: return own.reason == WellKnownReason.busy ? .localBusy : .localRejected
        case .quit: return own.reason == EndReason.heartbeatTimeout.rawValue ? .gone : .localHangup
        case .accepted: return .handledElsewhere
        case .inviting, .notYetReceived, .received: return .gone
        }
    }

    private func remoteReason(_ reason: EndReason?) -> Reason {
        switch reason {
        case .rejected: .remoteRejected
        case .busy: .remoteBusy
        case .timeout: .timeout
        case .cancelled, .callerLost: .remoteCancelled
        case .hangup, .quit, .answered: .remoteHangup
        case .heartbeatTimeout: .remoteLost
        case nil: .gone
        }
    }

    /// What this side did explains it, when it did something.
    private func reason(_ call: Call, _ other: Reason) -> Reason {
        current.withLock { $0.call?.id == call.id ? $0.intent : nil } ?? other
    }

    func advance(_ call: Call, to state: State, _ reason: Reason) {
        current.withLock { current in
            guard current.call?.id == call.id, isForward(current.state, state) else { return }
            (current.state, current.intent) = (state, nil)
            hub.tell(Change(state: state, reason: reason, call: call))
        }
    }

    private func isForward(_ old: State, _ new: State) -> Bool {
        switch (old, new) {
        case (.calling, .connecting), (.ringing, .connecting), (.connecting, .connected): true
        default: false
        }
    }

    /// `call`: nil for one that never came about.
    func over(_ callID: CallID?, _ call: Call?, _ reason: Reason) {
        let crossing = current.withLock { current -> [Call] in
            guard current.state != .idle, current.callID == callID else { return [] }
            defer { current = Current(number: current.number) }
            hub.tell(Change(state: .idle, reason: reason, call: call))
            return current.crossing
        }
        // The own call did not become one with these.
        for other in crossing where other.id != call?.id { rings(other) }
    }
}
