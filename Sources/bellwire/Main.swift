import Glibc

/// The one executable: a thin layer of subcommands over the libraries.
@main
struct Main {
    /// Synchronous, so that a subcommand runs before any other thread exists: signals are set up for the whole process
    /// by whoever comes first. A subcommand that awaits goes through `runAsync`.
    static func main() {
        // A reader that goes away, of output or of a socket, must not end the process: writes fail with EPIPE instead.
        signal(SIGPIPE, SIG_IGN)
        var words = Array(CommandLine.arguments.dropFirst())
        let name = words.isEmpty ? "help" : words.removeFirst()
        do {
            switch name {
            case "dev": try DevCommand.run(words)
            case "gateway": try GatewayCommand.run(words)
            case "serve": try ServeCommand.run(words)
            case "call": runAsync(name) { [words] in try await Phone.call(words) }
            case "send": runAsync(name) { [words] in try await SendCommand.run(words) }
            case "trace": runAsync(name) { [words] in try await TraceCommand.run(words) }
            case "keys": try KeysCommand.run(words)
            case "token": try TokenCommand.run(words)
            case "simulate": try SimulateCommand.run(words)
            case "bench": try BenchCommand.run(words)
            case "push": try PushCommand.run(words)
            case "webhooks": try WebhooksCommand.run(words)
            case "check-history": try CheckHistoryCommand.run(words)
            case "listen": runAsync(name) { [words] in try await Phone.listen(words) }
            case "help", "--help", "-h": print(help)
            case "version", "--version": print("bellwire \(version)")
            default: throw UsageError("bellwire: unknown command \(name); see bellwire help")
            }
        } catch {
            exit(reported(error, name))
        }
    }

    static let version = "0.2.0"

    private static let help = """
        usage: bellwire COMMAND [options]

        commands:
          dev      everything on this machine: broker, coordinator, a demonstration call
          serve    a coordinator
          gateway  REST for backends
          call     call somebody from this terminal
          listen   wait for calls in this terminal
          send     a message to somebody, and what becomes of it
          trace    why a phone did or did not ring
          keys     make the keys that sign tokens
          token    make a token
          push     keys for pushes to sleeping phones
          webhooks what waits for endpoints, dead letters, and sending them again
          bench    measure full calls through a deployment on this machine
          simulate play deployments with faults in virtual time
          check-history
                   hold what devices saw against what the protocol promises

        bellwire COMMAND --help lists a command's options.
        """
}

/// Writes what went wrong in one line. Returns the exit status for it.
func reported(_ error: any Error, _ command: String) -> Int32 {
    if let usage = error as? UsageError {
        // What was given may hold anything: it is one line, and drives no terminal.
        writeError(PhoneTimeline.printable("\(usage)"))
        return UsageError.exitStatus
    }
    writeError("bellwire \(command): \(error)")
    return 1
}

/// Runs a subcommand that awaits, and exits with the status that it returns.
func runAsync(_ command: String, _ body: @escaping @Sendable () async throws -> Int32) -> Never {
    Task.detached {
        do {
            exit(try await body())
        } catch {
            exit(reported(error, command))
        }
    }
    while true { pause() }
}
