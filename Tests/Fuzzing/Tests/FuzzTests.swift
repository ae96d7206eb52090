import FoundationEssentials
import FuzzEntries
import Testing

/// The rules of every entry, checked with the corpus and with a bounded number of inputs made from the corpus, which
/// are the same on every run. `scripts/fuzz` goes on from there for as long as its user likes (docs/fuzzing.md).
///
/// The tests run one at a time: the present input is noted for the case that the input ends the process.
@Suite(.serialized) struct FuzzTests {
    @Test(arguments: FuzzEntry.allCases)
    func whatIsInTheCorpusHolds(entry: FuzzEntry) throws {
        let corpus = try Corpus.read(entry)
        #expect(corpus.count >= 10, "an entry without examples is hardly fuzzed")
        for file in corpus { hold(entry, file.bytes, "corpus/\(entry)/\(file.name)") }
    }

    @Test(arguments: FuzzEntry.allCases)
    func whatIsMadeFromTheCorpusHolds(entry: FuzzEntry) throws {
        let corpus = try Corpus.read(entry).map(\.bytes)
        let first = UInt64(ProcessInfo.processInfo.environment["BELLWIRE_FUZZ_SEED"] ?? "") ?? 1
        let cases = UInt64(ProcessInfo.processInfo.environment["BELLWIRE_FUZZ_CASES"] ?? "") ?? entry.usualCases
        for seed in first..<first + cases {
            var mutator = Mutator(seed: seed)
            hold(entry, mutator.input(from: corpus), "seed \(seed)")
        }
    }

    /// No input costs more than its size: these are the largest messages of the worst kinds, and each must be judged in
    /// an instant.
    @Test(arguments: LargeInput.all)
    func whatIsLargeIsJudgedInTime(input: LargeInput) {
        for entry in [FuzzEntry.json, .up, .down, .presence, .record, .trace, .history] {
            let took = ContinuousClock().measure { hold(entry, input.bytes, "\(input.name) as \(entry)") }
            // The check takes a tenth of a second in a debug build, most of it for the check itself. A quadratic
            // reading takes a minute.
            #expect(took < .seconds(10), "\(input.name) took \(took) as \(entry)")
        }
    }

    private func hold(_ entry: FuzzEntry, _ input: [UInt8], _ origin: String) {
        LastWords.set("\(entry), \(origin)")
        do throws(Finding) {
            try entry.check(input)
        } catch {
            Issue.record(
                "\(entry), \(origin): \(error)\ninput: \(String(decoding: input, as: UTF8.self).debugDescription)")
        }
        LastWords.set("")
    }
}

extension FuzzEntry {
    /// The number of cases is so small that all entries together take a few seconds in a debug build.
    fileprivate var usualCases: UInt64 {
        switch self {
        case .record, .service, .client: 400
        case .json, .redis: 1_500
        // Keys are put together by OpenSSL: milliseconds each.
        case .keys: 300
        default: 3_000
        }
    }
}

private enum Corpus {
    static func read(_ entry: FuzzEntry) throws -> [(name: String, bytes: [UInt8])] {
        let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "corpus/\(entry)")
        return try FileManager.default.contentsOfDirectory(atPath: folder.path()).sorted().map { name in
            (name, Array(try Data(contentsOf: folder.appending(path: name))))
        }
    }
}

/// An input of about the largest size that is sent, made by a rule.
struct LargeInput: CustomTestStringConvertible, Sendable {
    let name: String
    let bytes: [UInt8]

    var testDescription: String { name }

    private init(_ name: String, _ head: String, _ repeated: String, _ tail: String) {
        self.name = name
        let count = (250_000 - head.utf8.count - tail.utf8.count) / repeated.utf8.count
        bytes = Array((head + String(repeating: repeated, count: count) + tail).utf8)
    }

    static let all = [
        LargeInput("open arrays", "", "[", ""),
        LargeInput("open objects", "", #"{"a":"#, ""),
        LargeInput("a long number", "", "9", ""),
        LargeInput("a long fraction", "0.", "9", ""),
        LargeInput("a long exponent", "1e", "0", "1"),
        LargeInput("escapes", "\"", #"\u0041"#, "\""),
        LargeInput("pairs of surrogates", "\"", #"\ud83d\ude00"#, "\""),
        LargeInput("combining marks", "\"", "\u{301}", "\""),
        LargeInput("the same field", "{", #""type":"ack","#, #""x":1}"#),
        LargeInput("empty objects", "[", "{},", "0]"),
        LargeInput("blanks", "", " ", "0"),
        LargeInput("invitees", #"{"type":"call.invite","id":"r","invitees":["#, #""b","#, #""b"]}"#),
        LargeInput("members", #"{"mode":"common","inviter":"a","members":["#, #"{"user":"a"},"#, "{}]}"),
    ]
}
