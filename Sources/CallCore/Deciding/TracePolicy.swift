import SignalingProtocol

/// Of which calls a timeline is kept (docs/protocol.md, section 6).
package enum TracePolicy: Sendable, Equatable {
    case all
    /// Of those in which something went wrong, with what this coordinator remembers of the time before.
    case errors
    /// Of so many calls in ten thousand, the same ones at every coordinator.
    case share(perTenThousand: Int)
    case off

    /// `all`, `errors`, `off`, or a percentage such as `5%` or `0.25%`; nil for anything else.
    package init?(_ text: String) {
        switch text {
        case "all": self = .all
        case "errors": self = .errors
        case "off": self = .off
        default:
            guard text.hasSuffix("%"), let percent = Double(text.dropLast()), (0...100).contains(percent) else {
                return nil
            }
            self = .share(perTenThousand: Int((percent * 100).rounded()))
        }
    }

    /// Whether there is a timeline of the call, as far as that does not depend on what happens.
    package func keeps(_ callID: CallID) -> Bool {
        switch self {
        case .all, .errors: true
        case .off: false
        // Every coordinator must pick the same calls.
        case .share(let share): stableHash(callID.string.utf8) % 10_000 < UInt64(share)
        }
    }
}
