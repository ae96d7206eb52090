/// The reason why bytes are not JSON, and the place.
package struct JSONError: Error, Equatable, Sendable, CustomStringConvertible {
    package let reason: String
    /// The offset in bytes.
    package let offset: Int

    package var description: String { "\(reason) at byte \(offset)" }
}

/// A strict RFC 8259 parser over bytes. The parser costs about a tenth of Foundation's parser; the cost matters because
/// every message passes through this parser.
///
/// The parser refuses invalid UTF-8, lone surrogates, a byte order mark, any content after the value, and more than
/// `maxDepth` levels.
package struct JSONParser {
    /// The parser refuses deeper nesting, so that no input can exhaust the stack.
    package static let maxDepth = 64

    private let bytes: UnsafeBufferPointer<UInt8>
    private var at = 0
    /// The levels around the next value, while a document is read field by field.
    private var depth = 0
    /// The byte ranges of the values of the outermost object's fields.
    private var fieldRanges: [Range<Int>] = []

    package static func parse(_ bytes: [UInt8]) throws(JSONError) -> JSONValue { try parseMessage(bytes).value }

    /// Also returns the byte ranges of the values of the outermost object's fields, in the order of the fields. The
    /// service passes values on as exact copies of these ranges.
    static func parseMessage(_ bytes: [UInt8]) throws(JSONError) -> (value: JSONValue, fieldRanges: [Range<Int>]) {
        let result: Result<(JSONValue, [Range<Int>]), JSONError> = bytes.withUnsafeBufferPointer { buffer in
            do throws(JSONError) {
                return .success(try parseMessage(buffer))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    /// Parses bytes that the caller owns.
    package static func parse(_ bytes: UnsafeBufferPointer<UInt8>) throws(JSONError) -> JSONValue {
        try parseMessage(bytes).0
    }

    private static func parseMessage(
        _ bytes: UnsafeBufferPointer<UInt8>
    ) throws(JSONError) -> (JSONValue, [Range<Int>]) {
        var parser = JSONParser(bytes: bytes)
        return (try parser.document(), parser.fieldRanges)
    }

    private init(bytes: UnsafeBufferPointer<UInt8>) { self.bytes = bytes }

    private mutating func document() throws(JSONError) -> JSONValue {
        let value = try value(depth: 0)
        skipWhitespace()
        guard at == bytes.count else { throw error("unexpected content after the value") }
        return value
    }

    private func error(_ reason: String) -> JSONError { JSONError(reason: reason, offset: at) }

    private var current: UInt8? { at < bytes.count ? bytes[at] : nil }

    private mutating func skipWhitespace() {
        while at < bytes.count {
            switch bytes[at] {
            case 0x20, 0x0A, 0x0D, 0x09: at += 1
            default: return
            }
        }
    }

    private mutating func value(depth: Int) throws(JSONError) -> JSONValue {
        skipWhitespace()
        guard let byte = current else { throw error("unexpected end") }
        switch byte {
        case UInt8(ascii: "{"): return .object(try object(depth: depth + 1))
        case UInt8(ascii: "["): return .array(try array(depth: depth + 1))
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try literal("true", .bool(true))
        case UInt8(ascii: "f"): return try literal("false", .bool(false))
        case UInt8(ascii: "n"): return try literal("null", .null)
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return try number()
        default: throw error("unexpected character")
        }
    }

    private mutating func literal(_ text: StaticString, _ value: JSONValue) throws(JSONError) -> JSONValue {
        let count = text.utf8CodeUnitCount
        guard at + count <= bytes.count else { throw error("unexpected end") }
        for index in 0..<count where bytes[at + index] != text.utf8Start[index] { throw error("unexpected character") }
        at += count
        return value
    }

    private mutating func object(depth: Int) throws(JSONError) -> JSONObject {
        try open(depth)
        var fields: [JSONObject.Field] = []
        while try hasNext(isFirst: fields.isEmpty, end: UInt8(ascii: "}")) {
            if fields.isEmpty { fields.reserveCapacity(8) }
            skipWhitespace()
            guard current == UInt8(ascii: "\"") else { throw error("expected a field name") }
            let key = try string()
            try colon()
            skipWhitespace()
            let start = at
            fields.append(.init(key: key, value: try value(depth: depth)))
            if depth == 1 { fieldRanges.append(start..<at) }
        }
        return JSONObject(fields)
    }

    private mutating func array(depth: Int) throws(JSONError) -> [JSONValue] {
        try open(depth)
        var values: [JSONValue] = []
        while try hasNext(isFirst: values.isEmpty, end: UInt8(ascii: "]")) { values.append(try value(depth: depth)) }
        return values
    }

    /// Takes the first byte of an object or array.
    private mutating func open(_ depth: Int) throws(JSONError) {
        guard depth <= Self.maxDepth else { throw error("nested deeper than \(Self.maxDepth) levels") }
        at += 1
    }

    /// Takes the comma before the next element of an object or array. Returns false after the last element, whose `end`
    /// is then taken.
    private mutating func hasNext(isFirst: Bool, end: UInt8) throws(JSONError) -> Bool {
        skipWhitespace()
        if current == end {
            at += 1
            return false
        }
        if isFirst { return true }
        guard current == UInt8(ascii: ",") else { throw error("expected ',' or '\(Character(Unicode.Scalar(end)))'") }
        at += 1
        return true
    }

    private mutating func colon() throws(JSONError) {
        skipWhitespace()
        guard current == UInt8(ascii: ":") else { throw error("expected ':'") }
        at += 1
    }

    private mutating func number() throws(JSONError) -> JSONValue {
        let start = at
        var isInteger = true
        if current == UInt8(ascii: "-") { at += 1 }
        if current == UInt8(ascii: "0") {
            at += 1
        } else {
            try digits()
        }
        if current == UInt8(ascii: ".") {
            isInteger = false
            at += 1
            try digits()
        }
        if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
            isInteger = false
            at += 1
            if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { at += 1 }
            try digits()
        }
        if isInteger, let value = integer(bytes[start..<at]) { return .int(value) }
        // `Double` gives ±infinity beyond its range; every field's range check refuses infinity.
        guard let value = Double(String(decoding: bytes[start..<at], as: UTF8.self)) else {
            throw error("not a number")
        }
        return .double(value)
    }

    /// Nil when the number does not fit in 64 bits.
    private func integer(_ digits: Slice<UnsafeBufferPointer<UInt8>>) -> Int64? {
        var value: Int64 = 0
        let isNegative = digits.first == UInt8(ascii: "-")
        for byte in isNegative ? digits.dropFirst() : digits {
            let digit = Int64(byte - UInt8(ascii: "0"))
            let (product, overflow) = value.multipliedReportingOverflow(by: 10)
            let (sum, carry) =
                isNegative ? product.subtractingReportingOverflow(digit) : product.addingReportingOverflow(digit)
            if overflow || carry { return nil }
            value = sum
        }
        return value
    }

    private mutating func digits() throws(JSONError) {
        let start = at
        while let byte = current, (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) { at += 1 }
        guard at > start else { throw error("expected a digit") }
    }

    private mutating func string() throws(JSONError) -> String {
        at += 1
        let start = at
        while at < bytes.count {
            let byte = bytes[at]
            switch byte {
            case UInt8(ascii: "\""):
                defer { at += 1 }
                return try text(UnsafeBufferPointer(rebasing: bytes[start..<at]))
            case UInt8(ascii: "\\"):
                return try escapedString(from: start)
            case 0x00...0x1F: throw error("control character in a string")
            default:
                at += 1
            }
        }
        throw error("string without an end")
    }

    private func text(_ bytes: UnsafeBufferPointer<UInt8>) throws(JSONError) -> String {
        guard let text = String(validUTF8: bytes) else { throw error("invalid UTF-8") }
        return text
    }

    private mutating func escapedString(from start: Int) throws(JSONError) -> String {
        var out = Array(bytes[start..<at])
        while at < bytes.count {
            let byte = bytes[at]
            switch byte {
            case UInt8(ascii: "\""):
                defer { at += 1 }
                let result: Result<String, JSONError> = out.withUnsafeBufferPointer { out in
                    do throws(JSONError) { return .success(try text(out)) } catch { return .failure(error) }
                }
                return try result.get()
            case UInt8(ascii: "\\"):
                at += 1
                try escape(into: &out)
            case 0x00...0x1F: throw error("control character in a string")
            default:
                out.append(byte)
                at += 1
            }
        }
        throw error("string without an end")
    }

    private mutating func escape(into out: inout [UInt8]) throws(JSONError) {
        guard let byte = current else { throw error("string without an end") }
        at += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): out.append(byte)
        case UInt8(ascii: "b"): out.append(0x08)
        case UInt8(ascii: "f"): out.append(0x0C)
        case UInt8(ascii: "n"): out.append(0x0A)
        case UInt8(ascii: "r"): out.append(0x0D)
        case UInt8(ascii: "t"): out.append(0x09)
        case UInt8(ascii: "u"):
            var value = try hex4()
            if (0xD800...0xDBFF).contains(value) {
                guard at + 1 < bytes.count, bytes[at] == UInt8(ascii: "\\"), bytes[at + 1] == UInt8(ascii: "u") else {
                    throw error("lone surrogate")
                }
                at += 2
                let low = try hex4()
                guard (0xDC00...0xDFFF).contains(low) else { throw error("lone surrogate") }
                value = 0x10000 + (value - 0xD800) << 10 + (low - 0xDC00)
            }
            guard let scalar = Unicode.Scalar(value) else { throw error("lone surrogate") }
            out.append(contentsOf: UTF8.encode(scalar)!)
        default: throw error("unknown escape")
        }
    }

    private mutating func hex4() throws(JSONError) -> UInt32 {
        guard at + 4 <= bytes.count else { throw error("string without an end") }
        var value: UInt32 = 0
        for _ in 0..<4 {
            let digit: UInt8
            switch bytes[at] {
            case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = bytes[at] - UInt8(ascii: "0")
            case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = bytes[at] - UInt8(ascii: "a") + 10
            case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = bytes[at] - UInt8(ascii: "A") + 10
            default: throw error("expected four hex digits")
            }
            value = value << 4 | UInt32(digit)
            at += 1
        }
        return value
    }
}

