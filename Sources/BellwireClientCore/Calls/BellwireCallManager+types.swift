import SignalingProtocol

extension BellwireCallManager {
    public enum State: Sendable, Equatable {
        /// There is no call. Can transition to `calling` and `ringing`.
        case idle
        /// This user calls, and no invitee has answered. Can transition to `connecting` and `idle`.
        case calling
        /// Another user calls. Can transition to `connecting` and `idle`.
        case ringing
        /// The call is answered; the media is being set up. Can transition to `connected` and `idle`.
        case connecting
        /// The app has reported that the media flows. Can transition to `idle`.
        case connected
    }

    /// The reason for a change of the state. `local` stands for this user, `remote` for another member.
    public enum Reason: Sendable, Equatable {
        case localCall, remoteCall
        case localAccepted, remoteAccepted
        case localRejected, remoteRejected
        /// The invitee is in another call.
        case remoteBusy
        /// This user was in another call, on any device.
        case localBusy
        case localCancelled, remoteCancelled
        case localHangup, remoteHangup
        /// No invitee answered in time.
        case timeout
        /// Another device of this user answered, or took over the call.
        case handledElsewhere
        /// The media flows: the app has called `mediaConnected()`.
        case mediaConnected
        /// The service has heard no heartbeats of the other member for too long (docs/protocol.md, section 3).
        case remoteLost
        /// The call has ended in an unknown way: this device could not be reached.
        case gone
        case failed(SignalingError)
    }

    /// The new state, the reason, and the call; for `idle` the call that has ended.
    public struct Change: Sendable {
        public let state: State
        public let reason: Reason
        public let call: BellwireCall?
    }

    /// The treatment of a call that rings while there is another call.
    public enum Busy: Sendable {
        /// The call is rejected with the reason `busy`.
        case reject
        /// The call rings on, and the app gets the call in `waitingCalls`.
        case tell
    }

    public struct Policies: Sendable {
        public var busy = Busy.reject
        /// The treatment of two users who call each other at the same time (docs/protocol.md, section 3, Glare).
        public var glare = GlarePolicy.merge
        /// A `common` call ends with the answer; an `advanced` call lives until a member ends the call.
        public var mode = CallMode.advanced

        public init() {}
    }
}
