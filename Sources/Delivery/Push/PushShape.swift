import CallCore
import SignalingProtocol

/// The shape of an app's pushes: members beside `bellwire` that the app's call plugin already reads
/// (docs/push-shapes.md). A platform without a template gets `bellwire` alone.
package struct PushShape: Equatable, Sendable {
    package var apnsVoIP: PushTemplate?
    package var apns: PushTemplate?
    package var fcm: PushTemplate?

    package init(apnsVoIP: PushTemplate? = nil, apns: PushTemplate? = nil, fcm: PushTemplate? = nil) {
        self.apnsVoIP = apnsVoIP
        self.apns = apns
        self.fcm = fcm
    }
}

/// The members that a platform's pushes get at their top level.
package struct PushTemplate: Equatable, Sendable {
    /// The bound of a template as compact JSON, in bytes.
    static let mostBytes = 1_024

    package struct Member: Equatable, Sendable {
        package let name: String
        package let value: TemplateValue

        package init(_ name: String, _ value: TemplateValue) {
            self.name = name
            self.value = value
        }
    }

    package let members: [Member]

    package init(_ members: [Member]) { self.members = members }

    /// Whether pushes of this kind get the members: a template without `{kind}` belongs to `ring` alone, since an app
    /// would show each push as a call.
    func isFor(_ kind: PushContent.Kind) -> Bool { kind == .ring || members.contains { $0.value.names(.kind) } }
}

/// A value of a template.
package indirect enum TemplateValue: Equatable, Sendable {
    /// A value without placeholders.
    case fixed(JSONText)
    case text([Part])
    /// A string that is exactly `{isVideo}` (a boolean) or `{type}` (a number).
    case media(Placeholder)
    case list([TemplateValue])
    case object([PushTemplate.Member])

    package enum Part: Equatable, Sendable {
        case literal(String)
        case placeholder(Placeholder)
    }

    package enum Placeholder: String, CaseIterable, Sendable {
        case uuid, callID, kind, inviter, name, avatarURL, media, title, body, payload, expiresAt, expiresIn
        case isVideo, type
    }

    func names(_ placeholder: Placeholder) -> Bool {
        switch self {
        case .fixed, .media: false
        case .text(let parts): parts.contains(.placeholder(placeholder))
        case .list(let values): values.contains { $0.names(placeholder) }
        case .object(let members): members.contains { $0.value.names(placeholder) }
        }
    }
}

extension PushShape {
    /// The members that the example apps of the plugins read.
    static let presets: [(name: String, shape: PushShape)] = [
        ("bellwire", PushShape()),
        ("flutter_callkit_incoming", flutterCallkitIncoming),
        // This preset serves apps that combine callkeep and react-native-voip-push-notification.
        ("callkeep", PushShape(apnsVoIP: callKeep, fcm: callKeep)),
    ]

    private static var flutterCallkitIncoming: PushShape {
        let members = [
            member("id", .uuid), member("nameCaller", .name), member("handle", .inviter),
            PushTemplate.Member("isVideo", .media(.isVideo)),
        ]
        let more = [
            member("avatar", .avatarURL), PushTemplate.Member("type", .media(.type)), member("duration", .expiresIn),
            PushTemplate.Member("extra", .object([member("callID", .callID)])),
        ]
        return PushShape(apnsVoIP: PushTemplate(members), fcm: PushTemplate(members + more))
    }

    private static var callKeep: PushTemplate {
        PushTemplate([
            member("uuid", .uuid), member("callerName", .name), member("handle", .inviter),
            PushTemplate.Member("hasVideo", .media(.isVideo)),
        ])
    }

    private static func member(_ name: String, _ placeholder: TemplateValue.Placeholder) -> PushTemplate.Member {
        PushTemplate.Member(name, .text([.placeholder(placeholder)]))
    }
}
