import Glibc

package let bellwireVersion = "0.2.0"

/// A program of subcommands: the first word names one, and the rest are its own.
package struct Program {
    let name: String
    let help: String

    package init(name: String, help: String) {
        self.name = name
        self.help = help
    }

    /// `run` is given the subcommand and its words, and answers false when it knows none of this name.
    ///
    /// Synchronous, so that a subcommand runs before any other thread exists: signals are set up for the whole process
    /// by whoever comes first. A subcommand that awaits goes through `runAsync`.
    package func main(_ run: (_ command: String, _ words: [String]) throws -> Bool) {
        // A reader that goes away, of output or of a socket, must not end the process: writes fail with EPIPE instead.
        signal(SIGPIPE, SIG_IGN)
        var words = Array(CommandLine.arguments.dropFirst())
        let command = words.isEmpty ? "help" : words.removeFirst()
        do {
            switch command {
            case "help", "--help", "-h": print(help)
            case "version", "--version": print("\(name) \(bellwireVersion)")
            default:
                guard try run(command, words) else {
                    throw UsageError("\(name): unknown command \(command); see \(name) help")
                }
            }
        } catch {
            exit(reported(error, command))
        }
    }

    /// Runs a subcommand that awaits, and exits with the status that it returns.
    package func runAsync(_ command: String, _ body: @escaping @Sendable () async throws -> Int32) -> Never {
        Task.detached {
            do {
                exit(try await body())
            } catch {
                exit(reported(error, command))
            }
        }
        while true { pause() }
    }

    /// Writes what went wrong in one line. Returns the exit status for it.
    private func reported(_ error: any Error, _ command: String) -> Int32 {
        if let usage = error as? UsageError {
            // What was given may hold anything: it is one line, and drives no terminal.
            writeError(PhoneTimeline.printable("\(usage)"))
            return UsageError.exitStatus
        }
        writeError("\(name) \(command): \(error)")
        return 1
    }
}
