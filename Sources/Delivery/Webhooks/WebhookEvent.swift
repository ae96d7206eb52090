import CallCore

/// An event for an app's backend, identical for all endpoints and in each attempt.
package struct WebhookEvent: Equatable, Sendable {
    package let type: WebhookEventType
    /// The header `webhook-id`: unique for each event, and unchanged when the event is sent again. At most 256 bytes of
    /// `A-Z a-z 0-9 _ - ~`; the specification forbids dots, because dots separate the signed parts.
    package let id: String
    /// The time of the event, by the service's clock; for a call the creation time of the revision.
    package let time: Milliseconds
    /// A JSON object.
    package let data: [UInt8]
}

extension DeadLetter {
    /// The webhook id; nil when this version cannot read the record.
    package var webhookID: String? { WebhookEvent(stored: record, id)?.id }
}
