/// A parsed JSON value. A number without fraction and exponent that fits in 64 bits is `int`; every other number is
/// `double`. A number beyond the range of `double` is infinite, so that the field's range check refuses the number and
/// names the field.
package enum JSONValue: Equatable, Sendable {
    case null
    case bool(Bool)
    case int(Int64)
    case double(Double)
    case string(String)
    case array([JSONValue])
    case object(JSONObject)
}

/// The fields of a JSON object in their order. When an object has a key twice, the last value counts.
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

    /// The value of `key`; nil when the value is absent or `null`. In a request both mean "not given" (section 2).
    package subscript(key: String) -> JSONValue? {
        let count = key.utf8.count
        // Most names differ in their length, and lengths are compared much faster than texts.
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

    /// A whole number, also in the spellings `60.0` and `6e1`; nil for any other value.
    package var integer: Int64? {
        switch self {
        case .int(let value): value
        case .double(let value): Int64(exactly: value)
        case .null, .bool, .string, .array, .object: nil
        }
    }
}
