/// The fields of a JSON object with the bytes of their values, for objects that the service passes on unchanged.
package struct JSONFields: Sendable {
    private let bytes: [UInt8]
    private let object: JSONObject
    private let ranges: [Range<Int>]

    /// Nil when `bytes` are JSON but not an object. Throws when `bytes` are not JSON.
    package init?(parsing bytes: [UInt8]) throws(JSONError) {
        let (value, ranges) = try JSONParser.parseMessage(bytes)
        guard let object = value.object else { return nil }
        self.bytes = bytes
        self.object = object
        self.ranges = ranges
    }

    /// The value of `key`, as in `JSONObject`.
    package subscript(key: String) -> JSONValue? { object[key] }

    /// Writes all fields except the `excluded` names.
    package func write(to writer: inout JSONWriter, but excluded: Set<String>) {
        for (place, field) in object.fields.enumerated() where !excluded.contains(field.key) {
            writer.field(named: field.key, bytes[ranges[place]])
        }
    }
}
