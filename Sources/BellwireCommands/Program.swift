import CProcess
import Glibc

package let bellwireVersion = "0.2.0"

/// The first digits of the commit that was built, or `unknown`.
package let bellwireCommit = String(cString: bellwire_commit())

/// A program of subcommands: the first word names the subcommand, and the other words are its arguments.
package struct Program {
    let name: String
    let help: String

    package init(name: String, help: String) {
        self.name = name
        self.help = help
    }

    /// Runs the subcommand of the command line. `run` receives the subcommand and its words, and returns false for an
    /// unknown subcommand.
    ///
    /// This function is synchronous, so that a subcommand runs before any other thread exists and can set up signals
    /// for the whole process. An asynchronous subcommand uses `runAsync`.
    package func main(_ run: (_ command: String, _ words: [String]) throws -> Bool) {
        // If the reader of the output or of a socket goes away, the process must not end: writes fail with EPIPE
        // instead.
        signal(SIGPIPE, SIG_IGN)
        var words = Array(CommandLine.arguments.dropFirst())
        let command = words.isEmpty ? "help" : words.removeFirst()
        do {
            switch command {
            case "help", "--help", "-h": print(help)
            case "version", "--version": print("\(name) \(bellwireVersion) (\(bellwireCommit))")
            default:
                guard try run(command, words) else {
                    throw UsageError("\(name): unknown command \(command); see \(name) help")
                }
            }
        } catch {
            exit(reported(error, command))
        }
    }

    /// Runs an asynchronous subcommand, and exits with the status that the subcommand returns.
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

    /// Writes the error as a single line. Returns the error's exit status.
    private func reported(_ error: any Error, _ command: String) -> Int32 {
        if let usage = error as? UsageError {
            // The command line may contain any bytes: the message must stay one line, and must not control the
            // terminal.
            writeError(PhoneTimeline.printable("\(usage)"))
            return UsageError.exitStatus
        }
        writeError("\(name) \(command): \(error)")
        return 1
    }
}
