import CallCore

/// Something that an app's backend is told of: the same for all endpoints, and whenever it is sent.
package struct WebhookEvent: Equatable, Sendable {
    package let type: WebhookEventType
    /// `webhook-id`: no two events have the same one, and an event that is sent again keeps its own. At most 256 bytes of
    /// `A-Z a-z 0-9 _ - ~`: the specification forbids dots, since they part what is signed.
    package let id: String
    /// When it happened, by the service's clock: of a call the time of the revision.
    package let time: Milliseconds
    /// A JSON object.
    package let data: [UInt8]
}
