import BellwireCommands
import Glibc

/// The program for operators: a thin layer of subcommands over the libraries.
@main
struct Main {
    static func main() {
        let program = Program(name: "bellwire", help: help)
        program.main { command, words in
            switch command {
            case "dev": try DevCommand.run(words)
            case "gateway": try GatewayCommand.run(words)
            case "serve": try ServeCommand.run(words)
            case "config": try ConfigCommand.run(words)
            case "doctor": exit(try DoctorCommand.run(words))
            case "top": exit(try TopCommand.run(words))
            case "bugreport": try BugReportCommand.run(words)
            case "call": program.runAsync(command) { try await Phone.call(words) }
            case "send": program.runAsync(command) { try await SendCommand.run(words) }
            case "trace": program.runAsync(command) { try await TraceCommand.run(words) }
            case "keys": try KeysCommand.run(words)
            case "token": try TokenCommand.run(words)
            case "push": try PushCommand.run(words)
            case "webhooks": try WebhooksCommand.run(words)
            case "admin": exit(try AdminCommand.run(words))
            case "backup": try BackupCommand.run(words)
            case "restore": try RestoreCommand.run(words)
            case "listen": program.runAsync(command) { try await Phone.listen(words) }
            case "bench", "simulate", "check-history":
                throw UsageError("bellwire: unknown command \(command): it is bellwire-lab \(command)")
            default: return false
            }
            return true
        }
    }

    private static let help = """
        usage: bellwire COMMAND [options]

        commands:
          dev      a broker, a coordinator and a demonstration call on this machine
          serve    run a coordinator
          gateway  run a gateway: REST for backends
          config   print or check a settings file
          doctor   try a broker and a store, and say what mends a fault
          top      show a deployment at a glance
          bugreport  collect what a bug report needs, without secrets
          call     call a user from this terminal
          listen   wait for calls in this terminal
          send     send a message to a user, and print its outcome
          trace    print why a phone did or did not ring
          keys     make the keys that sign tokens
          token    make a token
          push     make keys for pushes, and test pushes to sleeping phones
          webhooks show the outbox of each endpoint; list and replay dead letters
          admin    look at calls and end them, sign users out, read the audit log
          backup   copy a store into a file, while calls go on
          restore  write a backup into an empty store

        bellwire COMMAND --help lists a command's options.
        """
}
