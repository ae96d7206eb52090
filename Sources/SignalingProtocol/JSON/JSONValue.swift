/// A parsed JSON value. Numbers without fraction and exponent that fit are `int`; all others are `double`, which is
/// infinite for a number beyond its range, so that a range check refuses it by name.
package enum JSONValue: Equatable, Sendable {
    case null
    case bool(Bool)
    case int(Int64)
    case double(Double)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)
}

/// The fields of a JSON object in the order in which they stood. Of a key that stands twice, the last one counts.
package struct JSONObject: Equatable, Sendable {
    package struct Field: Equatable, Sendable {
        package let key: String
        package let value: JSONValue

        package init(key: String, value: JSONValue) {
            self.key = key
            self.value = value
        }
    }

    package private(set) var fields: [Field]

    package init(_ fields: [Field] = []) { self.fields = fields }

    /// The value of `key`; nil when it is absent or `null`: in a request both mean "not given" (section 2).
    package subscript(key: String) -> JSONValue? {
        let count = key.utf8.count
        // Most names differ in their length, which is compared much faster.
        guard let field = fields.last(where: { $0.key.utf8.count == count && $0.key == key }) else { return nil }
        if case .null = field.value { return nil }
        return field.value
    }
}

extension JSONValue {
    package var string: String? {
        if case .string(let value) = self { value } else { nil }
    }

    package var bool: Bool? {
        if case .bool(let value) = self { value } else { nil }
    }

    package var array: [JSONValue]? {
        if case .array(let value) = self { value } else { nil }
    }

    package var object: JSONObject? {
        if case .object(let value) = self { value } else { nil }
    }

    /// A whole number, also when it was written as `60.0` or `6e1`.
    package var integer: Int64? {
        switch self {
        case .int(let value): value
        case .double(let value): Int64(exactly: value)
        case .null, .bool, .string, .array, .object: nil
        }
    }
}
