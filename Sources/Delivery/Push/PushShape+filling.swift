import SignalingProtocol

/// The members of a template, filled in for a push.
struct FilledTemplate {
    let members: [(name: String, value: FilledValue)]

    /// - Parameter content: the content with all its texts, also where `bellwire` was shortened.
    init(_ template: PushTemplate, _ content: PushContent) {
        let values = TemplateFacts(content)
        members = template.members.map { ($0.name, $0.value.filled(values)) }
    }
}

/// A filled-in value.
enum FilledValue {
    case text(String)
    /// A value that is no string, as JSON.
    case json([UInt8])

    /// The value as JSON, for Apple.
    var json: [UInt8] {
        switch self {
        case .text(let text): JSONText(string: text).bytes
        case .json(let bytes): bytes
        }
    }

    /// The value as a string, since FCM's data has only strings.
    var text: String {
        switch self {
        case .text(let text): text
        case .json(let bytes): String(decoding: bytes, as: UTF8.self)
        }
    }
}

extension PushContent {
    /// Returns the content, and the members of the app's shape, shortened to `limit` bytes: first the content, then the
    /// texts of the shape, in the order of `trimmed`. A shape that still does not fit is left out.
    /// - Parameter size: returns the bytes that a content takes on a platform beside the members of a shape.
    func trimmed(
        to limit: Int, shape: PushTemplate?, _ size: (PushContent, FilledTemplate?) -> Int
    ) -> (content: PushContent, shape: FilledTemplate?) {
        guard let shape, shape.isFor(kind) else { return (trimmed(to: limit) { size($0, nil) }, nil) }
        let whole = FilledTemplate(shape, self)
        let content = trimmed(to: limit) { size($0, whole) }
        if size(content, whole) <= limit { return (content, whole) }
        let shortened = FilledTemplate(shape, trimmed(to: limit) { size(content, FilledTemplate(shape, $0)) })
        if size(content, shortened) <= limit { return (content, shortened) }
        return (trimmed(to: limit) { size($0, nil) }, nil)
    }
}

extension TemplateValue {
    fileprivate func filled(_ facts: TemplateFacts) -> FilledValue {
        switch self {
        case .text(let parts): .text(Self.text(parts, facts))
        default: .json(json(facts))
        }
    }

    private func json(_ facts: TemplateFacts) -> [UInt8] {
        switch self {
        case .fixed(let json): return json.bytes
        case .text(let parts): return JSONText(string: Self.text(parts, facts)).bytes
        case .media(let placeholder): return Array(facts.media(placeholder).utf8)
        case .list(let values):
            var writer = JSONWriter()
            writer.array { writer in
                for value in values { writer.text(JSONText(parsed: value.json(facts)[...])) }
            }
            return writer.bytes
        case .object(let members):
            return JSONWriter.object { writer in
                for member in members { writer.field(named: member.name, member.value.json(facts)[...]) }
            }
        }
    }

    /// Each placeholder is filled in once: placeholders in users' texts stay as they are.
    private static func text(_ parts: [Part], _ facts: TemplateFacts) -> String {
        var text = ""
        for part in parts {
            switch part {
            case .literal(let literal): text += literal
            case .placeholder(let placeholder): text += facts.text(placeholder)
            }
        }
        return text
    }
}

/// The values of the placeholders.
private struct TemplateFacts {
    let content: PushContent

    init(_ content: PushContent) { self.content = content }

    func text(_ placeholder: TemplateValue.Placeholder) -> String {
        switch placeholder {
        case .uuid: content.callID.map { uuidText(of: sha256(Array($0.string.utf8))) } ?? ""
        case .callID: content.callID?.string ?? ""
        case .kind: content.kind.rawValue
        case .inviter: inviter
        case .name: content.name ?? inviter
        case .avatarURL: content.avatarURL ?? ""
        case .media: content.media?.shown ?? "voice"
        case .title: content.title ?? ""
        case .body: content.body ?? ""
        case .payload: content.payload ?? ""
        case .expiresAt: String(content.expiresAt)
        case .expiresIn: String(content.expiresIn ?? 0)
        case .isVideo, .type: media(placeholder)
        }
    }

    /// The value of a string that is exactly `{isVideo}` or `{type}`: JSON that is no string.
    func media(_ placeholder: TemplateValue.Placeholder) -> String {
        let isVideo = content.media == "video"
        return placeholder == .type ? (isVideo ? "1" : "0") : (isVideo ? "true" : "false")
    }

    /// The user id as a phone may show it beside a call.
    private var inviter: String { content.inviter?.string.shownID ?? "" }
}
