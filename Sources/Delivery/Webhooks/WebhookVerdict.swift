/// The consequence of an attempt to deliver a webhook event.
package enum WebhookVerdict: Equatable, Sendable {
    /// The endpoint has accepted the event.
    case taken
    /// The endpoint wants no more events: no event is sent until its URL changes or an operator turns the endpoint on.
    case gone
    /// A later attempt follows.
    case again

    /// - Parameter status: the status of the response; nil without a response. A redirect is not followed, and counts
    ///   as a failure.
    package init(status: Int?) {
        switch status {
        case .some(200...299): self = .taken
        case 410: self = .gone
        default: self = .again
        }
    }
}
