import SignalingProtocol

extension CallManager {
    public enum State: Sendable, Equatable {
        /// No call. Can transition to `calling` and `ringing`.
        case idle
        /// This user calls and nobody has answered. Can transition to `connecting` and `idle`.
        case calling
        /// Somebody calls. Can transition to `connecting` and `idle`.
        case ringing
        /// Answered; the media is being set up. Can transition to `connected` and `idle`.
        case connecting
        /// The app has said that the media flows. Can transition to `idle`.
        case connected
    }

    /// Why the state is another one.
    public enum Reason: Sendable, Equatable {
        case localCall, remoteCall
        case localAccepted, remoteAccepted
        case localRejected, remoteRejected
        /// The other side is in another call.
        case remoteBusy
        /// This user was in another call, on whatever device.
        case localBusy
        case localCancelled, remoteCancelled
        case localHangup, remoteHangup
        /// Nobody answered in time.
        case timeout
        /// Another device of this user answered, or took the call over.
        case handledElsewhere
        /// The media flows: `mediaConnected()`.
        case mediaConnected
        /// The other side was not heard of for too long.
        case remoteLost
        /// The call is over, and how is not known: this device could not be reached.
        case gone
        case failed(SignalingError)
    }

    /// The state, why it is so, and the call that it is about: of `idle` the one that is over.
    public struct Change: Sendable {
        public let state: State
        public let reason: Reason
        public let call: Call?
    }

    /// What happens to a call that rings while there is one.
    public enum Busy: Sendable {
        /// It is rejected with the reason `busy`.
        case reject
        /// It rings on, and the app is told by `waitingCalls`.
        case tell
    }

    public struct Policies: Sendable {
        public var busy = Busy.reject
        /// What becomes of two people who call each other at the same moment (docs/protocol.md, section 3, Glare).
        public var glare = GlarePolicy.merge
        /// `common` ends with the answer, `advanced` lives until somebody ends it.
        public var mode = CallMode.advanced

        public init() {}
    }
}
