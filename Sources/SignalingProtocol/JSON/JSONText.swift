/// A JSON value as it stood in a message, byte for byte: what the service passes on without looking into it.
public struct JSONText: Equatable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]

    /// Nil when `bytes` are not one JSON value (docs/protocol.md, section 1, What is JSON).
    public init?(_ bytes: [UInt8]) {
        guard (try? JSONParser.parse(bytes)) != nil else { return nil }
        self.bytes = bytes
    }

    public init?(_ text: String) { self.init(Array(text.utf8)) }

    /// A JSON string.
    public init(string: String) {
        var writer = JSONWriter(capacity: string.utf8.count + 2)
        writer.string(string)
        bytes = writer.bytes
    }

    /// For bytes that the parser has accepted, or that `JSONWriter` made.
    package init(parsed bytes: ArraySlice<UInt8>) { self.bytes = Array(bytes) }

    /// The value as text.
    public var description: String { String(decoding: bytes, as: UTF8.self) }
}
