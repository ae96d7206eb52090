import CallStore
import Glibc
import Support

/// `bellwire top`: a deployment at a glance (docs/operations.md, At a glance).
package enum TopCommand {
    private static let clear = "\u{1B}[H\u{1B}[2J"

    private static let command = Command(
        name: "top", arguments: "",
        summary: """
            Shows a deployment at a glance: rates and times between two readings, the state of each process, and what is
            wrong. Processes are read by their /metrics and /readyz.
            """,
        options: ProcessReader.options + [
            Option("interval", "S", default: "2", "the seconds between two readings: 1 to 60"),
            Option(switch: "once", "print one page, after two readings, and exit with 1 when something is wrong"),
        ] + StoreOptions.examined,
        positionals: 0...0)

    /// Runs the command. Returns the exit status.
    package static func run(_ words: [String]) throws -> Int32 {
        let arguments = try Arguments(command, words)
        let interval = try arguments.integer("interval", in: 1...60)
        var reader = try ProcessReader(arguments)
        defer { reader.stop() }
        let store = try TopStoreReader(arguments)
        var before = reader.read()
        while true {
            sleep(UInt32(interval))
            let now = reader.read()
            let page = TopPage(
                before: before, now: now, store: store.read(), time: Double(SystemClock.wall.milliseconds) / 1_000)
            before = now
            if arguments.isSet("once") {
                writeOutput(page.text)
                return page.isSound ? 0 : 1
            }
            writeOutput((isatty(STDOUT_FILENO) == 1 ? clear : "") + page.text + "\n")
        }
    }
}

/// The store of the command line, where one is given.
private struct TopStoreReader {
    private let store: VisitedStore<any CallStore>?

    init(_ arguments: Arguments) throws {
        store = try StoreOptions.openForExamination(arguments).map { VisitedStore($0, $0, "the store") }
    }

    func read() -> TopStore {
        guard let store else { return .notAsked }
        do {
            return .counted(try store.ask { store throws(StoreError) in try await store.liveCounts() })
        } catch {
            return .failed("\(error)")
        }
    }
}
