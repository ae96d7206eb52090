import CallCore
import SignalingProtocol
import ZegoCallProtocol

/// The format of an endpoint's events.
package enum WebhookFormat: String, Sendable, CaseIterable {
    /// The format that the Standard Webhooks specification recommends.
    case standard
    /// CloudEvents 1.0 as JSON, in structured mode.
    case cloudEvents = "cloudevents"
    /// The notifications of ZEGO Call's business-server protocol.
    case zegoCall = "zegocall"

    /// Whether the event has any content in this format.
    package func tells(_ event: WebhookEvent) -> Bool {
        switch self {
        case .standard, .cloudEvents: true
        case .zegoCall: !event.zegoNotifications.isEmpty
        }
    }
}

/// The body of a request, identical in each attempt for an event.
package struct WebhookBody: Equatable, Sendable {
    package let contentType: String
    package let bytes: [UInt8]

    /// The `source` of CloudEvents; together with `id`, this value identifies an event. Ids are unique within a
    /// deployment; an endpoint of two deployments distinguishes the deployments by its URL or its secret.
    package static let source = "bellwire"

    package init(_ event: WebhookEvent, format: WebhookFormat) {
        switch format {
        case .standard:
            contentType = "application/json"
            bytes = Self.standard(event)
        case .cloudEvents:
            contentType = "application/cloudevents+json"
            bytes = Self.cloudEvent(event)
        case .zegoCall:
            contentType = "application/json"
            bytes = Self.zegoCall(event)
        }
    }

    private static func standard(_ event: WebhookEvent) -> [UInt8] {
        JSONWriter.object(capacity: event.data.count + 128) { writer in
            writer.field("type", event.type.rawValue)
            writer.field("timestamp", timestamp(event.time))
            writer.field("data", JSONText(parsed: event.data[...]))
        }
    }

    private static func cloudEvent(_ event: WebhookEvent) -> [UInt8] {
        JSONWriter.object(capacity: event.data.count + 384) { writer in
            writer.field("specversion", "1.0")
            writer.field("id", event.id)
            writer.field("source", source)
            writer.field("type", event.type.rawValue)
            writer.field("time", timestamp(event.time))
            writer.field("datacontenttype", "application/json")
            writer.field("data", JSONText(parsed: event.data[...]))
        }
    }

    /// A revision of a call may produce several notifications, to several users.
    private static func zegoCall(_ event: WebhookEvent) -> [UInt8] {
        JSONWriter.object { writer in
            writer.array("notifications") { writer in
                for notification in event.zegoNotifications {
                    writer.object { writer in
                        writer.field("path", notification.path.rawValue)
                        writer.field("to", notification.to.string)
                        writer.field("body", JSONText(parsed: notification.body[...]))
                    }
                }
            }
        }
    }
}

extension WebhookEvent {
    /// The ZEGO Call notifications of a call's event; none for a peer message, because that protocol has no peer
    /// messages.
    fileprivate var zegoNotifications: [ZegoNotification] {
        guard let json = (try? JSONParser.parse(data))?.object,
            let call = json["call"]?.object.flatMap(CallSnapshot.init(json:))
        else { return [] }
        let changes = json["changes"]?.array?.compactMap { $0.object.flatMap(MemberChange.init(json:)) } ?? []
        return ZegoNotification.told(of: call, changes.filter { isNews($0, call) })
    }

    /// Whether the change is news in ZEGO Call. The changes also contain a member who stays accepted, after a move to
    /// another device or after ending the call with a reason; these are no news.
    private func isNews(_ change: MemberChange, _ call: CallSnapshot) -> Bool {
        guard change.state == .accepted else { return true }
        return call.endReason != .hangup && call.member(change.userID)?.updatedAt == time
    }
}
