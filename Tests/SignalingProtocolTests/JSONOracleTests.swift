import FuzzEntries
import SignalingProtocol
import Support
import Testing

/// Compares the parser with Foundation's, on random documents and on random damage to them. The comparison and its
/// permitted differences stand with the fuzzer's check (Tests/Fuzzing/Entries/JSON.swift).
struct JSONOracleTests {
    static let seeds = Array(UInt64(1)...20)

    @Test(arguments: seeds)
    func randomDocumentsGiveWhatFoundationGives(_ seed: UInt64) {
        var random = SplitMix64(seed: seed)
        for _ in 0..<150 {
            var document = RandomJSON()
            document.value(depth: 0, &random)
            compare(document.bytes, seed)
            #expect(parsed(document.bytes) != nil, "seed \(seed)")
        }
    }

    @Test(arguments: seeds)
    func randomDamageIsJudgedAsFoundationJudgesIt(_ seed: UInt64) {
        var random = SplitMix64(seed: seed &+ 1000)
        for _ in 0..<200 {
            var document = RandomJSON()
            document.value(depth: 0, &random)
            for _ in 0..<4 { compare(RandomJSON.damaged(document.bytes, &random), seed) }
        }
    }

    @Test(arguments: seeds)
    func arbitraryBytesNeverStopTheParser(_ seed: UInt64) {
        var random = SplitMix64(seed: seed &+ 2000)
        for _ in 0..<500 {
            let count = Int.random(in: 0..<40, using: &random)
            compare((0..<count).map { _ in UInt8.random(in: .min ... .max, using: &random) }, seed)
            compare((0..<count).map { _ in RandomJSON.syntax.randomElement(using: &random)! }, seed)
        }
    }

    private func compare(_ bytes: [UInt8], _ seed: UInt64) {
        do throws(Finding) {
            try FuzzEntry.json.check(bytes)
        } catch {
            Issue.record("seed \(seed): \(String(decoding: bytes, as: UTF8.self).debugDescription): \(error)")
        }
    }
}

/// Random JSON text with every spelling that the grammar allows, and damage to it.
private struct RandomJSON {
    var bytes: [UInt8] = []

    static let syntax = utf8("{}[]\",:\\u0019eE+-. \ntrfalsn/bd")

    mutating func value(depth: Int, _ random: inout SplitMix64) {
        space(&random)
        switch Int.random(in: 0..<(depth < 6 ? 9 : 6), using: &random) {
        case 0: bytes += utf8(["null", "true", "false"].randomElement(using: &random)!)
        case 1, 2: number(&random)
        case 3, 4, 5: string(&random)
        case 6, 7:
            list("{", "}", &random) { json, random in
                json.string(&random)
                json.space(&random)
                json.bytes.append(UInt8(ascii: ":"))
                json.value(depth: depth + 1, &random)
            }
        default: list("[", "]", &random) { json, random in json.value(depth: depth + 1, &random) }
        }
        space(&random)
    }

    private mutating func list(
        _ open: String, _ close: String, _ random: inout SplitMix64,
        _ element: (inout RandomJSON, inout SplitMix64) -> Void
    ) {
        bytes += utf8(open)
        space(&random)
        for index in 0..<Int.random(in: 0...4, using: &random) {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            space(&random)
            element(&self, &random)
            space(&random)
        }
        bytes += utf8(close)
    }

    private mutating func space(_ random: inout SplitMix64) {
        guard random.chance(20) else { return }
        bytes.append([0x20, 0x0A, 0x0D, 0x09].randomElement(using: &random)!)
    }

    private mutating func number(_ random: inout SplitMix64) {
        switch Int.random(in: 0..<5, using: &random) {
        case 0: bytes += utf8(String(Int64.random(in: .min ... .max, using: &random)))
        case 1: bytes += utf8(String(Int.random(in: -100...100, using: &random)))
        case 2: bytes += utf8(["0", "-0", "-1", "10"].randomElement(using: &random)!)
        case 3:
            let fraction = String(Int.random(in: 0...99_999, using: &random))
            bytes += utf8("\(Int.random(in: -999...999, using: &random)).\(fraction)")
        default:
            let exponent = ["e", "E", "e+", "E-"].randomElement(using: &random)!
            let digits = Int.random(in: 1...9, using: &random)
            bytes += utf8("\(digits).\(digits)\(exponent)\(Int.random(in: 0...30, using: &random))")
        }
    }

    private mutating func string(_ random: inout SplitMix64) {
        bytes.append(UInt8(ascii: "\""))
        for _ in 0..<Int.random(in: 0...6, using: &random) {
            switch Int.random(in: 0..<4, using: &random) {
            case 0: bytes += utf8(["a", "b", "é", "日", "😀", "\u{7F}", "e\u{301}"].randomElement(using: &random)!)
            case 1:
                bytes += utf8([#"\""#, #"\\"#, #"\/"#, #"\b"#, #"\f"#, #"\n"#, #"\t"#].randomElement(using: &random)!)
            case 2: bytes += utf8([#"\u0041"#, #"\u00e9"#, #"\uFFFD"#, #"\u0001"#].randomElement(using: &random)!)
            default: bytes += utf8([#"\ud83d\ude00"#, #"\uD834\uDD1E"#].randomElement(using: &random)!)
            }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    static func damaged(_ original: [UInt8], _ random: inout SplitMix64) -> [UInt8] {
        var bytes = original
        for _ in 0..<Int.random(in: 1...2, using: &random) {
            let place = Int.random(in: 0...bytes.count, using: &random)
            switch Int.random(in: 0..<5, using: &random) {
            case 0: bytes.insert(syntax.randomElement(using: &random)!, at: place)
            case 1 where place < bytes.count: bytes.remove(at: place)
            case 2 where place < bytes.count: bytes[place] = UInt8.random(in: .min ... .max, using: &random)
            case 3 where place < bytes.count: bytes[place] = syntax.randomElement(using: &random)!
            default: bytes.removeLast(min(bytes.count, Int.random(in: 0...3, using: &random)))
            }
        }
        return bytes
    }
}
