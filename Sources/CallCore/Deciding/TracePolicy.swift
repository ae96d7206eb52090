import SignalingProtocol

/// The calls for which a timeline is kept (docs/protocol.md, section 6).
package enum TracePolicy: Sendable, Equatable {
    case all
    /// Only calls with an error have a timeline, including the earlier entries that this coordinator remembers.
    case errors
    /// A share of the calls, in ten-thousandths, has a timeline. All coordinators select the same calls.
    case share(perTenThousand: Int)
    case off

    /// Parses `all`, `errors`, `off`, or a percentage such as `5%` or `0.25%`; returns nil for another text.
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

    /// Whether the call may have a timeline, as far as this does not depend on later events.
    package func keeps(_ callID: CallID) -> Bool {
        switch self {
        case .all, .errors: true
        case .off: false
        // Every coordinator must select the same calls.
        case .share(let share): stableHash(callID.string.utf8) % 10_000 < UInt64(share)
        }
    }
}
