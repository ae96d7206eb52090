import BellwireClientCore
import BellwireCommands
import BellwireSimulator
import Glibc
import HistoryChecker
import SignalingProtocol
import Support

/// `bellwire-lab simulate`: plays worlds in virtual time (docs/simulation.md).
enum SimulateCommand {
    static let command = Command(
        program: "bellwire-lab", name: "simulate", arguments: "",
        summary: """
            Plays whole deployments with faults in virtual time, one for each seed, and checks the messages that devices
            see against the protocol. With --exhaustive: tries every sequence of steps in small worlds. Exit status 1 if
            there is a violation.
            """,
        options: [
            Option("seed", "S", default: "1", "the first seed"),
            Option("seeds", "N", default: "1", "how many seeds, one after the other"),
            Option("seconds", "N", default: "0", "stop after so many seconds of real time; 0: after all seeds"),
            Option(switch: "lite", "without faults: only time passes"),
            Option(switch: "calls-only", "without webhooks and pushes"),
            Option(switch: "brief", "print a failure in one line, without making its world smaller"),
            Option(switch: "trace", "print the history of the first world, and of each smaller failing world"),
            Option(switch: "exhaustive", "try every sequence of steps in small worlds"),
            Option("depth", "N", default: "100", "with --exhaustive: the greatest number of steps"),
        ], positionals: 0...0)

    static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        let first = UInt64(try arguments.integer("seed", in: 0...Int.max))
        let count = UInt64(try arguments.integer("seeds", in: 1...1_000_000_000))
        let limit = Int64(try arguments.integer("seconds", in: 0...86_400)) * 1000
        if arguments.isSet("exhaustive") {
            try searchSmallWorlds(depth: try arguments.integer("depth", in: 1...1_000), for: limit > 0 ? limit : 60_000)
        }
        let simulator = Simulator(isLite: arguments.isSet("lite"), callsOnly: arguments.isSet("calls-only"))
        if arguments.isSet("trace") {
            for line in simulator.trace(seed: first) { writeOutput(line) }
        }
        let started = SystemClock.boot.milliseconds
        var played: UInt64 = 0
        var calls = 0
        var virtual: Int64 = 0
        var faults: [String: Int] = [:]
        var pushes: [PushKind: Int] = [:]
        var fingerprint: UInt64 = 0
        var failures: [UInt64] = []
        for seed in first..<first + count {
            if limit > 0, SystemClock.boot.milliseconds - started >= limit { break }
            let result = simulator.run(seed: seed)
            played += 1
            calls += result.calls
            virtual += result.virtualTime
            faults.merge(result.faults, uniquingKeysWith: +)
            pushes.merge(result.pushes, uniquingKeysWith: +)
            fingerprint = fingerprint &* 31 &+ result.fingerprint
            if !result.violations.isEmpty {
                failures.append(seed)
                if arguments.isSet("brief") {
                    let kinds = Set(result.violations.map(\.kind.rawValue)).sorted().joined(separator: ", ")
                    writeOutput("seed \(seed): \(kinds): \(result.violations[0].what)")
                } else {
                    tell(result, simulator, isTraced: arguments.isSet("trace"))
                }
            }
        }
        let seconds = max(0.001, Double(SystemClock.boot.milliseconds - started) / 1000)
        writeOutput(
            """
            seeds: \(played) in \(rounded(seconds)) s, \(rounded(Double(played) / seconds)) per second
            calls: \(calls), \(rounded(Double(calls) / seconds)) per second
            virtual time: \(virtual / 1000) s, \(rounded(Double(virtual) / 1000 / seconds)) s per second
            pushes: \(PushKind.allCases.map { "\($0) \(pushes[$0] ?? 0)" }.joined(separator: ", "))
            faults: \(faults.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "))
            fingerprint: \(String(fingerprint, radix: 16))
            failed seeds: \(failures.isEmpty ? "none" : failures.map(String.init).joined(separator: " "))
            """)
        exit(failures.isEmpty ? 0 : 1)
    }

    /// Searches the small worlds. The time is shared among the worlds.
    private static func searchSmallWorlds(depth: Int, for milliseconds: Int64) throws -> Never {
        var isClean = true
        for (index, name) in Exhaustive.worlds.enumerated() {
            let share = milliseconds / Int64(Exhaustive.worlds.count)
            let result = Exhaustive(world: name, clock: { SystemClock.boot.milliseconds }).search(
                depth: depth, for: share)
            writeOutput(
                """
                \(index + 1). \(name): \(result.isComplete ? "everything" : "everything up to \(result.depth) steps") \
                was tried, \(result.states) distinct states, \(result.steps) steps, \(result.rests) times to rest
                """)
            guard let violation = result.violation else { continue }
            isClean = false
            for (number, step) in result.path.enumerated() { writeOutput("  \(number + 1). \(step)") }
            writeOutput("\(violation)\n")
        }
        exit(isClean ? 0 : 1)
    }

    private static func tell(_ result: Simulator.Result, _ simulator: Simulator, isTraced: Bool) {
        let story = simulator.minimised(seed: result.seed)
        writeOutput(
            """
            seed \(result.seed)\(simulator.isLite ? " (lite)" : "")\(simulator.callsOnly ? " (calls only)" : ""): \(result.violations.count) violations. The first one, with \
            \(story.acts) of \(story.plannedActs) acts; \(story.faults):
            """)
        for violation in (story.violations.isEmpty ? result.violations : story.violations).prefix(1) {
            writeOutput("\(violation)\n")
        }
        if isTraced { for line in story.lines { writeOutput("    | \(line)") } }
    }

    private static func rounded(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded())
        return "\(tenths / 10).\(tenths % 10)"
    }
}
