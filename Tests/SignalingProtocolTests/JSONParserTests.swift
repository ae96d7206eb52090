import SignalingProtocol
import Testing

/// RFC 8259, and the additions of docs/protocol.md (section 1, "What is JSON").
struct JSONParserTests {
    @Test(
        arguments: [
            ("null", .null), ("true", .bool(true)), ("false", .bool(false)),
            (" \t\r\n null \t\r\n ", .null),
            ("0", .int(0)), ("-0", .int(0)), ("7", .int(7)), ("-12", .int(-12)),
            ("9223372036854775807", .int(.max)), ("-9223372036854775808", .int(.min)),
            ("0.0", .double(0)), ("1.5", .double(1.5)), ("-1.25e2", .double(-125)), ("1E+2", .double(100)),
            ("2e-1", .double(0.2)), ("60.0", .double(60)), ("6e1", .double(60)), ("0e0", .double(0)),
            ("\"\"", .string("")), ("\"abc\"", .string("abc")),
            ("[]", .array([])), ("[ ]", .array([])), ("[1,2]", .array([.int(1), .int(2)])),
            ("[[],[[]]]", .array([.array([]), .array([.array([])])])),
            ("{}", .object(JSONObject())), ("{ }", .object(JSONObject())),
            ("{\"a\":1}", .object(JSONObject([.init(key: "a", value: .int(1))]))),
            (
                "{ \"a\" : null , \"b\" : [ ] }",
                .object(
                    JSONObject([.init(key: "a", value: .null), .init(key: "b", value: .array([]))]))
            ),
        ] as [(String, JSONValue)])
    func acceptsWhatTheGrammarAllows(_ text: String, _ value: JSONValue) throws {
        #expect(try parse(text) == value)
    }

    @Test(arguments: [
        "", " ", "nul", "nulL", "True", "truefalse", "tru", "undefined", "NaN", "Infinity", "-Infinity", "nan",
        "-", "+1", "01", "-01", "00", "1.", ".5", "-.5", "1.e2", "1e", "1e+", "1e-", "0x10", "1_000", "1 2", "--1",
        "1,", "\"", "\"a", "'a'", "\"\\\"", "\"\\x\"", "\"\\u12\"", "\"\\u12G4\"", "\"\\U0041\"", "\"a\" \"b\"",
        "\"\\", "\"\\u", "\"\\ud83d\\u", "\"\\ud83d\\u00",
        "\"\t\"", "\"\n\"", "\"\u{0}\"", "\"\u{1F}\"", "\"\\n\u{1}\"",
        "[", "]", "[1", "[1,", "[1,]", "[,1]", "[1 2]", "[1}", "[,]", "[1,,2]", "[\"a\":1]",
        "{", "}", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":1,", "{\"a\":1,}", "{,}", "{a:1}", "{1:1}", "{'a':1}",
        "{\"a\" 1}", "{\"a\"=1}", "{\"a\":1 \"b\":2}", "{\"a\":}", "{\"a\":1]", "{\"a\":1;\"b\":2}", "{\"a\",\"b\"}",
        "{}{}", "{} x", "{},", "{}\u{0}", "// c\n{}", "{/* c */}", "{} // c", "\u{FEFF}{}", "\u{A0}{}", "\u{B}{}",
    ])
    func refusesWhatTheGrammarDoesNotAllow(_ text: String) {
        #expect(parsed(utf8(text)) == nil)
    }

