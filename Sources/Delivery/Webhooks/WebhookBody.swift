import CallCore
import SignalingProtocol
import ZegoCallProtocol

/// How an endpoint wants its events.
package enum WebhookFormat: String, Sendable, CaseIterable {
    /// As the Standard Webhooks specification recommends it.
    case standard
    /// CloudEvents 1.0 as JSON, in structured mode.
    case cloudEvents = "cloudevents"
    /// The notifications of ZEGO Call's business-server protocol.
    case zegoCall = "zegocall"

    /// Whether there is anything to tell of the event.
    package func tells(_ event: WebhookEvent) -> Bool {
        switch self {
        case .standard, .cloudEvents: true
        case .zegoCall: !event.zegoNotifications.isEmpty
        }
    }
}

/// What a request carries: the same bytes whenever an event is sent.
package struct WebhookBody: Equatable, Sendable {
    package let contentType: String
    package let bytes: [UInt8]

    /// `source` of CloudEvents, which together with `id` names an event. Ids are unique in a deployment, and an endpoint that
    /// serves two of them tells them apart by its URL or its secret.
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

    /// One revision of a call may be told to several users, in several ways.
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
    /// Of a call; a peer message is none of that protocol's.
    fileprivate var zegoNotifications: [ZegoNotification] {
        guard let json = (try? JSONParser.parse(data))?.object,
            let call = json["call"]?.object.flatMap(CallSnapshot.init(json:))
        else { return [] }
        let changes = json["changes"]?.array?.compactMap { $0.object.flatMap(MemberChange.init(json:)) } ?? []
        return ZegoNotification.told(of: call, changes.filter { isNews($0, call) })
    }

    /// Who stays accepted stands among the changes as well: having moved to another device, or ended the call with a reason.
    private func isNews(_ change: MemberChange, _ call: CallSnapshot) -> Bool {
        guard change.state == .accepted else { return true }
        return call.endReason != .hangup && call.member(change.userID)?.updatedAt == time
    }
}
