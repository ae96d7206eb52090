import BellwireClient
import BellwireSimulator
import Glibc
import HistoryChecker

/// `bellwire simulate`: plays worlds in virtual time (docs/simulation.md).
enum SimulateCommand {
    static let command = Command(
        name: "simulate", arguments: "",
        summary: """
            Plays whole deployments with faults in virtual time, one for each seed, and holds what devices see against the
            protocol. Exit status 1 if there is any violation.
            """,
        options: [
            Option("seed", "S", default: "1", "the first seed"),
            Option("seeds", "N", default: "1", "how many seeds, one after the other"),
            Option("seconds", "N", default: "0", "stop after so many seconds of real time; 0: after all seeds"),
            Option(switch: "lite", "no faults, only time"),
            Option(switch: "brief", "tell a failure in one line, instead of making it small and telling its story"),
            Option(switch: "trace", "print everything that is seen"),
        ], positionals: 0...0)

    static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        let first = UInt64(try arguments.integer("seed", in: 0...Int.max))
        let count = UInt64(try arguments.integer("seeds", in: 1...1_000_000_000))
        let limit = Int64(try arguments.integer("seconds", in: 0...86_400)) * 1000
        let simulator = Simulator(isLite: arguments.isSet("lite"))
        if arguments.isSet("trace") {
            for line in simulator.trace(seed: first) { writeOutput(line) }
        }
        let started = monotonicMilliseconds()
        var played: UInt64 = 0
        var calls = 0
        var virtual: Int64 = 0
        var faults: [String: Int] = [:]
        var fingerprint: UInt64 = 0
        var failures: [UInt64] = []
        for seed in first..<first + count {
            if limit > 0, monotonicMilliseconds() - started >= limit { break }
            let result = simulator.run(seed: seed)
            played += 1
            calls += result.calls
            virtual += result.virtualTime
            faults.merge(result.faults, uniquingKeysWith: +)
            fingerprint = fingerprint &* 31 &+ result.fingerprint
            if !result.violations.isEmpty {
                failures.append(seed)
                if arguments.isSet("brief") {
                    let kinds = Set(result.violations.map(\.kind.rawValue)).sorted().joined(separator: ", ")
                    writeOutput("seed \(seed): \(kinds): \(result.violations[0].what)")
                } else {
                    tell(result, simulator)
                }
            }
        }
        let seconds = max(0.001, Double(monotonicMilliseconds() - started) / 1000)
        writeOutput(
            """
            seeds: \(played) in \(rounded(seconds)) s, \(rounded(Double(played) / seconds)) per second
            calls: \(calls), \(rounded(Double(calls) / seconds)) per second
            virtual time: \(virtual / 1000) s, \(rounded(Double(virtual) / 1000 / seconds)) s per second
            faults: \(faults.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))
            fingerprint: \(String(fingerprint, radix: 16))
            failed seeds: \(failures.isEmpty ? "none" : failures.map(String.init).joined(separator: " "))
            """)
        exit(failures.isEmpty ? 0 : 1)
    }

    private static func tell(_ result: Simulator.Result, _ simulator: Simulator) {
        let story = simulator.minimised(seed: result.seed)
        writeOutput(
            "seed \(result.seed): \(result.violations.count) violations; with \(story.acts) of \(story.of) acts:")
        for violation in (story.violations.isEmpty ? result.violations : story.violations).prefix(1) {
            writeOutput("\(violation)\n")
        }
    }

    private static func rounded(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}
