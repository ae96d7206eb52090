import SignalingProtocol

/// A notification for a user, as the server in ZEGO's document sends the notification
/// (docs/migrate/zego-call-server.md).
package struct ZegoNotification: Equatable, Sendable {
    package enum Path: String, Sendable, CaseIterable {
        case invited = "/call/notify_call_invited"
        case canceled = "/call/notify_call_canceled"
        case accept = "/call/notify_call_accept"
        case decline = "/call/notify_call_decline"
        case end = "/call/notify_call_end"
        case timeout = "/call/notify_timeout"
    }

    package let path: Path
    package let to: UserID
    /// The notification's body: a JSON object.
    package let body: [UInt8]

    private init(_ path: Path, to user: UserID, _ body: (inout JSONWriter) -> Void) {
        self.path = path
        to = user
        self.body = JSONWriter.object(body)
    }
}

extension ZegoNotification {
    /// Returns an invitation. The type stands under two names: the name in the document (`type`), and the name in the
    /// vendor's client (`call_type`).
    package static func invited(_ call: ZegoCall, to user: UserID) -> ZegoNotification {
        ZegoNotification(.invited, to: user) { writer in
            call.write(to: &writer)
            writer.field("type", call.kind.rawValue)
            writer.field("call_type", call.kind.rawValue)
        }
    }

    package static func canceled(_ call: ZegoCall, to user: UserID) -> ZegoNotification {
        ZegoNotification(.canceled, to: user) { writer in
            writer.field("call_id", call.id)
            writer.field("caller_id", call.caller.id)
            writer.field("callee_id", user.string)
        }
    }

    static func accept(_ call: ZegoCall, by callee: UserID, to user: UserID) -> ZegoNotification {
        ZegoNotification(.accept, to: user) { writer in
            writer.field("call_id", call.id)
            writer.field("callee_id", callee.string)
        }
    }

    static func decline(
        _ call: ZegoCall, by callee: UserID, as type: ZegoCall.Decline, to user: UserID
    ) -> ZegoNotification {
        ZegoNotification(.decline, to: user) { writer in
            writer.field("call_id", call.id)
            writer.field("callee_id", callee.string)
            writer.field("type", type.rawValue)
        }
    }

    static func end(_ call: ZegoCall, by user: UserID, to other: UserID) -> ZegoNotification {
        ZegoNotification(.end, to: other) { writer in
            writer.field("call_id", call.id)
            writer.field("id", user.string)
        }
    }

    static func timeout(_ call: ZegoCall, of user: UserID, to other: UserID) -> ZegoNotification {
        ZegoNotification(.timeout, to: other) { writer in
            writer.field("call_id", call.id)
            writer.field("id", user.string)
        }
    }
}
