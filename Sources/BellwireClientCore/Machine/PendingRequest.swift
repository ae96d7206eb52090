import SignalingProtocol

/// A request without a response.
struct PendingRequest: Sendable, Equatable {
    enum Stage: Sendable, Equatable {
        /// Waits for the response to an earlier request (`waits`), or to an earlier message to the same recipient. Can
        /// transition to `sending`.
        case queued
        /// Sent `sends` times on this connection, and again at `nextSend`. Can transition to `awaitingInvite` and
        /// `queued`.
        case sending(sends: Int, nextSend: Int64)
        /// An early cancel that was answered `callNotFound`. The service remembers the cancel; the response to the
        /// invite says how the call stands. Can transition to `sending`.
        case awaitingInvite
    }

    var request: Request
    /// The time limit, in milliseconds.
    let limit: Int64
    /// The time at which the time limit has passed and the request fails, in milliseconds.
    let deadline: Int64
    var stage: Stage
    /// Whether the request is an ordered message that has not left this device and so has no `seq` yet.
    var isUnplaced = false
    /// The last answer that asked for another try.
    var refusal: SignalingError?

    var callID: CallID? { request.body.callID }

    var nextSend: Int64? {
        if case .sending(_, let nextSend) = stage { nextSend } else { nil }
    }

    /// Whether the request was published, on this connection or an earlier connection.
    var hasLeft: Bool {
        switch stage {
        case .queued, .sending(sends: 0, nextSend: _): false
        case .sending, .awaitingInvite: true
        }
    }

    var isInvite: Bool {
        if case .invite = request.body { true } else { false }
    }

    /// Whether the device takes part in the call after the request.
    var beginsCall: Bool {
        switch request.body {
        case .invite, .accept, .join: true
        default: false
        }
    }

    var isCancel: Bool {
        if case .cancel = request.body { true } else { false }
    }

    /// Whether the user, or an invitee of the user, has left the call after the request.
    var leavesCall: Bool {
        switch request.body {
        case .quit, .end, .reject, .cancel: true
        default: false
        }
    }

    /// Whether the request changes a call. A request that only reads needs no turn among the requests of its call.
    var changesState: Bool { request.body.changesCall }

    func isOfCall(of other: PendingRequest) -> Bool { callID != nil && callID == other.callID }
}
