import SignalingProtocol

/// A breach of the protocol, with the entries that explain the breach.
package struct Violation: Equatable, Sendable, CustomStringConvertible {
    /// The invariant that is broken.
    package enum Kind: String, Sendable, CaseIterable, Comparable {
        /// A revision of a call looked different to two readers.
        case twoFaces
        /// An older revision came later, or a fixed property changed: there is no single order of the revisions.
        case disorder
        /// A member or the call made a transition that section 3 of the protocol does not allow.
        case illegalTransition
        /// A call contradicts itself within one revision.
        case inconsistentCall
        /// A webhook event was missing, out of order, or came twice without a reason.
        case webhook
        /// The room of a call was not closed, or was closed while the call lived.
        case room
        /// A push was missing, came without a reason, or went to a wrong device.
        case push
        /// A call changed after its end.
        case finalStateChanged
        /// A request was answered `ok`, but the call does not show the request's effect.
        case okNotReflected
        /// A response was older than a revision that a device had seen before the request.
        case staleView
        /// A call that a device had seen is no longer known.
        case lostCall
        /// A request was refused for a reason that was not true.
        case wrongRefusal
        /// More than one request won a race that has a single winner.
        case twoWinners
        /// A user was in two live advanced calls at once.
        case twoActiveCalls
        /// Each of the two users of a glare got a call of its own.
        case glareNotMerged
        /// There were more responses than copies of the request, or different outcomes.
        case answeredTwice
        /// A request got no response, although there was no disturbance.
        case unanswered
        /// An event does not fit the state of its receiver.
        case wrongEvent
        /// A timer fired before its time or without its cause.
        case firedEarly
        /// A timer fired too late.
        case firedLate
        /// An invitation is still pending long after its expiry.
        case neverEnded
        /// An online device does not know the state of its call.
        case notTold
        /// A device did not apply the last received event.
        case notFollowed
        /// A phone went on ringing after the end of its invitation.
        case rangOn
        /// A device received a peer message that no device sent, or a single request made two messages.
        case messageForged
        /// A peer message had two final states.
        case receiptContradicted
        /// A peer message has a wrong outcome.
        case receiptWrong
        /// A peer message has no outcome, or its sender was not told the outcome.
        case receiptMissing

        package static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }
    }

    package var kind: Kind
    package var callID: CallID?
    package var device: DeviceAddress?
    /// A description of the fault in one sentence.
    package var what: String
    /// The entries around the fault, in order.
    package var entries: [HistoryEntry]

    package init(
        _ kind: Kind, callID: CallID? = nil, device: DeviceAddress? = nil, _ what: String,
        entries: [HistoryEntry] = []
    ) {
        self.kind = kind
        self.callID = callID
        self.device = device
        self.what = what
        self.entries = entries
    }

    package var description: String {
        let place = [callID.map { "call \($0)" }, device.map { "device \($0)" }].compactMap(\.self)
        let head = "\(kind.rawValue): \(what)" + (place.isEmpty ? "" : " (\(place.joined(separator: ", ")))")
        return ([head] + entries.map { "    \($0)" }).joined(separator: "\n")
    }
}
