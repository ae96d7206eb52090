import BellwireCommands
import Glibc
import HistoryChecker

/// `bellwire-lab check-history`: checks the history of a chaos run.
enum CheckHistoryCommand {
    static let command = Command(
        program: "bellwire-lab", name: "check-history", arguments: "FILE",
        summary: """
            Reads the messages that devices saw, one JSON object a line (Tests/ChaosTests/README.md), and prints each
            violation of the protocol with its messages, and a summary. Exit status 1 if there is a violation.
            """,
        options: [
            Option("stories", "N", default: "10", "how many violations are printed in full"),
            Option("timer-tolerance", "DURATION", default: "50ms", "how late a timer may fire undisturbed"),
        ], positionals: 1...1)

    static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        let stories = try arguments.integer("stories", in: 0...10_000)
        var tolerances = Tolerances()
        tolerances.timer = try arguments.milliseconds("timer-tolerance", in: 1...10_000)
        var checker = HistoryChecker(tolerances: tolerances)
        var number = 0
        try forEachLine(of: arguments.positionals[0]) { line in
            number += 1
            do throws(HistoryLineError) {
                if let entry = try HistoryEntry.decode(line: line) { checker.observe(entry) }
            } catch {
                throw FileError(description: "\(arguments.positionals[0]):\(number): \(error)")
            }
        }
        checker.finish()
        for violation in checker.violations.prefix(stories) { print("\(violation)\n") }
        if checker.violations.count > stories {
            print("… and more violations: --stories \(checker.violations.count)\n")
        }
        print(checker.summary)
        exit(checker.violations.isEmpty ? 0 : 1)
    }

    private struct FileError: Error, CustomStringConvertible { let description: String }

    /// Reads the file line by line, so that a history of any length can be checked.
    private static func forEachLine(of path: String, _ body: ([UInt8]) throws -> Void) throws {
        guard let file = fopen(path, "r") else {
            throw FileError(description: "\(path): \(String(cString: strerror(errno)))")
        }
        defer { fclose(file) }
        var buffer: UnsafeMutablePointer<CChar>?
        var capacity = 0
        defer { free(buffer) }
        while true {
            let count = getline(&buffer, &capacity, file)
            guard count > 0, let buffer else { return }
            let line = UnsafeRawBufferPointer(start: buffer, count: count)
            // If a run was interrupted, the last line may be incomplete.
            guard line.last == UInt8(ascii: "\n") else { return }
            try body([UInt8](line.dropLast()))
        }
    }
}
