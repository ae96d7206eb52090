import CallCore

/// What follows from an attempt to push.
package struct PushVerdict: Equatable, Sendable {
    package enum Step: Equatable, Sendable {
        /// The provider has it.
        case sent
        /// The token or the endpoint does not exist any more: the registration is to end.
        case gone
        /// The provider refuses it, and would again.
        case refused
        /// It may be tried again: after so many milliseconds, if the provider has said so.
        case again(after: Milliseconds?)
        /// It is to be tried again at once, with `hasNewToken`.
        case newToken
        /// Nothing of it has left: `handOverBefore` of its request was over. It may be judged anew and tried again.
        case notHandedOver
    }

    package let step: Step
    /// Of the answer; nil when none came.
    package let status: Int?
    /// For people: what the provider or the sender gave as the reason. It holds no token, and of a URL nothing but what an address is.
    package let reason: String?

    package init(_ step: Step, status: Int? = nil, reason: String? = nil) {
        self.step = step
        self.status = status
        self.reason = reason
    }
}
