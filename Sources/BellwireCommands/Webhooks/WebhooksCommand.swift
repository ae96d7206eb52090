import CallCore
import CallStore
import Delivery
import Glibc
import MQTTClient
import SignalingProtocol
import Support

/// `bellwire webhooks`: shows and changes the outbox and the dead letters of endpoints (docs/webhooks.md, Command
/// line).
package enum WebhooksCommand {
    private static let storeOptions =
        StoreOptions.visitedByCommand + [
            Option("endpoint", "NAME", default: "", "only this endpoint")
        ]
    private static let letterOptions = [
        Option("id", "ID", default: "", "only the dead letter with this webhook-id"),
        Option("since", "RFC3339", default: "", "only events at this time or later, such as 2026-11-23T08:30:00Z"),
    ]

    private static let list = Command(
        name: "webhooks list", arguments: "",
        summary: """
            Shows each endpoint: its state, the number and age of waiting webhooks, its dead letters, and the result of
            its last attempt.
            """,
        options: storeOptions, positionals: 0...0)
    private static let dead = Command(
        name: "webhooks dead", arguments: "", summary: "Prints the ids of dead letters, the oldest first.",
        options: storeOptions + letterOptions, positionals: 0...0)
    private static let replay = Command(
        name: "webhooks replay", arguments: "",
        summary: "Sends dead letters again, each in its place: all, or those that the options name.",
        options: storeOptions + letterOptions, positionals: 0...0)
    private static let on = Command(
        name: "webhooks on", arguments: "",
        summary: """
            Turns an endpoint on again that was turned off because it answered 410. bellwire webhooks replay sends the
            events that became dead letters meanwhile.
            """,
        options: storeOptions, positionals: 0...0)
    private static let forget = Command(
        name: "webhooks forget", arguments: "",
        summary: """
            Removes an endpoint that no settings name any more, with its waiting webhooks and dead letters. A process
            whose settings name the endpoint adds it again when the process starts.
            """,
        options: storeOptions, positionals: 0...0)

    private static let usage = """
        usage: bellwire webhooks list|dead|replay|on|forget --store STORE [options]

        commands:
          webhooks list     endpoints, their waiting webhooks and dead letters, and their last attempts
          webhooks dead     the ids of dead letters
          webhooks replay   send dead letters again
          webhooks on       turn an endpoint on again that answered 410
          webhooks forget   remove an endpoint
        """

    package static func run(_ words: [String]) throws {
        var words = words
        let name = words.isEmpty ? "" : words.removeFirst()
        switch name {
        case "list": try list(words)
        case "dead": try dead(words)
        case "replay": try replay(words)
        case "on": try on(words)
        case "forget": try forget(words)
        case "--help", "-h", "help": print(usage)
        default:
            throw UsageError(
                "bellwire webhooks: expected list, dead, replay, on or forget; see bellwire webhooks --help")
        }
    }

    /// The wait in microseconds until coordinators have read the list of endpoints, which they read every second.
    private static let rereading: UInt32 = 2_000_000

    // MARK: Commands

    private static func list(_ words: [String]) throws {
        let outbox = try OpenOutbox(try Arguments(list, words), list.name)
        for endpoint in try outbox.endpoints() {
            let count = try outbox.ask { store throws(StoreError) in try await store.count(endpoint.name) }
            let now = try outbox.ask { store throws(StoreError) in try await store.now() }
            let age = count.oldest.map { ", the oldest for \(max(0, now - $0) / 1_000) s" } ?? ""
            let state = endpoint.isOff ? "off (it answered 410)" : "on"
            writeOutput(
                "\(endpoint.name): \(state), \(count.waiting) waiting\(age), \(count.dead) dead, \(count.bytes) bytes,"
                    + " events \(endpoint.patterns)" + (endpoint.lastAttempt.map { ", last attempt: \($0)" } ?? ""))
        }
    }

    private static func dead(_ words: [String]) throws {
        let arguments = try Arguments(dead, words)
        let outbox = try OpenOutbox(arguments, dead.name)
        let wanted = try Wanted(arguments, dead.name)
        for endpoint in try outbox.endpoints() {
            for letter in try outbox.letters(endpoint.name, wanted) {
                writeOutput("\(endpoint.name) \(timestamp(letter.time)) \(letter.webhookID ?? "unreadable")")
            }
        }
    }

    private static func replay(_ words: [String]) throws {
        let arguments = try Arguments(replay, words)
        let outbox = try OpenOutbox(arguments, replay.name)
        let wanted = try Wanted(arguments, replay.name)
        for endpoint in try outbox.endpoints() {
            let letters = try outbox.letters(endpoint.name, wanted)
            var count = 0
            // Dead letters are replayed in small steps, so that no other process waits long for the store.
            for start in stride(from: 0, to: letters.count, by: 64) {
                let some = Array(letters[start..<min(letters.count, start + 64)])
                count += try outbox.ask { store throws(StoreError) in
                    try await store.replay(some, of: endpoint.name)
                }
            }
            writeOutput("\(endpoint.name): \(count) to be sent again")
            if endpoint.isOff, count > 0 {
                writeError(
                    """
                    \(endpoint.name) is off: the events become dead letters again, until its url changes or \
                    bellwire webhooks on --endpoint \(endpoint.name) turns it on
                    """)
            }
        }
    }

    private static func on(_ words: [String]) throws {
        let arguments = try Arguments(on, words)
        let name = try endpoint(arguments, on.name)
        let outbox = try OpenOutbox(arguments, on.name)
        guard try outbox.ask({ store throws(StoreError) in try await store.turnOn(name) }) else {
            throw UsageError("bellwire webhooks on: there is no endpoint \(name)")
        }
        // Until the workers have read that the endpoint is on, they make dead letters of replayed events.
        usleep(rereading)
        writeOutput("\(name): on")
    }

    private static func endpoint(_ arguments: Arguments, _ command: String) throws -> EndpointName {
        guard arguments.text("endpoint").map({ !$0.isEmpty }) ?? false else {
            throw UsageError("bellwire \(command): --endpoint is required")
        }
        return try arguments.required("endpoint", "the name of an endpoint", EndpointName.init)
    }

    private static func forget(_ words: [String]) throws {
        let arguments = try Arguments(forget, words)
        let name = try endpoint(arguments, forget.name)
        let outbox = try OpenOutbox(arguments, forget.name)
        let known = try outbox.ask { store throws(StoreError) in try await store.endpoints() }
        try outbox.ask { store throws(StoreError) in try await store.forget(name) }
        // Until the coordinators have read that the endpoint is gone, they add events to its outbox.
        usleep(rereading)
        // An unknown endpoint is cleared as well: an earlier `forget` may have been interrupted here.
        while try outbox.ask({ store throws(StoreError) in try await store.clear(name) }) {}
        guard known.contains(where: { $0.name == name }) else {
            throw UsageError("bellwire webhooks forget: there is no endpoint \(name)")
        }
        writeOutput("\(name): forgotten")
    }
}

