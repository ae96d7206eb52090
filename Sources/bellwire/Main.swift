import BellwireCommands

/// What operators run: a thin layer of subcommands over the libraries.
@main
struct Main {
    static func main() {
        let program = Program(name: "bellwire", help: help)
        program.main { command, words in
            switch command {
            case "dev": try DevCommand.run(words)
            case "gateway": try GatewayCommand.run(words)
            case "serve": try ServeCommand.run(words)
            case "call": program.runAsync(command) { try await Phone.call(words) }
            case "send": program.runAsync(command) { try await SendCommand.run(words) }
            case "trace": program.runAsync(command) { try await TraceCommand.run(words) }
            case "keys": try KeysCommand.run(words)
            case "token": try TokenCommand.run(words)
            case "push": try PushCommand.run(words)
            case "webhooks": try WebhooksCommand.run(words)
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

        bellwire COMMAND --help lists a command's options.
        """
}
