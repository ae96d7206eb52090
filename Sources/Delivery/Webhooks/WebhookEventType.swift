/// What an app's backend is told (docs/webhooks.md, Types).
package enum WebhookEventType: String, Sendable, CaseIterable {
    /// A call began: its first revision.
    case callCreated = "call.created"
    /// The revision with which a call ended, its first one included.
    case callEnded = "call.ended"
    /// Every other revision of a call.
    case callUserStateChanged = "call.userStateChanged"
    case messageSent = "message.sent"
    /// A device of the recipient acked it.
    case messageDelivered = "message.delivered"
    /// No device acked it in time.
    case messageExpired = "message.expired"
}
