import BellwireCommands

/// `bellwire-lab serve`: `bellwire serve` with a broken store (`scripts/chaos --self-test`).
enum FaultyServeCommand {
    private static let faults = FaultyCallStore.Fault.allCases.map(\.rawValue).joined(separator: ", ")

    private static let command = ServeCommand.command.variant(
        in: "bellwire-lab",
        summary: "Runs a coordinator as `bellwire serve` does, with a store that is broken on purpose.",
        more: [Option("fault", "FAULT", "the fault of the store: \(faults)")])

    static func run(_ words: [String]) throws {
        let arguments = try Arguments(command, words)
        let fault = try arguments.required("fault", faults, FaultyCallStore.Fault.init(rawValue:))
        try ServeCommand.run(arguments) { FaultyCallStore($0, fault: fault) }
    }
}
