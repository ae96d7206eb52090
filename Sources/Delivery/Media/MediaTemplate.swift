import SignalingProtocol

/// The placeholders in the templates of media settings.
enum MediaPlaceholder: String, CaseIterable {
    case callID, user, device, name, media, mode, inviter, room
}

/// A text with placeholders in braces (docs/media.md). `{{` stands for a brace, and a `}` outside of a placeholder for
/// itself.
struct MediaTemplate: Sendable, Equatable {
    private enum Part: Sendable, Equatable {
        case text(String)
        case placeholder(MediaPlaceholder)
    }

    private let parts: [Part]

    init(_ text: String, known: [MediaPlaceholder] = MediaPlaceholder.allCases) throws(SettingsError) {
        var parts: [Part] = []
        var literal: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "{") else {
                literal.append(byte)
                continue
            }
            if rest.first == UInt8(ascii: "{") {
                rest.removeFirst()
                literal.append(byte)
                continue
            }
            let end = rest.firstIndex(of: UInt8(ascii: "}"))
            let name = end.map { String(decoding: rest[..<$0], as: UTF8.self) }
            guard let end, let placeholder = known.first(where: { $0.rawValue == name }) else {
                let names = known.map { "{\($0.rawValue)}" }.joined(separator: ", ")
                throw SettingsError("unknown {…}; known are \(names), and {{ for a brace")
            }
            if !literal.isEmpty { parts.append(.text(String(decoding: literal, as: UTF8.self))) }
            literal = []
            parts.append(.placeholder(placeholder))
            rest = rest[(end + 1)...]
        }
        if !literal.isEmpty { parts.append(.text(String(decoding: literal, as: UTF8.self))) }
        self.parts = parts
    }

    func contains(_ placeholder: MediaPlaceholder) -> Bool { parts.contains(.placeholder(placeholder)) }

    func filled(_ value: (MediaPlaceholder) -> String) -> String {
        parts.map { part in
            switch part {
            case .text(let text): text
            case .placeholder(let placeholder): value(placeholder)
            }
        }.joined()
    }
}

/// A claim of a token as a template: the texts in the claim, at any depth, have placeholders.
indirect enum ClaimTemplate: Sendable, Equatable {
    case text(MediaTemplate)
    /// A number, true, false or null, as JSON.
    case constant([UInt8])
    case list([ClaimTemplate])
    case object([Field])

    struct Field: Sendable, Equatable {
        let name: String
        let value: ClaimTemplate
    }

    /// - Parameter place: the path of the claim in the settings file.
    init(_ value: JSONValue, at place: String) throws(SettingsError) {
        switch value {
        case .null: self = .constant(Array("null".utf8))
        case .bool(let value): self = .constant(Array("\(value)".utf8))
        case .int(let number): self = .constant(Array("\(number)".utf8))
        case .double(let number):
            guard number.isFinite else { throw SettingsError("\(place): a number out of range") }
            self = .constant(Array("\(number)".utf8))
        case .string(let text):
            do throws(SettingsError) {
                self = .text(try MediaTemplate(text))
            } catch {
                throw error.within(place)
            }
        case .array(let values):
            var list: [ClaimTemplate] = []
            for (index, value) in values.enumerated() { list.append(try Self(value, at: "\(place)[\(index)]")) }
            self = .list(list)
        case .object(let object):
            var fields: [Field] = []
            for field in object.fields {
                let inner = "\(place).\(shown(field.key))"
                guard !fields.contains(where: { $0.name.hasSameBytes(as: field.key) }) else {
                    throw SettingsError("\(inner): stands twice")
                }
                fields.append(Field(name: field.key, value: try Self(field.value, at: inner)))
            }
            self = .object(fields)
        }
    }

    /// Returns the filled-in claim as JSON.
    func json(_ value: (MediaPlaceholder) -> String) -> [UInt8] {
        switch self {
        case .constant(let bytes): return bytes
        case .text(let template):
            var writer = JSONWriter()
            writer.string(template.filled(value))
            return writer.bytes
        case .list(let list):
            return Array("[".utf8) + list.map { $0.json(value) }.joined(separator: Array(",".utf8)) + Array("]".utf8)
        case .object(let fields):
            return JSONWriter.object { writer in
                for field in fields { writer.field(named: field.name, field.value.json(value)[...]) }
            }
        }
    }
}
