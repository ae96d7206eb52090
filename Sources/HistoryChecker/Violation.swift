import SignalingProtocol

/// Something that must never happen, told so that one can see why.
package struct Violation: Equatable, Sendable, CustomStringConvertible {
    /// Which invariant is broken.
    package enum Kind: String, Sendable, CaseIterable, Comparable {
        /// One revision of a call looked different to two readers.
        case twoFaces
        /// What was seen at an older revision came later, or something fixed changed: there is no one order.
        case disorder
        /// A member or the call moved in a way that section 3 of the protocol does not know.
        case illegalTransition
        /// A call contradicts itself within one revision.
        case inconsistentCall
        /// A webhook was missing, out of order, or came twice without a reason.
        case webhook
        /// A push was missing, came without a reason, or to somebody else.
        case push
        /// A call that had ended changed.
        case finalStateChanged
        /// A request was answered `ok`, but the call does not show it.
        case okNotReflected
        /// A request that came after somebody had seen a revision was answered from an older one.
        case staleView
        /// What somebody had seen is not known any more.
        case lostCall
        /// A request was refused because of something that was not so.
        case wrongRefusal
        /// More than one request won where only one can.
        case twoWinners
        /// A user was in two live advanced calls at once.
        case twoActiveCalls
        /// Both sides of a glare got a call of their own.
        case glareNotMerged
        /// More responses than copies of the request, or different outcomes.
        case answeredTwice
        /// A request whose way was clear got no answer.
        case unanswered
        /// An event that its receiver cannot have been owed.
        case wrongEvent
        /// A timer fired before its time or without its cause.
        case firedEarly
        /// A timer fired too late.
        case firedLate
        /// An invitation is still pending long after it expired.
        case neverEnded
        /// A device that is online does not know how its call stands.
        case notTold
        /// A device did not take over what it was told last.
        case notFollowed
        /// A phone went on ringing for a call that was over.
        case rangOn
        /// A peer message came that nobody sent, or one that was sent became two.
        case messageForged
        /// A peer message had two final states.
        case receiptContradicted
        /// A peer message has an outcome that is not the true one.
        case receiptWrong
        /// A peer message has no outcome, or its sender was not told.
        case receiptMissing

        package static func < (lhs: Self, rhs: Self) -> Bool { lhs.rawValue < rhs.rawValue }
    }

    package var kind: Kind
    package var callID: CallID?
    package var device: DeviceAddress?
    /// One sentence.
    package var what: String
    /// What happened around it, in order.
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
