import SignalingProtocol

extension PushShape {
    /// Reads the setting `shape` of an app: the name of a preset, or an object with a template for each platform.
    init(_ value: JSONValue, at place: String) throws(SettingsError) {
        if let name = value.string {
            guard let preset = Self.presets.first(where: { $0.name == name }) else {
                let known = Self.presets.map(\.name).joined(separator: ", ")
                throw SettingsError("\(place): \(shown(name)): expected \(known), or an object")
            }
            self = preset.shape
            return
        }
        let json = try SettingsObject(value, at: place, known: ["apnsVoIP", "apns", "fcm"])
        func template(_ key: String) throws(SettingsError) -> PushTemplate? {
            guard let value = json.value(key) else { return nil }
            return try PushTemplate(value, at: "\(place).\(key)")
        }
        self.init(apnsVoIP: try template("apnsVoIP"), apns: try template("apns"), fcm: try template("fcm"))
        for member in fcm?.members ?? [] where FCM.isReserved(member.name) {
            throw SettingsError("\(place).fcm.\(shown(member.name)): FCM keeps this name for itself")
        }
    }
}

extension PushTemplate {
    fileprivate init(_ value: JSONValue, at place: String) throws(SettingsError) {
        guard let json = value.object else { throw SettingsError("\(place): expected a JSON object") }
        let size = value.compact.count
        guard size <= Self.mostBytes else {
            throw SettingsError("\(place): \(size) bytes as compact JSON, over \(Self.mostBytes)")
        }
        self.init(try TemplateValue.members(json, at: place))
        for member in members where ["aps", "bellwire"].contains(member.name) {
            throw SettingsError("\(place).\(member.name): this member is Bellwire's own")
        }
    }
}

extension TemplateValue {
    fileprivate static func members(
        _ json: JSONObject, at place: String
    ) throws(SettingsError) -> [PushTemplate.Member] {
        var members: [PushTemplate.Member] = []
        for field in json.fields {
            let place = "\(place).\(shown(field.key))"
            guard !members.contains(where: { $0.name.hasSameBytes(as: field.key) }) else {
                throw SettingsError("\(place): stands twice")
            }
            members.append(PushTemplate.Member(field.key, try TemplateValue(field.value, at: place)))
        }
        return members
    }

    private init(_ value: JSONValue, at place: String) throws(SettingsError) {
        switch value {
        case .null, .bool, .int: self = .fixed(JSONText(parsed: value.compact[...]))
        case .double(let number):
            guard number.isFinite else { throw SettingsError("\(place): a number out of range") }
            self = .fixed(JSONText(parsed: value.compact[...]))
        case .string(let text): self = try Self.text(text, at: place)
        case .object(let object): self = .object(try Self.members(object, at: place))
        case .array(let array):
            var values: [TemplateValue] = []
            for (index, value) in array.enumerated() {
                values.append(try TemplateValue(value, at: "\(place)[\(index)]"))
            }
            self = .list(values)
        }
    }

    /// Reads a text with placeholders. `{{` stands for a single `{`, and a `}` outside a placeholder for itself.
    private static func text(_ text: String, at place: String) throws(SettingsError) -> TemplateValue {
        for placeholder in [Placeholder.isVideo, .type] where text == "{\(placeholder.rawValue)}" {
            return .media(placeholder)
        }
        var parts: [Part] = []
        var literal = ""
        var rest = text[...]
        while let brace = rest.firstIndex(of: "{") {
            literal += rest[..<brace]
            rest = rest[rest.index(after: brace)...]
            if rest.first == "{" {
                literal += "{"
                rest = rest.dropFirst()
                continue
            }
            guard let end = rest.firstIndex(of: "}"), let placeholder = Placeholder(rawValue: String(rest[..<end]))
            else {
                let known = Placeholder.allCases.map { "{\($0.rawValue)}" }.joined(separator: ", ")
                throw SettingsError("\(place): unknown {…}; known are \(known), and {{ for a brace")
            }
            if !literal.isEmpty { parts.append(.literal(literal)) }
            literal = ""
            parts.append(.placeholder(placeholder))
            rest = rest[rest.index(after: end)...]
        }
        literal += rest
        if !literal.isEmpty { parts.append(.literal(literal)) }
        return .text(parts)
    }
}

extension JSONValue {
    /// The value as JSON without spaces.
    fileprivate var compact: [UInt8] {
        var writer = JSONWriter()
        writer.value(self)
        return writer.bytes
    }
}

extension JSONWriter {
    fileprivate mutating func value(_ value: JSONValue) {
        switch value {
        case .null: text(JSONText(parsed: Array("null".utf8)[...]))
        case .bool(let isTrue): text(JSONText(parsed: Array((isTrue ? "true" : "false").utf8)[...]))
        case .int(let number): integer(number)
        case .double(let number): text(JSONText(parsed: Array("\(number)".utf8)[...]))
        case .string(let text): string(text)
        case .array(let values): array { writer in for value in values { writer.value(value) } }
        case .object(let object):
            self.object { writer in
                for field in object.fields { writer.field(named: field.key, field.value.compact[...]) }
            }
        }
    }
}
