/// The fields of a JSON object with their values' bytes: of what is passed on as it came.
package struct JSONFields: Sendable {
    private let bytes: [UInt8]
    private let object: JSONObject
    private let ranges: [Range<Int>]

    /// Nil when `bytes` are JSON but no object.
    package init?(parsing bytes: [UInt8]) throws(JSONError) {
        let (value, ranges) = try JSONParser.parseMessage(bytes)
        guard let object = value.object else { return nil }
        self.bytes = bytes
        self.object = object
        self.ranges = ranges
    }

    /// As of a `JSONObject`.
    package subscript(key: String) -> JSONValue? { object[key] }

    /// Writes the fields but for those that are named.
    package func write(to writer: inout JSONWriter, but excluded: Set<String>) {
        for (place, field) in object.fields.enumerated() where !excluded.contains(field.key) {
            writer.field(named: field.key, bytes[ranges[place]])
        }
    }
}