// MARK: Field by field

/// A document of known form is read field by field, which costs about half as much as building its `JSONValue` first.
extension JSONParser {
    /// The name of a field, in the parsed bytes.
    package struct FieldName {
        fileprivate let bytes: UnsafeBufferPointer<UInt8>

        package static func ~= (name: StaticString, field: FieldName) -> Bool {
            let count = name.utf8CodeUnitCount
            guard field.bytes.count == count else { return false }
            // Field names are short, and the last bytes differ most often.
            var place = count - 1
            while place >= 0, field.bytes[place] == name.utf8Start[place] { place -= 1 }
            return place < 0
        }
    }

    /// Parses a document that is an object. `read` gets each field's name, and must take its value by one of the
    /// methods below, exactly once. Throws when the document is not an object, and rethrows the
    /// errors of `read`.
    package static func readObject(
        _ bytes: UnsafeBufferPointer<UInt8>, _ read: (FieldName, inout JSONParser) throws -> Void
    ) throws {
        var parser = JSONParser(bytes: bytes)
        guard try parser.object(read) else { throw parser.error("not an object") }
        parser.skipWhitespace()
        guard parser.at == bytes.count else { throw parser.error("unexpected content after the value") }
    }

    /// Takes an object. Returns false for any other value, which is skipped.
    package mutating func object(_ read: (FieldName, inout JSONParser) throws -> Void) throws -> Bool {
        skipWhitespace()
        guard current == UInt8(ascii: "{") else {
            try skip()
            return false
        }
        depth += 1
        defer { depth -= 1 }
        try open(depth)
        var isFirst = true
        while try hasNext(isFirst: isFirst, end: UInt8(ascii: "}")) {
            isFirst = false
            skipWhitespace()
            let name = try fieldName()
            try colon()
            try read(name, &self)
        }
        return true
    }

