/// The bytes of a JSON value in a message. The service passes the bytes on without interpreting them.
public struct JSONText: Equatable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]

    /// Nil when `bytes` are not a single JSON value (docs/protocol.md, section 1, What is JSON).
    public init?(_ bytes: [UInt8]) {
        guard (try? JSONParser.parse(bytes)) != nil else { return nil }
        self.bytes = bytes
    }

    public init?(_ text: String) { self.init(Array(text.utf8)) }

    /// A JSON string with the content `string`.
    public init(string: String) {
        var writer = JSONWriter(capacity: string.utf8.count + 2)
        writer.string(string)
        bytes = writer.bytes
    }

    /// Takes bytes that the parser has accepted or that `JSONWriter` has made, without a check.
    package init(parsed bytes: ArraySlice<UInt8>) { self.bytes = Array(bytes) }

    /// The value as text.
    public var description: String { String(decoding: bytes, as: UTF8.self) }
}