    @Test(arguments: [
        (#""\"\\\/\b\f\n\r\t""#, "\"\\/\u{8}\u{C}\n\r\t"),
        (#""\u0041\u00e9\u20AC""#, "A\u{E9}\u{20AC}"),
        (#""\ud83d\ude00""#, "\u{1F600}"), (#""\uD800\uDC00\uDBFF\uDFFF""#, "\u{10000}\u{10FFFF}"),
        (#""\u0000x""#, "\u{0}x"), (#""\uFEFF\uFFFF""#, "\u{FEFF}\u{FFFF}"),
        (#""é\n日本😀""#, "é\n日本😀"), ("\"\u{7F}\u{85}\u{2028}\"", "\u{7F}\u{85}\u{2028}"),
    ])
    func unescapesStrings(_ text: String, _ string: String) throws {
        let value = try #require(try parse(text).string)
        #expect(Array(value.utf8) == Array(string.utf8))
    }

    @Test(arguments: [
        #""\ud800""#, #""\udfff""#, #""\ud800x""#, #""\ud800\n""#, #""\ud800\ud800""#, #""\ud800\u0041""#,
        #""\udc00\ud800""#, #"{"\udead":1}"#, #"{"a":"x\uDBFF"}"#,
    ])
    func refusesLoneSurrogates(_ text: String) {
        #expect(throws: JSONError.self) { try parse(text) }
    }

    @Test(
        arguments: [
            [0x80], [0xBF], [0xC0, 0x80], [0xC1, 0xBF], [0xC3], [0xC3, 0x28], [0xE0, 0x80, 0x80], [0xE2, 0x82],
            [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xF0, 0x80, 0x80, 0x80], [0xF4, 0x90, 0x80, 0x80],
            [0xF5, 0x80, 0x80, 0x80], [0xFE], [0xFF], [0x41, 0xFF, 0x42],
        ] as [[UInt8]])
    func refusesInvalidUTF8InStringsWithAndWithoutEscapes(_ bad: [UInt8]) {
        let quote = UInt8(ascii: "\"")
        #expect(parsed([quote] + bad + [quote]) == nil)
        #expect(parsed([quote] + utf8("\\n") + bad + [quote]) == nil)
        #expect(parsed(utf8("{\"") + bad + utf8("\":1}")) == nil)
        #expect(parsed(bad) == nil)
    }

    @Test func refusesUTF16AndAByteOrderMark() {
        #expect(parsed([0x7B, 0, 0x7D, 0]) == nil)
        #expect(parsed([0xFF, 0xFE, 0x7B, 0, 0x7D, 0]) == nil)
        #expect(parsed([0xEF, 0xBB, 0xBF] + utf8("{}")) == nil)
    }

    @Test func allowsSixtyFourLevelsAndNotOneMore() throws {
        func nested(_ open: String, _ close: String, _ depth: Int) -> String {
            String(repeating: open, count: depth) + "1" + String(repeating: close, count: depth)
        }
        #expect(JSONParser.maxDepth == 64)
        for (open, close) in [("[", "]"), ("{\"a\":", "}"), ("[{\"a\":", "}]")] {
            let levels = open.count == 1 || open.hasPrefix("{") ? 64 : 32
            #expect(parsed(utf8(nested(open, close, levels))) != nil)
            #expect(parsed(utf8(nested(open, close, levels + 1))) == nil)
        }
        #expect(parsed(utf8(String(repeating: "[", count: 64) + String(repeating: "]", count: 64))) != nil)
        #expect(parsed(utf8(String(repeating: "[", count: 65) + String(repeating: "]", count: 65))) == nil)
    }

    @Test func survivesAMegabyteOfBrackets() {
        #expect(parsed([UInt8](repeating: UInt8(ascii: "["), count: 1 << 20)) == nil)
        #expect(parsed(utf8(String(repeating: "{\"a\":", count: 200_000))) == nil)
    }

    @Test func countsLevelsAndNotElements() {
        #expect(parsed(utf8("[" + String(repeating: "[],", count: 10_000) + "[]]")) != nil)
    }

    @Test(arguments: ["1e400", "-1e400", "1e999999999", String(repeating: "9", count: 400), "123456789012345678901234"])
    func keepsHugeNumbersOutOfEveryRange(_ text: String) throws {
        let value = try parse(text)
        #expect(value.integer == nil)
        guard case .double = value else {
            Issue.record("not a double: \(value)")
            return
        }
    }

    @Test(
        arguments: [
            ("60.0", 60), ("6e1", 60), ("-0.0", 0), ("1e18", 1_000_000_000_000_000_000), ("1.5", nil), ("1e-1", nil),
            ("9223372036854775808", nil), ("-9223372036854777856", nil), ("9.3e18", nil), ("1e-400", 0),
            ("9007199254740993", 9_007_199_254_740_993),
        ] as [(String, Int64?)])
    func takesWholeNumbersHoweverTheyAreWritten(_ text: String, _ integer: Int64?) throws {
        #expect(try parse(text).integer == integer)
    }

    @Test func readsALongNumberWithoutLosingItsEnd() {
        let digits = String(repeating: "1", count: 100_000)
        #expect(parsed(utf8(digits)) != nil)
        #expect(parsed(utf8("[\(digits)x]")) == nil)
        #expect(parsed(utf8("0." + digits)) != nil)
    }

    @Test func lastOfTwoEqualKeysWins() throws {
        let object = try #require(try parse(#"{"a":1,"b":2,"a":3}"#).object)
        #expect(object["a"] == .int(3))
        #expect(object["b"] == .int(2))
        #expect(object.fields.count == 3)
    }

    @Test func aNullThatStandsLastHidesTheValueBefore() throws {
        #expect(try parse(#"{"a":1,"a":null}"#).object?["a"] == nil)
    }

    @Test func keysAreComparedAfterUnescaping() throws {
        #expect(try parse(##"{"\u0061":1}"##).object?["a"] == .int(1))
    }

    @Test func accessorsGiveNothingForOtherTypes() throws {
        let values = try #require(try parse(#"[null,true,1,1.5,"s",[],{}]"#).array)
        #expect(values.map { $0.string != nil } == [false, false, false, false, true, false, false])
        #expect(values.map { $0.bool != nil } == [false, true, false, false, false, false, false])
        #expect(values.map { $0.integer != nil } == [false, false, true, false, false, false, false])
        #expect(values.map { $0.array != nil } == [false, false, false, false, false, true, false])
        #expect(values.map { $0.object != nil } == [false, false, false, false, false, false, true])
    }

    @Test(arguments: [("{\"a\":x}", 5), ("", 0), ("{} x", 3), ("[1,2", 4)])
    func errorTellsWhere(_ text: String, _ offset: Int) {
        let error = #expect(throws: JSONError.self) { try parse(text) }
        #expect(error?.offset == offset)
        #expect(error?.description.hasSuffix("at byte \(offset)") == true)
    }
}
