/// What follows from an attempt to hand an event over.
package enum Verdict: Equatable, Sendable {
    /// The endpoint has it.
    case taken
    /// The endpoint wants no more, ever: it is turned off until its URL changes or an operator turns it on.
    case gone
    /// It is tried again later.
    case again

    /// `status`: of the answer; nil when none came. A redirect is not followed, and so no success either.
    package init(status: Int?) {
        switch status {
        case .some(200...299): self = .taken
        case 410: self = .gone
        default: self = .again
        }
    }
}
