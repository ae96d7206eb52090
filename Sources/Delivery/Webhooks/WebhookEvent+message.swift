import CallCore
import SignalingProtocol
import Tokens

extension WebhookEvent {
    /// What is told of a peer message in its present state: that it was sent, and later what became of it.
    ///
    /// Its id is `{messageID}~{sent|delivered|expired}~{recipient in base64url}~{when it was sent}`: a message is found by its
    /// recipient and its id, a user id is any text, and an id may be given again once its message is forgotten. `~` stands in none
    /// of the four, so that no two events share one; nor has a call's a `~`.
    ///
    /// A message that is withheld from its recipient is told like one that no device acked, as to its sender.
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
