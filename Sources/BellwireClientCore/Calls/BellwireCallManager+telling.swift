import SignalingProtocol
import Basics

/// The effects of the client's events on the manager's call.
extension BellwireCallManager {
    func rings(_ call: BellwireCall) {
        guard call.ownMember?.state.isPending ?? false else { return }
        if begin(.ringing, .remoteCall, call) { return follow(call) }
        guard !crosses(call) else { return }
        isBusy(for: call)
    }

    private func isBusy(for call: BellwireCall) {
        switch policies.busy {
        case .tell: waiting.tell(call)
        case .reject: Task { try? await call.reject(WellKnownReason.busy) }
        }
    }

    /// Whether the ringing call and the call that this user makes are the same, or will be the same after a glare
    /// merge.
    private func crosses(_ call: BellwireCall) -> Bool {
        current.withLock { current in
            if current.call?.id == call.id || current.callID == call.id { return true }
            guard policies.glare == .merge, current.state == .calling, current.call == nil,
                current.callees.contains(call.inviter)
            else { return false }
            current.crossing.append(call)
            return true
        }
    }

    /// Begins a call if the manager is idle; returns false otherwise.
    func begin(
        _ state: State, _ reason: Reason, _ call: BellwireCall? = nil, id: CallID? = nil, to callees: [UserID] = []
    ) -> Bool {
        current.withLock { current in
            guard current.state == .idle else { return false }
            current = Current(
                number: current.number + 1, state: state, call: call, callID: id ?? call?.id, callees: callees)
            hub.tell(Change(state: state, reason: reason, call: call))
            return true
        }
    }

    func follow(_ call: BellwireCall) {
        // After a glare merge this may be another call than the requested one.
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
                // If the call rings again, `incomingCalls` delivers the call again.
                if change == .invitationExpired { return }
            }
        }
    }

    private func changed(_ call: BellwireCall, _ change: CallChange) {
        switch change {
        case .active, .member: answered(call)
        case .handledElsewhere: over(call.id, call, .handledElsewhere)
        case .invitationExpired: over(call.id, call, .timeout)
        case .left: over(call.id, call, reason(call, ownReason(call)))
        case .ended(let reason): ended(call, reason)
        case .signal: break
        }
    }

    /// Advances the call when an invitee has answered this user's call, or this user has answered on this device. While
    /// this user's phone still rings, the answer of another invitee changes nothing.
    private func answered(_ call: BellwireCall) {
        guard call.isHere, call.state == .active || call.endReason == .answered else { return }
        advance(call, to: .connecting, state == .calling ? .remoteAccepted : .localAccepted)
    }

    /// Handles a call's end. The service ends a common call with the answer; for the app the call begins then.
    private func ended(_ call: BellwireCall, _ reason: EndReason?) {
        guard reason == .answered else { return over(call.id, call, self.reason(call, remoteReason(reason))) }
        guard call.isHere else { return over(call.id, call, self.reason(call, ownReason(call))) }
        answered(call)
    }

    /// Returns why this user has left the call, while others may still be in the call.
    private func ownReason(_ call: BellwireCall) -> Reason {
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

    /// Returns this user's own last step as the reason, if there was one, and `other` otherwise.
    private func reason(_ call: BellwireCall, _ other: Reason) -> Reason {
        current.withLock { $0.call?.id == call.id ? $0.intent : nil } ?? other
    }

    func advance(_ call: BellwireCall, to state: State, _ reason: Reason) {
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

    /// Ends the manager's call. `call` is nil for a call that the service has not created.
    func over(_ callID: CallID?, _ call: BellwireCall?, _ reason: Reason) {
        let crossing = current.withLock { current -> [BellwireCall] in
            guard current.state != .idle, current.callID == callID else { return [] }
            defer { current = Current(number: current.number) }
            hub.tell(Change(state: .idle, reason: reason, call: call))
            return current.crossing
        }
        // The service has not merged these invitations with the own call.
        for other in crossing where other.id != call?.id { rings(other) }
    }
}
