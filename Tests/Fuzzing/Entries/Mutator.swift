import Support

/// Makes inputs from known inputs: the mutator damages bytes, and moves whole values about like a person who knows
/// JSON.
package struct Mutator {
    private var random: SplitMix64

    package init(seed: UInt64) { random = SplitMix64(seed: seed) }

    /// The longest input in bytes that the mutator makes, unless the known input is longer.
    package static let maxBytes = 16 * 1024

    /// Makes some changes, up to four, to an input of `corpus`; the changes may borrow from the other inputs.
    package mutating func input(from corpus: [[UInt8]]) -> [UInt8] {
        var bytes = corpus.randomElement(using: &random) ?? []
        for _ in 0..<number(1...4) { bytes = changed(bytes, corpus) }
        return bytes
    }

    private mutating func changed(_ bytes: [UInt8], _ corpus: [[UInt8]]) -> [UInt8] {
        var bytes = bytes
        switch number(0...15) {
        case 0: bytes.replaceSubrange(place(in: bytes, length: 1), with: [UInt8.random(in: 0...255, using: &random)])
        case 1: bytes.insert(UInt8.random(in: 0...255, using: &random), at: number(0...bytes.count))
        case 2: bytes.removeSubrange(place(in: bytes, length: number(1...8)))
        case 3: bytes.removeSubrange(place(in: bytes, length: number(1...max(1, bytes.count))))
        case 4: bytes.removeLast(number(0...bytes.count))
        case 5: insert(Array(bytes[place(in: bytes, length: number(1...64))]), into: &bytes)
        case 6:
            let other = corpus.randomElement(using: &random) ?? []
            bytes = bytes.prefix(number(0...bytes.count)) + other.suffix(number(0...other.count))
        case 7: bytes.replaceSubrange(place(in: bytes, length: number(0...4)), with: token())
        case 8: insert(token(), into: &bytes)
        case 9:
            let place = place(in: bytes, length: 1)
            if let byte = bytes[place].first { bytes[place.lowerBound] = byte ^ 1 << UInt8(number(0...7)) }
        case 10, 11:
            let values = values(in: bytes)
            if let value = values.randomElement(using: &random) { bytes.replaceSubrange(value, with: token()) }
        case 12:
            // Puts a value of this or another input in the place of a value.
            let other = number(0...1) == 0 ? bytes : corpus.randomElement(using: &random) ?? []
            let (own, others) = (values(in: bytes), values(in: other))
            if let own = own.randomElement(using: &random), let value = others.randomElement(using: &random) {
                bytes.replaceSubrange(own, with: other[value])
            }
        case 13:
            if let value = values(in: bytes).randomElement(using: &random) { nest(value, in: &bytes) }
        case 14: doubleField(in: &bytes)
        default:
            if let line = lines(in: bytes).randomElement(using: &random) { moveLine(line, in: &bytes) }
        }
        return bytes
    }

    private mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }

    private mutating func place(in bytes: [UInt8], length: Int) -> Range<Int> {
        let start = number(0...bytes.count)
        return start..<min(bytes.count, start + length)
    }

    private mutating func insert(_ addition: [UInt8], into bytes: inout [UInt8]) {
        guard bytes.count + addition.count <= Self.maxBytes else { return }
        bytes.insert(contentsOf: addition, at: number(0...bytes.count))
    }

    private mutating func nest(_ value: Range<Int>, in bytes: inout [UInt8]) {
        let levels = [1, 2, 60, 61, 62, 63, 64, 65, 511, 513].randomElement(using: &random)!
        let (open, close) = number(0...1) == 0 ? ("[", "]") : (#"{"a":"#, "}")
        guard bytes.count + levels * (open.utf8.count + 1) <= Self.maxBytes else { return }
        bytes.insert(contentsOf: Array(String(repeating: close, count: levels).utf8), at: value.upperBound)
        bytes.insert(contentsOf: Array(String(repeating: open, count: levels).utf8), at: value.lowerBound)
    }

    /// Repeats a field with another value.
    private mutating func doubleField(in bytes: inout [UInt8]) {
        let values = values(in: bytes)
        guard let name = values.randomElement(using: &random), name.upperBound < bytes.count,
            bytes[name.upperBound] == UInt8(ascii: ":"), let value = values.randomElement(using: &random)
        else { return }
        let field = bytes[name] + [UInt8(ascii: ":")] + bytes[value] + [UInt8(ascii: ",")]
        guard bytes.count + field.count <= Self.maxBytes else { return }
        bytes.insert(contentsOf: field, at: name.lowerBound)
    }

    private mutating func moveLine(_ line: Range<Int>, in bytes: inout [UInt8]) {
        let copy = Array(bytes[line])
        if number(0...1) == 0 { bytes.removeSubrange(line) }
        let lines = lines(in: bytes)
        guard bytes.count + copy.count <= Self.maxBytes, let place = lines.randomElement(using: &random) else { return }
        bytes.insert(contentsOf: copy, at: place.lowerBound)
    }

    private func lines(in bytes: [UInt8]) -> [Range<Int>] {
        var lines: [Range<Int>] = []
        var start = 0
        for (index, byte) in bytes.enumerated() where byte == UInt8(ascii: "\n") {
            lines.append(start..<index + 1)
            start = index + 1
        }
        return lines
    }

    /// Returns the places of JSON values, names of fields included, as far as damaged input allows.
    private func values(in bytes: [UInt8]) -> [Range<Int>] {
        var values: [Range<Int>] = []
        var open: [Int] = []
        var at = 0
        while at < bytes.count {
            let start = at
            at += 1
            switch bytes[start] {
            case UInt8(ascii: "{"), UInt8(ascii: "["): open.append(start)
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                if let start = open.popLast() { values.append(start..<at) }
            case UInt8(ascii: "\""):
                while at < bytes.count, bytes[at] != UInt8(ascii: "\"") {
                    at += bytes[at] == UInt8(ascii: "\\") ? 2 : 1
                }
                at = min(at + 1, bytes.count)
                values.append(start..<at)
            case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "z"):
                while at < bytes.count, !",:]} \r\n\"".utf8.contains(bytes[at]) { at += 1 }
                values.append(start..<at)
            default: continue
            }
        }
        return values
    }

    // MARK: Tokens with a meaning somewhere

    private mutating func token() -> [UInt8] { Self.tokens.randomElement(using: &random)! }

    /// The tokens are also the dictionary of `scripts/fuzz`.
    package static let tokens: [[UInt8]] = texts.map { Array($0.utf8) } + invalid

    private static let texts = [
        // Numbers at the borders of types, of exactness and of the protocol's ranges.
        "0", "-0", "-1", "1", "600", "601", "9007199254740991", "9007199254740992", "-9007199254740993", "2147483648",
        "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
        "18446744073709551615", "18446744073709551616", "0.1", "60.0", "6e1", "1e400", "-1e400", "1e-400", "5e-324",
        "2.2250738585072011e-308", "179769313486231580793e289", "0.30000000000000004", "1E+2", "01", "1.", ".5", "+1",
        "0x10", "nan", "inf", "-inf", "NaN", "Infinity", "123456789012345678901234567890",
        // JSON.
        "null", "true", "false", "{}", "[]", "\"\"", "[[", "{\"a\":", "]", "}", ",", ":", "\"", "\\", " ", "\t", "\r\n",
        "\n",
        #"\u0000"#, #"\u0041"#, #"\ud83d\ude00"#, #"\ud800"#, #"\udc00"#, #"\ud800\ud800"#, #"\uD800\n"#, #"\u00"#,
        #"\x"#, #"\/"#,
        "\u{FEFF}", "\u{0}", "\u{7F}", "\u{85}", "\u{2028}", "e\u{301}", "é", "\u{301}", "\u{212A}", "\u{FFFE}", "😀",
        "\u{600}",
        // Topics, addresses, Redis.
        "/", "%", "%2F", "%2f", "%25", "%00", "%FF", "%41", "+", "#", "$share", "bellwire/v1/up/",
        "bellwire/v1/presence/",
        "://", "@", "[::1]", ":65535", ":65536", "?", "-", ".", "..",
        "$-1\r\n", "*-1\r\n", "*0\r\n", "$0\r\n\r\n", ":1\r\n", ":0\r\n", ":-1\r\n", ":9223372036854775807\r\n",
        ":-9223372036854775808\r\n", "+OK\r\n", "-ERR no\r\n", "-NOSCRIPT no\r\n", "*1\r\n", "*2\r\n", "$3\r\ninf\r\n",
        "$3\r\nnan\r\n", "$4\r\n-inf\r\n", "$5\r\n1e300\r\n", "$1000000000\r\n", "*1000000\r\n", "_\r\n", "#t\r\n",
        ",inf\r\n", "%1\r\n", "~1\r\n", "(1\r\n", ">1\r\n", "=5\r\ntxt:x\r\n",
        // Time passes, a connection comes and goes.
        "+1\n", "+1000\n", "+60000\n", "+600000\n", "+604800000\n", "!connect s1\n", "!disconnect\n",
    ]

    /// Bytes that are no UTF-8: a lone continuation, overlong forms, an encoded surrogate, beyond the last scalar, cut
    /// short.
    private static let invalid: [[UInt8]] = [
        [0x80], [0xC0, 0xAF], [0xE0, 0x80, 0xAF], [0xED, 0xA0, 0x80], [0xF4, 0x90, 0x80, 0x80], [0xF0, 0x9F, 0x98],
        [0xC3], [0xFF], [0xFE, 0xFF], [0xFF, 0xFE], [0xEF, 0xBB, 0xBF],
    ]
}
