import SignalingProtocol

/// A request whose response has not come.
struct PendingRequest: Sendable, Equatable {
    enum Stage: Sendable, Equatable {
        /// Waits for the response of an earlier request (`waits`), or of an earlier message to the same recipient. Can transition to `sending`.
        case queued
        /// Sent `sends` times on this connection, and again at `nextSend`. Can transition to `awaitingInvite`.
        case sending(sends: Int, nextSend: Int64)
        /// A cancel that overtook its invite and was answered `callNotFound`. The service remembers it; the response
        /// to the invite tells what became of the call. Can transition to `sending`.
        case awaitingInvite
    }

    var request: Request
    /// When it fails.
    let deadline: Int64
    var stage: Stage
    /// A message that is to have a place in the stream, and has not left this device.
    var isUnplaced = false
    /// The last answer that asked for another try.
    var refusal: SignalingError?

    var callID: CallID? { request.body.callID }

    var nextSend: Int64? {
        if case .sending(_, let nextSend) = stage { nextSend } else { nil }
    }

    /// It was published, on this connection or an earlier one.
    var hasLeft: Bool {
        switch stage {
        case .queued, .sending(sends: 0, nextSend: _): false
        case .sending, .awaitingInvite: true
        }
    }

    var isInvite: Bool {
        if case .invite = request.body { true } else { false }
    }

    /// The device takes part in the call afterwards.
    var beginsCall: Bool {
        switch request.body {
        case .invite, .accept, .join: true
        default: false
        }
    }

    var isCancel: Bool {
        if case .cancel = request.body { true } else { false }
    }

    /// The user, or somebody whom the user invited, is no longer in the call afterwards.
    var leavesCall: Bool {
        switch request.body {
        case .quit, .end, .reject, .cancel: true
        default: false
        }
    }

    /// What only asks needs no turn among the requests of its call.
    var changesState: Bool { request.body.changesCall }

    func isOfCall(of other: PendingRequest) -> Bool { callID != nil && callID == other.callID }

    /// Whether this request waits for the response to an earlier one. Two requests of a device may be handled by two coordinators at once:
    /// the later one would be judged by what was before the earlier one, as an invitation by the call that the user has just left.
    func waits(for earlier: PendingRequest) -> Bool {
        guard changesState, earlier.changesState else { return false }
        // A cancel may overtake its invitation: the service remembers it.
        if isOfCall(of: earlier) { return !(isCancel && earlier.isInvite) }
        return beginsCall && earlier.leavesCall
    }
}
