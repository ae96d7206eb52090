import CallCore

/// The consequence of an attempt to push.
package struct PushVerdict: Equatable, Sendable {
    package enum Step: Equatable, Sendable {
        /// The provider has accepted the push.
        case sent
        /// The token or the endpoint does not exist any more: the registration must end.
        case gone
        /// The provider refuses the push, and would refuse each further attempt.
        case refused
        /// A later attempt may succeed: after so many milliseconds, if the provider has named a time.
        case again(after: Milliseconds?)
        /// The push must be sent again at once, with `hasNewToken`.
        case newToken
        /// No byte of the request has left, because `handOverBefore` had passed. The push may be decided anew and sent
        /// again.
        case notHandedOver
    }

    package let step: Step
    /// The status of the response; nil without a response.
    package let status: Int?
    /// The reason that the provider or the sender gave, for operators. The text contains no token, and only the address
    /// of a URL.
    package let reason: String?

    package init(_ step: Step, status: Int? = nil, reason: String? = nil) {
        self.step = step
        self.status = status
        self.reason = reason
    }
}
