/// The types of webhook events (docs/webhooks.md, Types).
package enum WebhookEventType: String, Sendable, CaseIterable {
    /// The first revision of a call.
    case callCreated = "call.created"
    /// The revision that ended a call; also the first revision, if the call ended with that.
    case callEnded = "call.ended"
    /// Every other revision of a call.
    case callUserStateChanged = "call.userStateChanged"
    case messageSent = "message.sent"
    /// A device of the recipient acked the message.
    case messageDelivered = "message.delivered"
    /// No device acked the message in time.
    case messageExpired = "message.expired"
}
