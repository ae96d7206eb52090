import Glibc
import SignalingProtocol

/// An object of a settings file, strictly read: each mistake is reported with its place, as `endpoints[1].retryFor`, so
/// that no setting of an operator is silently ignored. `null` counts as left out.
package struct SettingsObject {
    private let json: JSONObject
    /// The path of this object in the file; empty for the whole file.
    private let place: String

    /// Throws when the value is no object, when a field is not in `known`, and when a field stands twice.
    package init(_ value: JSONValue, at place: String, known: [String]) throws(SettingsError) {
        guard case .object(let json) = value else {
            throw SettingsError(place.isEmpty ? "expected a JSON object" : "\(place): expected a JSON object")
        }
        self.json = json
        self.place = place
        var seen: Set<ByteString> = []
        for field in json.fields {
            guard known.contains(where: { $0.hasSameBytes(as: field.key) }) else {
                throw error(shown(field.key), "unknown field; \(Self.hint(field.key, known))")
            }
            guard seen.insert(ByteString(field.key)).inserted else { throw error(field.key, "stands twice") }
        }
    }

    private static func hint(_ key: String, _ known: [String]) -> String {
        if let meant = known.first(where: { $0.lowercased() == key.lowercased() }) { return "did you mean \(meant)?" }
        return "known are \(known.joined(separator: ", "))"
    }

    package func error(_ key: String, _ reason: String) -> SettingsError {
        SettingsError("\(place.isEmpty ? "" : place + ".")\(key): \(reason)")
    }

    /// Returns nil when the field is left out.
    package func value(_ key: String) -> JSONValue? { json[key] }

    package func string(_ key: String) throws(SettingsError) -> String? {
        guard let value = json[key] else { return nil }
        guard let text = value.string else { throw error(key, "expected a text in quotation marks") }
        return text
    }

    package func requiredString(_ key: String) throws(SettingsError) -> String {
        guard let text = try string(key) else { throw error(key, "missing") }
        return text
    }

    package func integer(
        _ key: String, in range: ClosedRange<Int>, default standard: Int, _ unit: String
    ) throws(SettingsError) -> Int {
        guard let value = json[key] else { return standard }
        guard let number = value.integer.flatMap({ Int(exactly: $0) }), range.contains(number) else {
            throw error(key, "expected a whole number of \(unit) from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// Returns a number with or without a fraction.
    package func number(
        _ key: String, in range: ClosedRange<Int>, default standard: Double, _ unit: String
    ) throws(SettingsError) -> Double {
        guard let value = json[key] else { return standard }
        let number: Double? =
            switch value {
            case .int(let whole): Double(whole)
            case .double(let number): number
            default: nil
            }
        guard let number, (Double(range.lowerBound)...Double(range.upperBound)).contains(number) else {
            throw error(key, "expected a number of \(unit) from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// Returns nil when the field is left out.
    package func list(_ key: String) throws(SettingsError) -> [JSONValue]? {
        guard let value = json[key] else { return nil }
        guard let list = value.array else { throw error(key, "expected a list in square brackets") }
        return list
    }

    /// Returns nil when the field is left out.
    package func strings(_ key: String) throws(SettingsError) -> [String]? {
        guard let list = try list(key) else { return nil }
        var strings: [String] = []
        for (index, value) in list.enumerated() {
            guard let text = value.string else {
                throw error("\(key)[\(index)]", "expected a text in quotation marks")
            }
            strings.append(text)
        }
        return strings
    }

    /// Returns an object inside this object; nil when the field is left out.
    package func object(_ key: String, known: [String]) throws(SettingsError) -> SettingsObject? {
        guard let value = json[key] else { return nil }
        return try SettingsObject(value, at: place.isEmpty ? key : "\(place).\(key)", known: known)
    }

    /// Returns the fields, in their order, of an object with field names that the operator chooses; nil when the field
    /// is left out.
    package func named(_ key: String) throws(SettingsError) -> [(name: String, value: JSONValue)]? {
        guard let value = json[key] else { return nil }
        guard let object = value.object else { throw error(key, "expected a JSON object") }
        var seen: Set<ByteString> = []
        for field in object.fields where !seen.insert(ByteString(field.key)).inserted {
            throw error("\(key).\(shown(field.key))", "stands twice")
        }
        return object.fields.map { ($0.key, $0.value) }
    }

    /// Returns the path of a readable file, relative to the file at `settings`; nil when the field is left out.
    package func file(_ key: String, besides settings: String) throws(SettingsError) -> String? {
        guard let text = try string(key) else { return nil }
        let file = resolve(text, besides: settings)
        guard access(file, R_OK) == 0 else {
            throw error(key, "\(shown(file)): \(String(cString: strerror(errno)))")
        }
        return file
    }
}

/// Returns an operator's text in a form that fits one line of a terminal: at most 64 characters, without characters
/// that move the cursor.
package func shown(_ text: String) -> String {
    if isToken(text) { return text }
    let isLong = text.unicodeScalars.count > 64
    var start = String.UnicodeScalarView()
    for scalar in text.unicodeScalars.prefix(64) {
        start.append(scalar.properties.generalCategory == .control ? "?" : scalar)
    }
    return "\"\(String(start))\(isLong ? "…" : "")\""
}
