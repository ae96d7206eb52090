import BellwireCommands

/// What developers measure and break Bellwire with. It is not in the image.
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
                   hold what devices saw against what the protocol promises
          serve    a coordinator whose store is broken on purpose, to test the tests

        bellwire-lab COMMAND --help lists a command's options.
        """
}
