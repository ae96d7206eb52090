import SignalingProtocol
import Support
import Testing

struct JSONWriterTests {
    private func written(_ string: String) -> [UInt8] { JSONWriter.object { $0.field("s", string) } }

    private func roundTrip(_ string: String) -> [UInt8]? {
        parsed(written(string))?.object?["s"]?.string.map { Array($0.utf8) }
    }

    @Test func everyScalarBelow256SurvivesWritingAndParsing() {
        for value in UInt32(0)...255 {
            let string = String(Character(Unicode.Scalar(value)!))
            #expect(roundTrip(string) == Array(string.utf8), "U+\(String(value, radix: 16))")
        }
    }

    @Test func everyControlCharacterIsEscaped() {
        for value in UInt32(0)..<0x20 {
            let bytes = written("a\(Unicode.Scalar(value)!)b")
            #expect(bytes.allSatisfy { $0 >= 0x20 }, "U+\(String(value, radix: 16))")
        }
    }

    @Test(arguments: [
        ("\"", #"{"s":"\""}"#), ("\\", #"{"s":"\\"}"#), ("\n\r\t", #"{"s":"\n\r\t"}"#), ("/", #"{"s":"/"}"#),
        ("\u{0}", #"{"s":"\u0000"}"#), ("\u{1F}", #"{"s":"\u001f"}"#), ("\u{8}", #"{"s":"\u0008"}"#),
        ("\u{10}", #"{"s":"\u0010"}"#), ("é日😀", #"{"s":"é日😀"}"#), ("\u{7F}", "{\"s\":\"\u{7F}\"}"),
    ])
    func escapesExactlyWhatMustBe(_ string: String, _ json: String) {
        #expect(written(string) == utf8(json))
    }

    @Test func spellingsOfOneLetterStayApart() {
        #expect(roundTrip("e\u{301}") == utf8("e\u{301}"))
        #expect(roundTrip("\u{E9}") == utf8("\u{E9}"))
    }

    @Test func randomStringsSurvive() {
        var random = SplitMix64(seed: 42)
        for _ in 0..<2000 {
            let scalars = (0..<8).map { _ in Unicode.Scalar(UInt32.random(in: 0...0xD7FF, using: &random))! }
            var string = ""
            string.unicodeScalars.append(contentsOf: scalars)
            #expect(roundTrip(string) == Array(string.utf8))
        }
    }

    @Test(arguments: [0, 1, -1, 9, 10, -10, 1_790_000_000_000, Int64.max, Int64.min])
    func integersSurvive(_ value: Int64) {
        #expect(
            parsed(JSONWriter.object { $0.field("n", value) }) == .object(.init([.init(key: "n", value: .int(value))])))
    }

    @Test func commasStandBetweenAndNowhereElse() {
        let bytes = JSONWriter.object { writer in
            writer.object("empty") { _ in }
            writer.array("none") { _ in }
            writer.field("left", String?.none)
            writer.array("list") { writer in
                writer.string("a")
                writer.object { $0.field("b", true) }
                writer.array { $0.integer(1) }
                writer.integer(2)
            }
            writer.field("last", false)
        }
        #expect(bytes == utf8(#"{"empty":{},"none":[],"list":["a",{"b":true},[1],2],"last":false}"#))
    }

    @Test func aFieldWithoutAValueIsLeftOut() {
        let bytes = JSONWriter.object { writer in
            writer.field("a", String?.none)
            writer.field("b", Int?.none)
            writer.field("c", Bool?.none)
        }
        #expect(bytes == utf8("{}"))
    }
}
