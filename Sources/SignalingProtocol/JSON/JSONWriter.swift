/// Writes JSON into a byte buffer. Values without a field name are elements of the enclosing array.
package struct JSONWriter {
    private var buffer: ByteBuffer
    private var needsComma = false

    package init(capacity: Int = 512) { buffer = ByteBuffer(capacity: capacity) }

    /// The bytes that have been written.
    package var bytes: [UInt8] { buffer.bytes }

    /// Returns the bytes of an object; `body` writes the object's fields.
    package static func object(capacity: Int = 512, _ body: (inout JSONWriter) -> Void) -> [UInt8] {
        var writer = JSONWriter(capacity: capacity)
        writer.object(body)
        return writer.bytes
    }

    package mutating func object(_ body: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "{"))
        body(&self)
        close(UInt8(ascii: "}"))
    }

    package mutating func array(_ body: (inout JSONWriter) -> Void) {
        open(UInt8(ascii: "["))
        body(&self)
        close(UInt8(ascii: "]"))
    }

    package mutating func object(_ key: StaticString, _ body: (inout JSONWriter) -> Void) {
        name(key)
        object(body)
    }

    package mutating func array(_ key: StaticString, _ body: (inout JSONWriter) -> Void) {
        name(key)
        array(body)
    }

    /// Writes a field. Nil writes no field: null fields are left out (docs/protocol.md, section 4).
    package mutating func field(_ key: StaticString, _ value: String?) {
        guard let value else { return }
        name(key)
        string(value)
    }

    package mutating func field(_ key: StaticString, _ value: Int?) { field(key, value.map(Int64.init)) }

    package mutating func field(_ key: StaticString, _ value: Int64?) {
        guard let value else { return }
        name(key)
        integer(value)
    }

    package mutating func field(_ key: StaticString, _ value: Bool?) {
        guard let value else { return }
        name(key)
        separate()
        raw(value ? "true" : "false")
        needsComma = true
    }

    package mutating func field(_ key: StaticString, _ value: JSONText?) {
        guard let value else { return }
        name(key)
        text(value)
    }

    /// Writes the bytes of `value` unchanged.
    package mutating func text(_ value: JSONText) {
        separate()
        buffer.append(value.bytes)
        needsComma = true
    }

    /// Writes a field with a name that is not known in advance.
    package mutating func field(named key: String, _ value: Int64) {
        string(key)
        buffer.append(UInt8(ascii: ":"))
        needsComma = false
        integer(value)
    }

    /// Writes a field with a name that is not known in advance.
    package mutating func field(named key: String, _ value: String) {
        string(key)
        buffer.append(UInt8(ascii: ":"))
        needsComma = false
        string(value)
    }

    /// Writes a field with a name that is not known in advance; the bytes of its value are unchanged.
    package mutating func field(named key: String, _ value: ArraySlice<UInt8>) {
        string(key)
        buffer.append(UInt8(ascii: ":"))
        value.withUnsafeBufferPointer { buffer.append($0) }
        needsComma = true
    }

    package mutating func string(_ value: String) {
        separate()
        var value = value
        value.withUTF8 { text in
            if text.contains(where: Self.mustBeEscaped) {
                buffer.append(UInt8(ascii: "\""))
                for byte in text { escaped(byte) }
                buffer.append(UInt8(ascii: "\""))
            } else {
                buffer.extend(by: text.count + 2) { place in
                    place[0] = UInt8(ascii: "\"")
                    if let start = text.baseAddress { (place + 1).initialize(from: start, count: text.count) }
                    place[text.count + 1] = UInt8(ascii: "\"")
                }
            }
        }
        needsComma = true
    }

    private static func mustBeEscaped(_ byte: UInt8) -> Bool {
        byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\")
    }

    package mutating func integer(_ value: Int64) {
        separate()
        if value < 0 { buffer.append(UInt8(ascii: "-")) }
        buffer.append(digitsOf: value.magnitude)
        needsComma = true
    }

    private mutating func name(_ key: StaticString) {
        separate()
        let length = key.utf8CodeUnitCount
        buffer.extend(by: length + 3) { place in
            place[0] = UInt8(ascii: "\"")
            (place + 1).initialize(from: key.utf8Start, count: length)
            place[length + 1] = UInt8(ascii: "\"")
            place[length + 2] = UInt8(ascii: ":")
        }
        needsComma = false
    }

    private mutating func raw(_ text: StaticString) { buffer.append(text) }

    private mutating func separate() {
        if needsComma { buffer.append(UInt8(ascii: ",")) }
    }

    private mutating func open(_ bracket: UInt8) {
        separate()
        buffer.append(bracket)
        needsComma = false
    }

    private mutating func close(_ bracket: UInt8) {
        buffer.append(bracket)
        needsComma = true
    }

    private mutating func escaped(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            buffer.append(UInt8(ascii: "\\"))
            buffer.append(byte)
        case 0x0A: raw("\\n")
        case 0x0D: raw("\\r")
        case 0x09: raw("\\t")
        case 0x00...0x1F:
            raw("\\u00")
            buffer.append(UInt8(ascii: "0") + byte >> 4)
            let low = byte & 15
            buffer.append(low < 10 ? UInt8(ascii: "0") + low : UInt8(ascii: "a") + low - 10)
        default: buffer.append(byte)
        }
    }
}
