import BellwireCommands

/// The program by which developers measure and test Bellwire. The image does not contain this program.
@main
struct Main {
    static func main() {
        Program(name: "bellwire-lab", help: help).main { command, words in
            switch command {
            case "bench": try BenchCommand.run(words)
            case "simulate": try SimulateCommand.run(words)
            case "check-history": try CheckHistoryCommand.run(words)
            case "serve": try FaultyServeCommand.run(words)
            default: return false
            }
            return true
        }
    }

    private static let help = """
        usage: bellwire-lab COMMAND [options]

        commands:
          bench    measure full calls through a deployment on this machine
          simulate play deployments with faults in virtual time
          check-history
                   check the messages that devices saw against the protocol
          serve    run a coordinator with a store that is broken on purpose

        bellwire-lab COMMAND --help lists a command's options.
        """
}