    /// Takes an array. `read` must take each element, exactly once. Returns false for any other value, which is
    /// skipped.
    package mutating func array(_ read: (inout JSONParser) throws -> Void) throws -> Bool {
        skipWhitespace()
        guard current == UInt8(ascii: "[") else {
            try skip()
            return false
        }
        depth += 1
        defer { depth -= 1 }
        try open(depth)
        var isFirst = true
        while try hasNext(isFirst: isFirst, end: UInt8(ascii: "]")) {
            isFirst = false
            try read(&self)
        }
        return true
    }

    /// Takes a value of any kind.
    package mutating func value() throws(JSONError) -> JSONValue { try value(depth: depth) }

    package mutating func skip() throws(JSONError) { _ = try value(depth: depth) }

    /// A name with an escape has no meaning in any document of known form, and is empty here.
    private mutating func fieldName() throws(JSONError) -> FieldName {
        guard current == UInt8(ascii: "\"") else { throw error("expected a field name") }
        let start = at + 1
        var end = start
        while end < bytes.count, bytes[end] > 0x1F, bytes[end] < 0x80, bytes[end] != UInt8(ascii: "\""),
            bytes[end] != UInt8(ascii: "\\")
        { end += 1 }
        guard end < bytes.count, bytes[end] == UInt8(ascii: "\"") else {
            _ = try string()
            return FieldName(bytes: UnsafeBufferPointer(start: nil, count: 0))
        }
        at = end + 1
        return FieldName(bytes: UnsafeBufferPointer(rebasing: bytes[start..<end]))
    }
}

extension String {
    /// Nil when `bytes` are not UTF-8.
    package init?(validUTF8 bytes: UnsafeBufferPointer<UInt8>) {
        // Most texts are ASCII, and the general check of UTF-8 is slow.
        guard bytes.allSatisfy({ $0 < 0x80 }) else {
            self.init(validating: bytes, as: UTF8.self)
            return
        }
        self.init(unsafeUninitializedCapacity: bytes.count) { buffer in
            _ = buffer.initialize(fromContentsOf: bytes)
            return bytes.count
        }
    }
}