/// The dead letters that the options name.
private struct Wanted {
    let id: String?
    let since: Milliseconds

    init(_ arguments: Arguments, _ command: String) throws {
        id = arguments.text("id").flatMap { $0.isEmpty ? nil : $0 }
        guard let text = arguments.text("since"), !text.isEmpty else {
            since = 0
            return
        }
        guard let moment = moment(text) else {
            throw UsageError("bellwire \(command): --since \(text): expected a moment like 2026-11-23T08:30:00Z")
        }
        since = moment
    }
}

/// The outbox of a store that other processes serve at the same time.
private struct OpenOutbox {
    private let store: VisitedStore<any CallStore & OutboxStore>
    private let only: String?
    private let command: String

    init(_ arguments: Arguments, _ command: String) throws {
        self.command = command
        only = arguments.text("endpoint").flatMap { $0.isEmpty ? nil : $0 }
        let visited = try StoreOptions.visited(arguments)
        store = VisitedStore(visited, visited, "bellwire \(command)")
    }

    func ask<Value>(
        _ question: @escaping (any CallStore & OutboxStore) async throws(StoreError) -> Value
    ) throws -> Value {
        try store.ask(question)
    }

    func endpoints() throws -> [KeptEndpoint] {
        let all = try ask { store throws(StoreError) in try await store.endpoints() }
        guard let only else { return all }
        let one = all.filter { $0.name.string == only }
        guard !one.isEmpty else { throw UsageError("bellwire \(command): there is no endpoint \(only)") }
        return one
    }

    func letters(_ endpoint: EndpointName, _ wanted: Wanted) throws -> [DeadLetter] {
        let letters = try ask { store throws(StoreError) in
            try await store.deadLetters(endpoint, since: wanted.since, limit: 100_000)
        }
        return letters.filter { letter in wanted.id.map { $0 == letter.webhookID } ?? true }
    }
}
