import CallCore
import SignalingProtocol

/// How an endpoint wants its events.
package enum WebhookFormat: String, Sendable, CaseIterable {
    /// As the Standard Webhooks specification recommends it.
    case standard
    /// CloudEvents 1.0 as JSON, in structured mode.
    case cloudEvents = "cloudevents"
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
}
