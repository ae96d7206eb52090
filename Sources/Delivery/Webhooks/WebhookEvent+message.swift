import CallCore
import SignalingProtocol
import Tokens

extension WebhookEvent {
    /// Makes the event for a peer message in its present state: sent, delivered or expired.
    ///
    /// The event's id is `{messageID}~{sent|delivered|expired}~{recipient in base64url}~{when it was sent}`. All four
    /// parts are needed: a message is identified by its recipient and its id, a user id is any text, and a sender may
    /// use a message id again after the message is forgotten. None of the parts, and no id of a call's event, contains
    /// `~`, so that no two events share an id.
    ///
    /// A message that is withheld from its recipient appears like a message that no device acked, as for its sender.
    package init(message: PeerMessage) {
        let state = message.state
        let recipient = Base64URL.encode(Array(message.to.string.utf8))
        self.init(
            type: WebhookEventType(state),
            id: "\(message.messageID)~\(state.rawValue)~\(recipient)~\(message.createdAt)",
            time: message.finishedAt ?? message.createdAt,
            data: JSONWriter.object { writer in
                writer.field("messageID", message.messageID.string)
                writer.field("from", message.origin.device.userID.string)
                writer.field("to", message.to.string)
                if state == .sent { writer.field("data", message.data) }
            })
    }
}

extension WebhookEventType {
    fileprivate init(_ state: MessageState) {
        switch state {
        case .sent: self = .messageSent
        case .delivered: self = .messageDelivered
        case .expired: self = .messageExpired
        }
    }
}
